"""Compute when a thread was off its processor, from the samples of the recorder (`tables.LOOKS`)."""

from dataclasses import dataclass
from typing import Final

import polars as pl

from ms_profiler.analysis.metrics import host_load, intervals
from ms_profiler.store import host_metrics

#: intervals between two samples of a thread. `off_ns`: how long the thread was off its processor. `queued_ns`: how much
#: of this time it waited for a processor; null if the system did not report the wait
CELLS: Final = pl.Schema({"start_ns": pl.Int64, "end_ns": pl.Int64, "off_ns": pl.Int64, "queued_ns": pl.Int64})

#: a thread sleeps in an interval if both are true: length >= ASLEEP_NS, and
#: time off its processor - wait for a processor >= ASLEEP * length
ASLEEP_NS: Final = 5_000_000
ASLEEP: Final = 0.95
#: a thread that was off its processor for at least the share `ASLEEP` of an interval did not compute in the interval if
#: it was asleep or blocked for at least this many ns of it. The rest may be a wait for a processor after the sleep
SLEPT_NS: Final = 1_000_000
#: largest number of threads whose samples are examined; for one thread, this takes 8 ms
THREADS_MOST: Final = 128
#: the job itself keeps all processors busy if it uses at least this share of their time
FULL: Final = 0.8
#: other programs cause waits only if they, or other virtual machines, use at least this number of processors
OTHERS: Final = 0.25
#: other programs keep the machine busy if `Crowd.others` is at least this
BUSY: Final = 0.1
#: the metrics whose sum is the processor time of a process
_TAKEN: Final = (host_metrics.USER, host_metrics.SYSTEM)


@dataclass(frozen=True)
class Crowd:
    """Waits of the job's threads for processors, in some steps.

    Attributes:
        queued: share of the steps' time in which the stepping thread waited for a processor.
        pressure: (time that the job's threads waited for a processor) / (this time + their processor time); 0 if
            unknown.
        others: the part of `pressure` that other programs caused: `pressure` itself, or 0 if the job itself filled the
            processors, or if other programs are known to have used hardly any processor time.
        beside: number of processors that other threads of the process used on average; 0 if unknown.
        elsewhere: number of processors that other processes of the machine used on average; 0 if unknown.
        workers: number of processors that other processes of the job used on average, for example workers of a data
            loader; 0 if unknown.
    """

    queued: float
    pressure: float
    others: float
    beside: float = 0.0
    elsewhere: float = 0.0
    workers: float = 0.0

    @property
    def busy(self) -> bool:
        """Return whether other programs kept the processors busy."""
        return self.others >= BUSY


def watched(looks: pl.DataFrame) -> list[tuple[int, int]]:
    """Return process and number of the threads with samples; if there are many, the `THREADS_MOST` with most samples.

    Args:
        looks: the samples of threads, with the columns of `tables.LOOKS`.
    """
    found = looks.group_by("process", "thread", maintain_order=True).len().with_row_index("order")
    most = found.sort("len", descending=True, maintain_order=True).head(THREADS_MOST).sort("order")
    return most.select("process", "thread").rows()


def cells(looks: pl.DataFrame, process: int, thread: int) -> pl.DataFrame:
    """Return the intervals between the samples of a thread, without overlap, sorted by time, as `CELLS`.

    Between two samples the thread was off its processor for off = time - processor time. The second sample followed a
    gap in which the thread recorded nothing. The time off is assumed to lie in this gap. If the gap is shorter than the
    time off, the rest lies before the gap. The wait for a processor is reported for several samples together. It is
    divided among them in proportion to the time off.

    Args:
        looks: the samples of threads, with the columns of `tables.LOOKS`.
        process: pid.
        thread: the number of the thread.
    """
    own = looks.filter(pl.col("process") == process, pl.col("thread") == thread).sort("time_ns")
    since, time = pl.col("since_ns"), pl.col("time_ns")
    off = (time - since) - (pl.col("ran_ns") - pl.col("ran_before_ns"))
    reported = pl.col("waited_ns").is_not_null()
    known = (
        own.with_columns(since_ns=time.shift(1), ran_before_ns=pl.col("ran_ns").shift(1))
        .drop_nulls("since_ns")
        .filter(time > since)
        .with_columns(off_ns=off.clip(0, time - since), gap_ns=pl.col("before_ns").clip(since, time))
        .with_columns(group=reported.cast(pl.Int64).cum_sum() - reported.cast(pl.Int64))
        .with_columns(
            waited_ns=pl.col("waited_ns").max().over("group"), off_together=pl.col("off_ns").sum().over("group")
        )
    )
    reported_waits = bool(known["waited_ns"].is_not_null().any())
    ratio = (pl.col("waited_ns").fill_null(0) / pl.col("off_together").clip(lower_bound=1)).clip(0.0, 1.0)
    quiet = pl.min_horizontal("off_ns", time - pl.col("gap_ns"))
    parts = [
        known.select(
            since.alias("start_ns"), pl.col("gap_ns").alias("end_ns"), off_ns=pl.col("off_ns") - quiet, r=ratio
        ),
        known.select(pl.col("gap_ns").alias("start_ns"), time.alias("end_ns"), off_ns=quiet, r=ratio),
    ]
    queued = (pl.col("off_ns") * pl.col("r")).cast(pl.Int64) if reported_waits else pl.lit(None, pl.Int64)
    return (
        pl.concat(parts)
        .filter(pl.col("end_ns") > pl.col("start_ns"))
        .sort("start_ns")
        .select("start_ns", "end_ns", "off_ns", queued.alias("queued_ns"))
        .cast(pl.Int64)
    )


