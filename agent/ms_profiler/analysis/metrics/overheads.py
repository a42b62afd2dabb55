"""Find avoidable costs of a step: casts, an optimizer called for each parameter, waits for other ranks."""

from dataclasses import dataclass, replace
from typing import Final

import polars as pl

from ms_profiler.analysis.metrics import bounds, communication, intervals, owners, scheduling
from ms_profiler.analysis.metrics.host_operators import OFTEN
from ms_profiler.analysis.metrics.phases import NAMES
from ms_profiler.analysis.metrics.reads import READ
from ms_profiler.analysis.metrics.scopes import Part
from ms_profiler.analysis.metrics.steps import Steps
from ms_profiler.store.format import Category

OPTIMIZER: Final = NAMES[Category.OPTIMIZER]
#: PyTorch's operator that changes the type of a tensor; on an accelerator it may also move the tensor
CAST: Final = "aten::_to_copy"
#: two reads of values are close if at most this many inner operators lie between them
BETWEEN: Final = 10
#: latency in ns, and bandwidth in bytes per second, of a slow network. If an exchange takes longer than this network
#: needs for its bytes, the rest of the time counts as waiting for other ranks
LATENCY: Final = 1_000_000
BYTES_A_SECOND: Final = 100e6
#: begin of the name of a barrier's span, `Barrier@GROUP`
BARRIER: Final = "Barrier@"


@dataclass(frozen=True)
class Casts:
    """The cost of casts, which are changes of the data type.

    Attributes:
        name: the name of the operator.
        per_step: number of changes per step.
        share: share of the steps' time that the changes take.
    """

    name: str
    per_step: float
    share: float


@dataclass(frozen=True)
class Optimizing:
    """The cost of the optimizer in some steps.

    Attributes:
        share: the share of the steps' time that the optimizer takes. Time in which the thread waited for a processor,
            or was asleep or blocked, is left out.
        launching: the share of the steps' time in which the optimizer's operators are launched and nothing computes.
        per_step: number of the optimizer's operators or kernels per step; None if unknown.
        name: the class of the optimizer that takes most of the time, or `LEARNING_RATE` if the scheduler of learning
            rates does; empty if unknown.
        closure: whether the optimizer calls a closure of the script, which runs forward or backward passes.
        longest: the share of the steps' time that the calls of `name` take, also while the thread waits.
    """

    share: float
    launching: float
    per_step: float | None
    name: str = ""
    closure: bool = False
    longest: float = 0.0


@dataclass(frozen=True)
class Late:
    """The waits of exchanges for other ranks.

    Attributes:
        share: (time of the exchanges beyond the time that a slow network needs) / time of the exchanges.
        count: the number of exchanges.
        mean_ns: the mean duration of an exchange.
        bytes: the mean number of bytes of an exchange.
        barriers: the number of barriers, which exchange no data.
        barriers_ns: the time of all barriers together.
    """

    share: float
    count: int
    mean_ns: int
    bytes: int
    barriers: int = 0
    barriers_ns: int = 0


def casts(ran: pl.DataFrame, names: pl.Series, during: pl.DataFrame) -> Casts | None:
    """Return the cost of casts in some steps; None if casts take no longer than their dispatch.

    Args:
        ran: operators, `name` (row of `names`), `start_ns`, `end_ns`.
        names: texts by row.
        during: the steps.
    """
    found = ran.filter((names == CAST).gather(ran["name"]))
    long = pl.col("end_ns") - pl.col("start_ns") > bounds.SHORT
    # a long cast counts only if long casts are common: if they are rare, the system took the processor away during them
    found = found.filter(long, long.mean() >= OFTEN)
    found = found.filter(intervals.locate(found["start_ns"], during).is_not_null())
    if found.is_empty():
        return None
    share = intervals.total_ns(intervals.union(found)) / max(intervals.total_ns(during), 1)
    return Casts(CAST, found.height / during.height, share)


