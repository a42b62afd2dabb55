"""Check whether runs may be compared: every run must be complete, and all need the same workload and machine type."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ms_profiler.analysis.comparison.digest import Digest, Fingerprint
from ms_profiler.analysis.driver import liveness

#: smallest number of steady steps (steps after the warm-up) from which the step time of a run is computed
STEPS = 3
#: properties that must be the same in all runs. `host` is not among them, because each container has a new host name.
_SAME = {
    "cpu": "processor",
    "cores": "number of processors",
    "device": "device",
    "python": "version of Python",
    "framework": "framework",
    "mode": "mode of the framework",
    "threads": "threads of an operator",
    "world_size": "number of ranks",
    "network": "network",
    "options": "options of the recording",
}
#: properties that may differ between the runs; the gate reports the difference and compares the runs all the same
_REPORTED = {"profiler": "version of ms-profiler", "modules": "number of modules"}
_WHOLE_RUN = "whole_run"
_NO_ERROR = liveness.with_code(0)
#: Values in a run's record for the end of a process that did not fail. Jobs may end by `os._exit(0)`, for example
#: because a library crashes at Python's exit.
_WELL = (liveness.EXIT, liveness.STOPPED, "", _NO_ERROR, _NO_ERROR + liveness.ABRUPT)


def faults(digest: Digest) -> Iterator[str]:
    """Yield a sentence for each part of a run that is missing or failed.

    Args:
        digest: the digest of the run.
    """
    whole, name = digest.completeness, digest.source
    if whole.missing:
        numbers = ", ".join(map(str, whole.missing))
        yield f"{name} lacks rank {numbers} of {whole.expected}."
    if whole.dropped:
        yield f"{name} lacks {whole.dropped} records: its option max_disk left no room for them."
    if whole.damaged:
        yield f"{name} has {whole.damaged} records or files that cannot be read."
    for ended in whole.ended:
        if ended not in _WELL:
            yield f"{name} did not end by itself: {ended}."
    if digest.step.source == _WHOLE_RUN:
        yield f"{name} has no steps: nothing in the job reports where a step ends."
    elif digest.step.count < STEPS:
        steps = "step" if digest.step.count == 1 else "steps"
        yield f"{name} has {digest.step.count} steady {steps}; a median needs {STEPS} or more."
    elif digest.step.median_ns <= 0:
        yield f"{name} has steps that take no time."


def ended_well(digest: Digest) -> Digest:
    """Return the digest of a run whose command ended with exit code 0, as the gate has seen.

    A process that ends by `os._exit` cannot record its end. So the digest alone says that the process was killed or
    vanished, or, on another host, that its end is unknown.

    Args:
        digest: the digest of the run.
    """
    whole = digest.completeness
    unrecorded = (liveness.VANISHED, liveness.UNKNOWN)
    ended = tuple(_NO_ERROR if each in unrecorded else each for each in whole.ended)
    return replace(digest, completeness=replace(whole, ended=ended))


def mismatches(base: Fingerprint, new: Fingerprint) -> list[str]:
    """Return a sentence for each difference between two runs because of which they cannot be compared."""
    return [
        f"the {what} differs: {_text(getattr(base, key))} and {_text(getattr(new, key))}."
        for key, what in _SAME.items()
        if getattr(base, key) != getattr(new, key)
    ]


def remarks(base: Fingerprint, new: Fingerprint) -> list[str]:
    """Return a sentence for each difference between two runs that may be compared all the same."""
    return [
        f"The {what} differs: {_text(getattr(base, key))} and {_text(getattr(new, key))}."
        for key, what in _REPORTED.items()
        if getattr(base, key) != getattr(new, key)
    ]


def reasons(base: Sequence[Digest], new: Sequence[Digest], fingerprint: Fingerprint | None = None) -> list[str]:
    """Return the reasons why runs of the old and the new version cannot be compared; empty if they can.

    Args:
        base: the runs of the old version; empty if a stored baseline stands for them.
        new: the runs of the new version.
        fingerprint: machine, versions and workload of the stored baseline's runs.
    """
    found = list(dict.fromkeys(fault for run in (*base, *new) for fault in faults(run)))
    prints = [run.fingerprint for run in (*base, *new)]
    first = fingerprint or prints[0]
    return found + list(dict.fromkeys(text for each in prints for text in mismatches(first, each)))


def _text(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, dict):
        return ", ".join(f"{key}={each}" for key, each in sorted(value.items())) or "none"
    return str(value) or "unknown"
