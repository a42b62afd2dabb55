"""The biggest finding of a run, in one sentence."""

from dataclasses import dataclass

import polars as pl

from ms_profiler.analysis.metrics.phases import COMPUTING, NAMES, OTHER
from ms_profiler.store.format import Category, StepSource

#: a compilation that takes this part of the run is the finding
COMPILE_SHARE = 0.5
#: waiting that takes this part of a step is the finding, although more time is spent computing
WAIT_SHARE = 0.2
#: a primitive that takes this part of the kernel time is named
KERNEL_SHARE = 0.2
#: characters of a name in a sentence: those of C++ templates go on for thousands
NAME_MOST = 80
#: time outside every phase that hides what a step is spent on
OUTSIDE_SHARE = 0.5

_DATA = NAMES[Category.DATA]
_WAITS = {
    _DATA: "waits for data",
    NAMES[Category.COMMUNICATION]: "is communication that nothing hides",
    NAMES[Category.SYNC]: "waits for the device",
    NAMES[Category.CHECKPOINT]: "writes checkpoints",
}
#: states of a device: what they are called as a phase, and in the sentence
_STATES = {
    "computing": ("computing", "is spent computing"),
    "not_overlapped": (NAMES[Category.COMMUNICATION], _WAITS[NAMES[Category.COMMUNICATION]]),
    "free": ("free", "is free: it waits for the host"),
}


@dataclass(frozen=True)
class Finding:
    """What stands out: which phase, how much of what, and the sentence that says so.

    Attributes:
        kind: a phase, or "nothing".
        share: of the run for "compile", of the steady steps otherwise.
    """

    kind: str
    share: float
    sentence: str


def finding(
    shares: pl.DataFrame,
    source: StepSource,
    steps: int,
    compile_ns: int,
    before_ns: int,
    run_ns: int,
    kernels: pl.DataFrame | None = None,
) -> Finding:
    """Choose the biggest finding: compiling, then waiting, then the largest phase.

    Args:
        shares: of `phases.shares`.
        source: who said where a step ends.
        steps: recorded steps.
        compile_ns: time in which something was compiled.
        before_ns: from the start of the run to the end of the last step that compiled; 0 when none did.
        run_ns: duration of the run.
        kernels: of `kernels.by_type`, where there are any.
    """
    whole = source == StepSource.WHOLE_RUN
    unit = "run" if whole else "step"
    if compile_ns and run_ns > 0 and compile_ns / run_ns >= COMPILE_SHARE:
        total = f"{_seconds(before_ns)} until the last step that compiled ended" if before_ns and not whole else ""
        return Finding(
            NAMES[Category.COMPILE],
            compile_ns / run_ns,
            f"Compiling took {_seconds(compile_ns)} of {total or 'the run of ' + _seconds(run_ns)}.",
        )
    ranked = [(phase, share) for phase, share in shares.select("phase", "steady_share").iter_rows() if phase != OTHER]
    ranked.sort(key=lambda item: -item[1])
    waits = [(phase, share) for phase, share in ranked if phase in _WAITS and share >= WAIT_SHARE]
    if waits:
        phase, share = waits[0]
        return Finding(phase, share, f"{_percent(share)} of the {unit} {_WAITS[phase]}.")
    if not steps or not ranked or ranked[0][1] <= 0:
        what = "No step was recorded." if whole or not steps else "Nothing inside the steps was recorded."
        return Finding("nothing", 0.0, what)
    phase, share = ranked[0]
    outside = dict(shares.select("phase", "steady_share").iter_rows()).get(OTHER, 0.0)
    if outside >= OUTSIDE_SHARE:
        return Finding(OTHER, outside, f"{_percent(outside)} of the {unit} is in code that nothing here measures.")
    subject = "The run is" if whole else "The steps are"
    return Finding(phase, share, f"{subject} dominated by {phase} ({_percent(share)}){_leading(phase, kernels)}.")


def of_device(times: pl.DataFrame, kernels: pl.DataFrame) -> Finding:
    """Choose the largest part of the time that a device was watched: computing, communication alone, or neither.

    share = sum over the steps of one of these / of all three.

    Args:
        times: of `overlap.by_step`.
        kernels: of `kernels.by_type`.
    """
    sums = {name: int(times[name].sum()) for name in _STATES}
    total = sum(sums.values())
    if total <= 0:
        return Finding("nothing", 0.0, "Nothing ran on the device in the steps.")
    kind = max(sums, key=lambda name: sums[name])
    share = sums[kind] / total
    leading = ""
    if kind == "computing" and not kernels.is_empty():
        leading = _most(kernels)
    return Finding(_STATES[kind][0], share, f"{_percent(share)} of the device's time {_STATES[kind][1]}{leading}.")


def _leading(phase: str, kernels: pl.DataFrame | None) -> str:
    """Return which kernels take most time where the finding is that the model is computed."""
    if phase not in COMPUTING or kernels is None or kernels.is_empty() or kernels["ratio"][0] < KERNEL_SHARE:
        return ""
    return _most(kernels)


def _most(kernels: pl.DataFrame) -> str:
    name = kernels["name"][0]
    shown = name if len(name) <= NAME_MOST else f"{name[: NAME_MOST - 3]}..."
    return f"; {_percent(kernels['ratio'][0])} of the kernel time is {shown}"


def _percent(share: float) -> str:
    return f"{share * 100:.0f} %"


def _seconds(nanoseconds: int) -> str:
    seconds = nanoseconds / 1e9
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"