def optimizing(moments: pl.DataFrame, ran: pl.DataFrame | None, during: pl.DataFrame) -> Optimizing:
    """Return the cost of the optimizer in some steps.

    Args:
        moments: the pieces of the steps with their parts, from `bounds.parts`.
        ran: operators or kernels one by one, `start_ns`; None if unknown.
        during: the steps.
    """
    own = moments.filter(pl.col("phase") == OPTIMIZER).sort("start_ns")
    worked = own.filter(~pl.col("part").is_in([bounds.RUNNABLE, bounds.BLOCKED]))
    launching = own.filter(pl.col("part") == bounds.LAUNCH)
    count = None
    if ran is not None:
        count = ran.filter(intervals.locate(ran["start_ns"], own).is_not_null()).height / max(during.height, 1)
    whole = max(intervals.total_ns(during), 1)
    return Optimizing(intervals.total_ns(worked) / whole, intervals.total_ns(launching) / whole, count)


def with_caller(found: Optimizing, spans: pl.DataFrame, names: pl.Series, during: pl.DataFrame) -> Optimizing:
    """Return the cost of the optimizer, with the class of the optimizer, and whether it calls a closure.

    Args:
        found: the cost of the optimizer, from `optimizing` or `optimizing_beside`.
        spans: the spans of the stepping thread in the examined steps, with the columns of `tables.SPANS`.
        names: the names of the recording.
        during: the examined steps.
    """
    own = spans.filter(pl.col("category") == int(Category.OPTIMIZER))
    if own.is_empty():
        return found
    times = own.group_by("name").agg((pl.col("end_ns") - pl.col("start_ns")).sum().alias("took"))
    longest, took = times.sort("took", "name", descending=[True, False]).row(0)
    passes = spans.filter(pl.col("category").is_in([int(Category.FORWARD), int(Category.BACKWARD)]))
    inside = intervals.locate(passes["start_ns"], intervals.union(own.filter(pl.col("name") == longest)))
    kind = owners.optimizer_names(own.filter(pl.col("name") == longest), names)["kind"][0]
    share = took / max(intervals.total_ns(during), 1)
    return replace(found, name=kind, closure=bool(inside.is_not_null().any()), longest=share)


def optimizing_beside(moments: pl.DataFrame, kernels: pl.DataFrame, during: pl.DataFrame) -> Optimizing:
    """Return the cost of the optimizer in some steps of a job whose kernels run while the host goes on.

    Consecutive kernels of the optimizer make one interval, from the first to the last of these kernels. The cost is the
    time in these intervals in which kernels compute or the host launches them, without waits.

    Args:
        moments: the pieces of the steps with their parts, from `bounds.parts`.
        kernels: table of kernels, with the columns of `tables.KERNELS` and `end_ns`.
        during: the steps.
    """
    own = pl.col("part") == int(Part.OPTIMIZER)
    runs = kernels.sort("start_ns").with_columns(own=own.fill_null(False)).with_columns(run=pl.col("own").rle_id())
    around = runs.filter("own").group_by("run").agg(pl.col("start_ns").min(), pl.col("end_ns").max())
    computing, launching = (
        intervals.total_ns(intervals.intersect(moments.filter(pl.col("part") == part), around))
        for part in (bounds.COMPUTING, bounds.LAUNCH)
    )
    took = computing + launching
    count = kernels.filter(own, intervals.locate(kernels["start_ns"], during).is_not_null()).height
    whole = max(intervals.total_ns(during), 1)
    return Optimizing(took / whole, launching / whole, count / max(during.height, 1))


def reading(found: pl.DataFrame, starts: pl.Series, moments: pl.DataFrame) -> float:
    """Return the share of the launching time between two close reads: at most `BETWEEN` operators lie between them.

    Args:
        found: the reads of values, from `reads.reads`. The job must use PyTorch without an accelerator, where reads
            wait for nothing.
        starts: the starts of inner operators, in order.
        moments: the pieces of the steps with their parts, from `bounds.parts`.
    """
    own = found.filter(pl.col("name") == READ)
    pairs = own.with_columns(following=pl.col("start_ns").shift(-1)).drop_nulls("following")
    between = starts.search_sorted(pairs["following"]).cast(pl.Int64) - starts.search_sorted(pairs["start_ns"])
    near = pairs.filter(between <= BETWEEN).select("start_ns", pl.col("following").alias("end_ns"))
    launches = moments.filter(pl.col("part") == bounds.LAUNCH)
    return intervals.total_ns(intervals.intersect(near, launches)) / max(intervals.total_ns(launches), 1)