def asleep(known: pl.DataFrame) -> pl.DataFrame:
    """Return the intervals in which a thread was asleep or blocked for so long that it did not compute.

    Such an interval may lie inside an operator. Even then the thread did not compute. If it computed a part of the
    operator, it would be off its processor for less of the time.

    Args:
        known: the intervals between the samples of the thread, from `cells`.
    """
    length = pl.col("end_ns") - pl.col("start_ns")
    slept = pl.col("off_ns") - pl.col("queued_ns")
    return known.filter(length >= ASLEEP_NS, slept >= ASLEEP * length).select(intervals.BOUNDS)


def idle(known: pl.DataFrame) -> pl.DataFrame:
    """Return the intervals in which a thread did not compute, because it slept or was blocked before it waited to run.

    Such an interval may lie inside an operator, for example in a function of the script that autograd calls.

    Args:
        known: the intervals between the samples of the thread, from `cells`.
    """
    length = pl.col("end_ns") - pl.col("start_ns")
    slept = pl.col("off_ns") - pl.col("queued_ns")
    return known.filter(slept >= SLEPT_NS, pl.col("off_ns") >= ASLEEP * length).select(intervals.BOUNDS)


def crowd(
    looks: pl.DataFrame,
    host: pl.DataFrame,
    process: int,
    thread: int,
    during: pl.DataFrame,
    processors: int,
    threads: int = 1,
) -> Crowd:
    """Return the waits of the job's threads for processors.

    pressure = (time waited for a processor) / (this time + processor time), with both times summed up over all threads
    with samples.

    Args:
        looks: the samples of threads, with the columns of `tables.LOOKS`.
        host: the numbers of the operating system, with the columns of `tables.HOST`.
        process: the process of the stepping thread.
        thread: the number of the stepping thread, which runs the steps.
        during: the steps, without overlap, sorted by time.
        processors: number of processors that the job may use; 0 if unknown.
        threads: number of threads that compute an operator together; only the stepping thread among them has samples.
    """
    length = max(intervals.total_ns(during), 1)
    waited = ran = own = own_ran = 0.0
    for pid, number in watched(looks):
        queued_ns, ran_ns, _ = usage(cells(looks, pid, number), during)
        waited, ran = waited + queued_ns, ran + ran_ns
        if (pid, number) == (process, thread):
            own, own_ran = queued_ns, ran_ns
    own_host = host.filter(pl.col("process") == process)
    workers = host.filter(pl.col("process") != process)
    used, others = host_load.amounts(own_host, _TAKEN, during), host_load.beside(host, process, during)
    whole = ran if used is None else max(float(used.sum()) * 1e9, ran)  # of threads without samples, too
    beside = whole - own_ran if used is not None and own_ran else 0.0
    pressure = waited / max(waited + ran, 1.0)
    full = 0 < processors < threads or 0 < processors * FULL * length <= whole
    stolen = host_load.amounts(own_host, (host_metrics.STOLEN,), during)
    beside_it = (others, stolen, host_load.amounts(workers, _TAKEN, during))
    elsewhere, stolen_ns, by_workers = (0.0 if each is None else float(each.sum()) * 1e9 for each in beside_it)
    alone = full or (others is not None and elsewhere + stolen_ns < OTHERS * length)
    shares = (beside / length, elsewhere / length, by_workers / length)
    return Crowd(min(own / length, 1.0), pressure, 0.0 if alone else pressure, *shares)


