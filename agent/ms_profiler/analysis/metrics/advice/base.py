"""What all advice shares: its data types, the thresholds of causes, and the formatting of numbers."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import polars as pl

from ms_profiler.analysis.metrics import bounds, critical_path, recurring_steps
from ms_profiler.analysis.metrics.diagnosis import Diagnosis
from ms_profiler.analysis.metrics.pipelines import Pipeline
from ms_profiler.analysis.metrics.stack_parts import Code
from ms_profiler.analysis.metrics.worker_starts import Starts

#: part of a step -> the part is reported if it takes at least this share of the steps' time
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
#: waits come at regular intervals if more than this part of their time lies in steps that do
MOSTLY: Final = 0.5
#: waits that become longer if other programs keep the machine busy
SPIKES: Final = (bounds.DATA, bounds.COMMUNICATION)
#: repeated compiling, a slow link, and garbage collections are each reported if they take at least this share of the
#: steps' time
SOME: Final = 0.1


class BatchTexts(NamedTuple):
    """Texts about the code that makes batches; each is empty if unknown.

    Attributes:
        words: the functions of a dataset, or the processes that make the batches and their slowest function.
        remedy: what to do about these processes.
        beside: the functions of a dataset that run on other threads during much of the steps.
    """

    words: str = ""
    remedy: str = ""
    beside: str = ""


@dataclass(frozen=True)
class Facts:
    """Facts of a run that advice uses in addition to the diagnosis.

    Attributes:
        numbers: numbers of the steps, by row of the table of steps.
        lane: name of the stepping thread.
        framework: "mindspore" or "torch".
        statistics: statistics of the durations of the steady steps.
        recorded_ns: total time of the recorded steps, in ns.
        types: the times of kernels by primitive, from `kernels.by_type`.
        pipelines: dataset pipelines, the most important one first.
        threads: number of threads that compute an operator; 0 if unknown.
        processors: number of processors that the job may use; 0 if unknown.
        code: texts about the Python functions that run during parts of the steps.
        module: text about the module that takes most of the `launch` part; empty if no module stands out.
        stacks: whether advice need not mention the option that records Python functions; False if the run could have
            recorded them and did not.
        makers: texts about the code that makes batches.
        leak: text about the code that allocated the growing memory; empty if the memory of tensors does not grow, or
            its blocks were not recorded.
    """

    numbers: list[int]
    lane: str
    framework: str
    statistics: dict[str, Any]
    recorded_ns: int
    types: pl.DataFrame
    pipelines: Sequence[Pipeline] = field(default_factory=list)
    threads: int = 0
    processors: int = 0
    code: Code = field(default_factory=Code)
    module: str = ""
    stacks: bool = True
    leak: str = ""
    makers: BatchTexts = field(default_factory=BatchTexts)
    starts: Starts | None = None


@dataclass(frozen=True)
class Advice:
    """An advice: a cause of lost time, its evidence, and the change to try.

    Attributes:
        cause: name of the cause, such as `"input-bound"`, for programs that read the advice.
        what: the subject of the advice, in a word or two.
        share: time that the cause takes / time of the steps. For growing memory: growth / memory before the growth, at
            most 1. For kernels on slow processors: their time / time of all kernels.
        evidence: the numbers that support the advice.
        action: the change that the user should try.
        step: number of the step that shows the cause best; None if no step shows it.
        lane: name of the thread or stream that shows the cause; empty if none shows it.
        first: whether this advice comes before all other advice, whatever its share.
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
    """Return the number of the step in which a part takes longest; None if no step has this part."""
    rows = found.parts.filter(pl.col("part") == part).sort("duration_ns", "step", descending=[True, False])
    return None if rows.is_empty() else facts.numbers[rows["step"][0]]


def worth(found: Diagnosis, part: str) -> bool:
    """Return whether a part takes enough of the steps' time for advice. Waiting for a processor does not count.

    If waits for data or for other ranks are long, the cause may be that data workers or other ranks waited for a
    processor. On a busy machine, a few steps have long waits of this kind whatever the job does. So for these two kinds
    of waits (`SPIKES`), one tenth of the steps is left out: the steps with the longest waits. If they come at regular
    intervals, the job causes them, and all steps count.
    """
    share = found.shares.get(part, 0.0)
    if found.crowd.busy and part in SPIKES and not _regular(found.parts, part):
        share = min(share, _usual(found.parts, part))
    share *= 1 - found.delayed.parts.get(part, 0.0)
    # these parts do not include waits for a processor, so the waits are subtracted from the time of the steps, too
    without = found.crowd.queued if part in (bounds.CHECKPOINT, bounds.HOST) else 0.0
    return share >= WORTH[part] * (1 - max(found.shares[bounds.RUNNABLE] + found.delayed.lost, without))


def _regular(parts: pl.DataFrame, part: str) -> bool:
    """Return whether most time of a part lies in steps that are longer at regular intervals."""
    steps = _by_step(parts, part).sort("step").with_columns(content=0)
    if steps.is_empty() or int(steps["step"][-1]) - int(steps["step"][0]) >= steps.height:
        return False  # single steps of a run say nothing about an interval
    longer = recurring_steps.places(steps)
    return longer is not None and int(steps.filter(longer[-1])["own"].sum()) > MOSTLY * int(steps["own"].sum())


def _usual(parts: pl.DataFrame, part: str) -> float:
    """Return the share of the steps' time that a part takes, without the tenth of the steps in which it is longest."""
    steps = _by_step(parts, part).sort("own", "step")
    usual = steps.head(steps.height - steps.height // 10)
    return float(usual["own"].sum()) / max(float(usual["duration_ns"].sum()), 1.0)


def _by_step(parts: pl.DataFrame, part: str) -> pl.DataFrame:
    """Return for each step the time of a part and of all parts: `step`, `own` and `duration_ns`, in ns."""
    own = pl.col("duration_ns").filter(pl.col("part") == part).sum().alias("own")
    return parts.group_by("step").agg(own, pl.col("duration_ns").sum())


def samples(facts: Facts) -> str:
    """Return a sentence about the option that records the script's functions; empty if `facts.stacks` is true."""
    return "" if facts.stacks else ' The option "with_stack": "sample" tells which function takes the time.'


def percent(share: float) -> str:
    """Return a share (0 to 1) as text in percent."""
    return f"{share * 100:.1f} %"


def length(nanoseconds: float) -> str:
    """Return a time in ns as text in us, ms or s."""
    if nanoseconds < 1e6:
        return f"{nanoseconds / 1e3:.1f} us"
    return f"{nanoseconds / 1e6:.1f} ms" if nanoseconds < 1e9 else f"{nanoseconds / 1e9:.2f} s"


def size(count: float) -> str:
    """Return a number of bytes as text in B, KiB, MiB or GiB (steps of 1024)."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"