@dataclass(frozen=True)
class Delayed:
    """Waits that last longer because threads wait for a processor.

    Attributes:
        parts: part of a step, such as "data" -> share of its waits that comes from waiting for a processor.
        lost: the share of the steps' time in which the stepping thread waited for a processor during these waits.
    """

    parts: dict[str, float]
    lost: float


def delayed(looks: pl.DataFrame, steps: Steps, moments: pl.DataFrame, crowd: scheduling.Crowd) -> Delayed:
    """Return the share of waits for data, files and other ranks that is due to waiting for a processor.

    In waits for data, the stepping thread may wait for a processor (share a), and so may the workers that make the data
    (share b). Together, the two causes have the share 1 - (1 - a)(1 - b).

    The function assumes that every other rank waits for processors for the same time as this rank. On a busy machine,
    the ranks lose their processors at different times. Each time a rank loses its processor, all other ranks wait for
    that rank in the next exchange.

    Args:
        looks: samples of the job's threads, with the columns of `tables.LOOKS`.
        steps: the steps in use.
        moments: the pieces of the steps with their parts, from `bounds.parts`.
        crowd: waits of the job's threads for processors.
    """
    place = looks, steps.process, steps.thread
    known, found, lost = scheduling.cells(*place), dict[str, float](), 0.0
    for part in bounds.WAITS:
        waiting = moments.filter(pl.col("part") == part)
        found[part] = scheduling.queued(known, waiting)
        lost += found[part] * intervals.total_ns(waiting) / max(intervals.total_ns(moments), 1)
        if part == bounds.DATA:
            found[part] = 1 - (1 - found[part]) * (1 - scheduling.delayed(*place, waiting, moments))
    if crowd.busy:
        own = moments.filter(pl.col("part") != bounds.COMMUNICATION)
        found[bounds.COMMUNICATION] = 1 - 1 / (1 + 2 * scheduling.queued(known, own))
    return Delayed(found, lost)


def late(calls: pl.DataFrame, rows: list[int], spans: pl.DataFrame, names: pl.Series) -> Late | None:
    """Return how long exchanges wait for other ranks; None if there are no exchanges with known bytes.

    Args:
        calls: the exchanges with other ranks, from `communication.calls`.
        rows: the examined steps, as rows of the table of steps.
        spans: the spans of the stepping thread in these steps.
        names: the texts to which the column `name` of the spans refers by row.
    """
    known = communication.timed(calls.filter(pl.col("step").is_in(rows)))
    if known.is_empty():
        return None
    took = int(known["duration_ns"].sum())
    needed = known["bytes"] / BYTES_A_SECOND * 1e9 + LATENCY
    beyond = float((known["duration_ns"] - needed).clip(lower_bound=0).sum())
    share, mean_ns, size = beyond / max(took, 1), took // known.height, int(known["bytes"].sum()) // known.height
    barriers = spans.filter(names.str.starts_with(BARRIER).gather(spans["name"]))
    barriers_ns = int((barriers["end_ns"] - barriers["start_ns"]).sum())
    return Late(share, known.height, mean_ns, size, barriers.height, barriers_ns)


def late_beside(exchanges: pl.DataFrame, size: int, steps: int) -> Late | None:
    """Return how long exchanges on separate threads wait for other ranks; None if their bytes are unknown.

    Args:
        exchanges: the exchanges on separate threads, from `communication.replicated`.
        size: the bytes that the threads exchange in a step.
        steps: number of steps.
    """
    if exchanges.is_empty() or not size:
        return None
    took, count = intervals.total_ns(exchanges), exchanges.height
    beyond = took - size * steps / BYTES_A_SECOND * 1e9 - count * LATENCY
    return Late(max(beyond, 0.0) / max(took, 1), count, took // count, size * steps // count)
