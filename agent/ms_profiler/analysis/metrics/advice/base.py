"""An advice, the facts that advice is made from, and the format of numbers."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import polars as pl

from ms_profiler.analysis.metrics import bounds, critical_path
from ms_profiler.analysis.metrics.diagnosis import Diagnosis
from ms_profiler.analysis.metrics.pipelines import Pipeline

#: part of the steps from which on a wait is reported
WORTH: Final = {
    bounds.DATA: 0.2,
    bounds.SYNC: 0.2,
    bounds.CHECKPOINT: 0.1,
    bounds.COMMUNICATION: 0.2,
    bounds.BLOCKED: 0.2,
    critical_path.COPY: 0.2,
    bounds.LAUNCH: 0.2,
    bounds.HOST: 0.25,
}
#: waits that a busy machine lengthens
SPIKES: Final = (bounds.DATA, bounds.COMMUNICATION, bounds.BLOCKED)
#: part of the steps from which on repeated compiling, a slow link, or garbage collections are reported
SOME: Final = 0.1


@dataclass(frozen=True)
class Facts:
    """Facts of a run that advice uses beside the diagnosis.

    Attributes:
        numbers: the numbers of the steps, by row.
        lane: name of the stepping thread.
        framework: "mindspore", "torch".
        statistics: the statistics of the steady steps.
        compiled: steps (rows) that compiled something.
        recorded: the number of recorded steps.
        recorded_ns: the time of the recorded steps.
        types: the types of `kernels.by_type`.
        pipelines: dataset pipelines, the most important one first.
        threads: number of threads that compute an operator; 0 if unknown.
        processors: number of processors that the job may use; 0 if unknown.
        functions: Python functions that take most of the host's own part; empty if unknown.
        stacks: whether Python functions were recorded, or cannot be.
        makers: a sentence about the processes that make the batches, and the slow function; empty if unknown.
        leak: the code that allocated the growing memory; empty if tensors do not grow, or their blocks were not
            recorded.
    """

    numbers: list[int]
    lane: str
    framework: str
    statistics: dict[str, Any]
    compiled: list[int]
    recorded: int
    recorded_ns: int
    types: pl.DataFrame
    pipelines: Sequence[Pipeline] = field(default_factory=list)
    threads: int = 0
    processors: int = 0
    functions: str = ""
    stacks: bool = True
    leak: str = ""
    makers: str = ""


@dataclass(frozen=True)
class Advice:
    """One thing worth trying.

    Attributes:
        cause: name of the cause, for programs.
        what: the subject, in a word or two.
        share: part of the steps that it takes; for causes that are no time, part of the whole that it belongs to.
        evidence: the numbers that support the advice.
        action: the change to try.
        step: number of the step that shows it best; None if there is none.
        lane: thread or stream that shows it; empty if there is none.
        first: whether it comes first, even before advice with a larger share.
    """

    cause: str
    what: str
    share: float
    evidence: str
    action: str
    step: int | None = None
    lane: str = ""
    first: bool = False


def worst_step(found: Diagnosis, facts: Facts, part: str) -> int | None:
    """Return the number of the step in which a part takes longest."""
    rows = found.parts.filter(pl.col("part") == part).sort("duration_ns", "step", descending=[True, False])
    return None if rows.is_empty() else facts.numbers[rows["step"][0]]


def worth(found: Diagnosis, part: str) -> bool:
    """Return whether a part takes enough of the time, not counting the stepping thread's waits for a processor.

    While the worker that makes data waits for a processor, the data is not slow. While other ranks wait for processors,
    as this one does, the exchanges that wait for these ranks are not slow. On a busy machine, single steps wait long
    whatever the job does.
    """
    share = found.shares.get(part, 0.0)
    if found.crowd.busy and part in SPIKES:
        share = min(share, _usual(found.parts, part))
    share *= 1 - found.delayed.parts.get(part, 0.0)
    # the time of these parts excludes waits for a processor, so the time of the steps has to exclude them, too
    without = found.crowd.queued if part in (bounds.CHECKPOINT, bounds.HOST) else 0.0
    return share >= WORTH[part] * (1 - max(found.shares[bounds.RUNNABLE] + found.delayed.lost, without))


def _usual(parts: pl.DataFrame, part: str) -> float:
    """Return the share of a part, without the tenth of the steps in which it is largest."""
    own = pl.col("duration_ns").filter(pl.col("part") == part).sum()
    steps = parts.group_by("step").agg(own.alias("own"), pl.col("duration_ns").sum().alias("whole")).sort("own", "step")
    usual = steps.head(steps.height - steps.height // 10)
    return float(usual["own"].sum()) / max(float(usual["whole"].sum()), 1.0)


def samples(facts: Facts) -> str:
    """Return advice on recording the functions of the script; empty where they were recorded or cannot be."""
    return "" if facts.stacks else ' The option "with_stack": "sample" tells which function it is.'


def percent(share: float) -> str:
    """Return a share as a percentage."""
    return f"{share * 100:.1f} %"


def length(nanoseconds: float) -> str:
    """Return a time with its unit."""
    if nanoseconds < 1e6:
        return f"{nanoseconds / 1e3:.1f} us"
    return f"{nanoseconds / 1e6:.1f} ms" if nanoseconds < 1e9 else f"{nanoseconds / 1e9:.2f} s"


def size(count: float) -> str:
    """Return bytes as people read them."""
    for unit in ("B", "KB", "MB"):
        if count < 1024:
            return f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GB"
