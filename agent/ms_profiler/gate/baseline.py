"""Read and write a baseline, a file that stands for the old version of a job and is small enough to commit.

The file has the figures of each run of the old version and all key figures (the digest) of a typical run. The gate
replaces a baseline only after a pass of the step time. A baseline made from slower runs would hide the regression from
then on.
"""

import json
import os
import statistics
from dataclasses import dataclass
from typing import Any, Final

from ms_profiler.analysis.comparison.digest import Digest, Fingerprint
from ms_profiler.errors import StoreError
from ms_profiler.gate import figures, noise
from ms_profiler.gate.errors import NotWrittenError
from ms_profiler.gate.figures import Figure
from ms_profiler.gate.verdicts import RUNS, Decision, Verdict

#: version of the format: ms-profiler reads files of this and of earlier versions, and refuses those of later versions
FORMAT: Final = 1
KIND: Final = "ms-profiler baseline"


@dataclass(frozen=True)
class Baseline:
    """The runs of the old version of a job, as stored in a file.

    Attributes:
        runs: the figures of each run, by name.
        typical: the digest of the run with the median step time. The gate compares new runs with it, to find which
            parts of a step got slower.
    """

    runs: tuple[dict[str, Figure], ...]
    typical: Digest

    @property
    def fingerprint(self) -> Fingerprint:
        """Return machine, versions and workload of the baseline's runs; new runs must have the same to be compared."""
        return self.typical.fingerprint

    @property
    def step_times(self) -> list[float]:
        """Return the step time of each run, in ms."""
        return [run[figures.STEP].value for run in self.runs]

    def floor(self) -> float | None:
        """Return the smallest threshold that a gate can use with the noise of these runs; None for too few runs.

        The result assumes that a gate compares the baseline with as many new runs as the baseline has.
        """
        return noise.floor(self.step_times, len(self.runs))


def of(digests: list[Digest]) -> Baseline:
    """Return the baseline for some runs.

    Args:
        digests: the digest of each run, at least one.
    """
    reference = typical(digests)
    return Baseline(tuple(figures.of(digest, reference) for digest in digests), reference)


def typical(digests: list[Digest]) -> Digest:
    """Return the run with the median step time; of an even number of runs, the faster of the two in the middle."""
    middle = statistics.median_low([digest.step.median_ns for digest in digests])
    return next(digest for digest in digests if digest.step.median_ns == middle)


def kept(decision: Decision) -> str:
    """Return a sentence that says why the runs of a gate must not replace its baseline; empty if they may.

    With too few runs, the gate passes without a decision about time. If such runs replaced the baseline, each of them
    could be slower than the one before.

    Args:
        decision: the verdict on the runs, from a comparison with the baseline.
    """
    if decision.verdict is not Verdict.PASS:
        return "a baseline changes only on a pass. --accept replaces it in any case."
    if any(one.metric.name == figures.STEP and one.verdict is Verdict.PASS for one in decision.judged):
        return ""
    if decision.base_runs < RUNS:
        few, remedy = f"it has {_runs(decision.base_runs)}", f"To store {RUNS} or more in its place, add --accept."
    else:
        few, remedy = _runs(decision.new_runs), f"Name {RUNS} runs or more, or add --accept to replace it in any case."
    return f"{few}, too few to decide whether the step got longer. {remedy}"


def _runs(number: int) -> str:
    return f"{number} {'run' if number == 1 else 'runs'}"


def write(path: str, baseline: Baseline) -> None:
    """Write a baseline to a file, replacing the file atomically; make the file's folder if it is missing.

    Args:
        path: the path of the file.
        baseline: the baseline to write.

    Raises:
        UsageError: the file cannot be written.
    """
    from ms_profiler import __version__

    content = {
        "kind": KIND,
        "format": FORMAT,
        "product": __version__,
        "floor": baseline.floor(),
        "runs": [{name: [figure.value, figure.least] for name, figure in run.items()} for run in baseline.runs],
        "typical": baseline.typical.to_dict(),
    }
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        with open(temporary, "w", encoding="utf-8") as stream:
            json.dump(content, stream, indent=1)
            stream.write("\n")
        os.replace(temporary, path)
    except OSError as error:
        raise NotWrittenError(path, error) from None


def read(path: str) -> Baseline:
    """Read a baseline of this format or an earlier one.

    Args:
        path: the path of the file.

    Raises:
        StoreError: the file holds no baseline, or a baseline of a later version.
    """
    remedy = f"Make one: `ms-profiler gate --save {path} DIR...`."
    try:
        with open(path, encoding="utf-8") as stream:
            content: Any = json.load(stream)
    except OSError as error:
        raise StoreError(f"There is no baseline {path}: {error.strerror}.", remedy) from None
    except (ValueError, RecursionError) as error:
        raise StoreError(f"{path} is no JSON ({error}).", remedy) from None
    if not isinstance(content, dict) or content.get("kind") != KIND:
        raise StoreError(f"{path} is no baseline of a gate.", remedy)
    if not isinstance(version := content.get("format"), int) or version > FORMAT:
        raise StoreError(f"{path} has format {version!r}, this reads {FORMAT}.", "Update ms-profiler to read it.")
    digest = Digest.from_dict(content.get("typical"), path)
    try:
        runs = tuple(
            {str(name): Figure(figures.number(value), figures.number(least)) for name, (value, least) in run.items()}
            for run in content["runs"]
        )
        if not runs or any(not run[figures.STEP].value > 0 for run in runs):
            raise ValueError("a run without a step time")
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise StoreError(f"{path} is damaged ({type(error).__name__}: {error}).", remedy) from None
    return Baseline(runs, digest)