def queued(known: pl.DataFrame, during: pl.DataFrame) -> float:
    """Return the share of the intervals' time in which a thread waited for a processor; 0 if unknown.

    Args:
        known: the intervals between the samples of the thread, from `cells`.
        during: the intervals of the steps, without overlap.
    """
    return min(usage(known, during)[0] / max(intervals.total_ns(during), 1), 1.0)


def queued_by_step(looks: pl.DataFrame, process: int, steps: pl.DataFrame) -> pl.DataFrame:
    """Return, for each step, the longest time that any thread of the process waited for a processor.

    Args:
        looks: the samples of threads, with the columns of `tables.LOOKS`.
        process: pid.
        steps: `number`, `start_ns`, `end_ns`, sorted by start, without overlap.

    Returns:
        `step` (number), `queued_ns`.
    """
    found = [pl.DataFrame(schema={"step": pl.Int64, "queued_ns": pl.Int64})]
    rows = steps.select(pl.col("number").cast(pl.Int64).alias("step"), *intervals.BOUNDS).with_row_index("row", 1)
    for _, number in watched(looks.filter(pl.col("process") == process)):
        known = cells(looks, process, number).filter(pl.col("queued_ns") > 0).with_row_index("cell", 1)
        line = intervals.timeline({"row": rows, "cell": known}, {"row": "row", "cell": "cell"})
        inside = line.filter(pl.col("row") > 0, pl.col("cell") > 0).with_columns(
            length=pl.col("end_ns") - pl.col("start_ns")
        )
        share = known.select(
            pl.col("cell").cast(pl.Int64), share=pl.col("queued_ns") / (pl.col("end_ns") - pl.col("start_ns"))
        )
        step = rows.select(pl.col("row").cast(pl.Int64), "step")
        found.append(
            inside.join(share, on="cell")
            .join(step, on="row")
            .group_by("step")
            .agg((pl.col("length") * pl.col("share")).sum().cast(pl.Int64).alias("queued_ns"))
        )
    return pl.concat(found).group_by("step").agg(pl.col("queued_ns").max()).sort("step")


def delayed(looks: pl.DataFrame, process: int, thread: int, waiting: pl.DataFrame, during: pl.DataFrame) -> float:
    """Return the share of waits for data that is due to workers that waited for a processor; 0 if unknown.

    Workers are the other processes of the job, or the other threads if there are no other processes.

        share = min(mean over workers of (wait of the worker for a processor / wait for data),
                    processor time of the stepping thread / mean processor time of a worker)

    The waits of all threads of a worker process are added up, because these threads pass a batch to each other. The
    second term limits the share: workers that compute for longer than the stepping thread would be slow even without
    waits.

    Args:
        looks: the samples of threads, with the columns of `tables.LOOKS`.
        process: the process of the stepping thread.
        thread: the number of the stepping thread, which runs the steps.
        waiting: the intervals in which the stepping thread waited for data, without overlap, sorted by time.
        during: the steps.
    """
    length = max(intervals.total_ns(waiting), 1)
    own, queued, ran = 0.0, dict[tuple[int, int], float](), 0.0
    threads = watched(looks)
    several = any(pid != process for pid, _ in threads)
    for pid, number in threads:
        known = cells(looks, pid, number)
        if (pid, number) == (process, thread):
            own = usage(known, during)[1]
        elif pid != process or not several:
            key = (pid, 0 if several else number)
            queued[key] = min(queued.get(key, 0.0) + usage(known, waiting)[0], length)
            ran += usage(known, during)[1]
    workers = max(len(queued), 1)
    return min(sum(queued.values()) / workers / length, own / max(ran / workers, 1.0), 1.0)


def usage(known: pl.DataFrame, during: pl.DataFrame) -> tuple[float, float, float]:
    """Return for how long a thread waited for a processor in some intervals, ran, and was asleep or blocked, in ns.

    Args:
        known: the intervals between the samples of the thread, from `cells`.
        during: the intervals, without overlap.
    """
    length = pl.col("end_ns") - pl.col("start_ns")
    rows = known.with_row_index("cell", 1).with_columns(
        queued=pl.col("queued_ns").fill_null(0) / length,
        ran=1 - pl.col("off_ns") / length,
        slept=((pl.col("off_ns") - pl.col("queued_ns")) / length).fill_null(0),
    )
    line = intervals.timeline({"in": during, "cell": rows}, {"cell": "cell"}).filter(pl.col("in") > 0)
    uses = ("queued", "ran", "slept")
    parts = line.join(rows.select(pl.col("cell").cast(pl.Int64), *uses), on="cell")
    waited, ran, slept = parts.select((length * pl.col(use)).sum().alias(use) for use in uses).row(0)
    return float(waited), float(ran), float(slept)
