"""The critical path of each step: the chain of work for which the end of the step waited, back to the step's start.

If work that is not on the path gets shorter, the step keeps its length.

The host queues kernels and continues. It waits for kernels only where it blocks. So the path is found backwards:

- It follows the host back to the end of a wait for kernels.
- From there it follows the awaited kernels, from each kernel to its predecessor: the kernel before it, or its launch.
- From a launch it follows the host again.

A piece of the path is an interval with one kind of work. The pieces follow each other without gaps. Their lengths add
up to the length of the step exactly.

While no kernel runs, the path has the part that `bounds` assigns to the moment. So on the path of a step, computing
takes at most as long as in `bounds`, and every other part takes at least as long as in `bounds`.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Final

import polars as pl

from ms_profiler.analysis.metrics import bounds, intervals

#: a kernel without a known launch counts as queued behind the kernel before it if the gap between these two kernels
#: lasts at most this many ns
BACK_TO_BACK: Final = 20_000
#: largest number of moves back that are made within a step; the rest of the step is assigned to the host
MOST: Final = 100_000
#: temporary kind of all work of the host; `divided` replaces it by the parts of `bounds`
_HOST: Final = bounds.HOST
#: kind: a device copies memory or fills memory with a value
COPY: Final = "copy"
#: kind: the device is idle although the host has queued the next kernel
GAP: Final = "kernel gap"
KINDS: Final = (*bounds.PARTS[:2], COPY, GAP, *bounds.PARTS[2:])
_SEGMENTS: Final = pl.Schema({"step": pl.UInt32, "kind": pl.String, "start_ns": pl.Int64, "end_ns": pl.Int64})


class _Walk:
    """Follows the critical path back in time, through the kernels and the waits of a run.

    Args:
        kernels: `start_ns`, `end_ns`, `launch_ns` (null if unknown), `exchange` (whether the kernel exchanges data with
            other ranks).
        waits: intervals in which the host waited for kernels, `start_ns`, `end_ns`, without overlap, sorted by time.
    """

    def __init__(self, kernels: pl.DataFrame, waits: pl.DataFrame) -> None:
        ended = kernels.sort("end_ns", "start_ns")
        self.starts, self.ends = ended["start_ns"].to_list(), ended["end_ns"].to_list()
        self.launches, self.exchanges = ended["launch_ns"].to_list(), ended["exchange"].to_list()
        self.waits = list(waits.select(intervals.BOUNDS).iter_rows())
        self.wait_starts = [start for start, _ in self.waits]

    def back(self, begin: int, end: int) -> Iterator[tuple[str, int, int]]:
        """Yield the kind, the start and the end of each piece of a step's path, the last piece first.

        Args:
            begin: the start of the step, in ns.
            end: the end of the step, in ns.
        """
        time, kernel, launching = end, -1, False
        for _ in range(MOST):
            if time <= begin:
                return
            if kernel < 0:
                kind, before, kernel = self._on_host(time, begin, launching)
                yield kind, max(before, begin), time
                time, launching = before, False
                continue
            start = self.starts[kernel]
            if start < time:
                yield bounds.COMMUNICATION if self.exchanges[kernel] else bounds.COMPUTING, max(start, begin), time
                time = start
            before, kernel = self._before(kernel, time)
            if begin < time and before < time:
                yield bounds.LAUNCH, max(before, begin), time
            time, launching = min(before, time), kernel < 0
        if time > begin:
            yield _HOST, begin, time

    def _on_host(self, time: int, begin: int, launching: bool) -> tuple[str, int, int]:
        """Return kind and start of the host's work that ends at `time`, and the index of the kernel before this work.

        The index is -1 if the path stays on the host.
        """
        row = bisect_left(self.wait_starts, time) - 1
        if row < 0 or self.waits[row][1] <= begin:
            return _HOST, begin, -1
        start, end = self.waits[row]
        if end < time:
            return _HOST, end, -1
        last = bisect_right(self.ends, time) - 1
        if last >= 0 and self.ends[last] > start:
            return bounds.SYNC, self.ends[last], last
        # a call that runs a whole graph launches the graph's first kernel before the call can wait for a kernel
        return (bounds.LAUNCH if launching else bounds.SYNC), start, -1

    def _before(self, kernel: int, time: int) -> tuple[int, int]:
        """Return end and index of a kernel's predecessor; if the predecessor is its launch, the time of this and -1."""
        previous = bisect_right(self.ends, time, 0, kernel) - 1
        ended = self.ends[previous] if previous >= 0 else -1
        launched = self.launches[kernel]
        if launched is not None:
            return (ended, previous) if ended >= launched else (min(launched, time), -1)
        row = bisect_left(self.wait_starts, time) - 1
        # the host queues nothing while it waits. So a kernel that starts during a wait was queued before the wait, and
        # only had to wait for the kernel before it
        waited = row >= 0 and self.waits[row][0] < ended and time <= self.waits[row][1]
        if previous >= 0 and (waited or time - ended <= BACK_TO_BACK):
            return ended, previous
        return time, -1


def segments(
    during: pl.DataFrame,
    kernels: pl.DataFrame,
    waits: pl.DataFrame,
    host: pl.DataFrame,
    moments: pl.DataFrame | None = None,
) -> pl.DataFrame:
    """Return the critical path of each step: `step`, `kind`, `start_ns`, `end_ns`, sorted by time.

    Args:
        during: the steps on the host: `step`, `start_ns`, `end_ns`.
        kernels: `start_ns`, `end_ns`, `launch_ns` (null if unknown), `exchange` (whether the kernel exchanges data with
            other ranks); empty if the host itself computes.
        waits: disjoint intervals in which the host waited for kernels, sorted by time.
        host: disjoint intervals of the host's work, sorted by time: `part` (of `KINDS`), `start_ns`, `end_ns`.
        moments: the result of `bounds.parts`; it tells the part of the path while no kernel runs. None to use only
            `host`.
    """
    walk = _Walk(kernels, waits)
    found = [
        (step, kind, start, end)
        for step, begin, finish in during.select("step", *intervals.BOUNDS).iter_rows()
        for kind, start, end in walk.back(begin, finish)
        if end > start
    ]
    return divided(found, host, moments)


def divided(
    found: Sequence[tuple[int, str, int, int]], host: pl.DataFrame, moments: pl.DataFrame | None = None
) -> pl.DataFrame:
    """Return a path with the columns of `segments`, with the host's time divided into kinds of work.

    Args:
        found: the pieces of the path: (step, kind, start in ns, end in ns).
        host: the host's work, as for `segments`.
        moments: the result of `bounds.parts`, as for `segments`.
    """
    path = pl.DataFrame(found, schema=_SEGMENTS, orient="row").sort("start_ns")
    codes = {kind: code for code, kind in enumerate(KINDS, 1)}
    parts, kinds = (
        pl.col(name).replace_strict(codes, return_dtype=pl.Int64).alias("code") for name in ("part", "kind")
    )
    known = [_HOST] if moments is None else [_HOST, bounds.LAUNCH, bounds.SYNC]
    own = path.filter(pl.col("kind").is_in(known))
    others = host.head(0) if moments is None else moments
    sets = {
        "path": own.with_columns(kinds),
        "host": host.with_columns(parts),
        "idle": others.filter(~pl.col("part").is_in([bounds.COMPUTING, bounds.COMMUNICATION])).with_columns(parts),
    }
    line = intervals.timeline(sets, dict.fromkeys(sets, "code")).filter(pl.col("path") > 0)
    code = (
        pl.when(pl.col("idle") > 0)
        .then("idle")
        .when((pl.col("path") == codes[_HOST]) & (pl.col("host") > 0))
        .then("host")
        .otherwise("path")
    )
    names = code.replace_strict({code: kind for kind, code in codes.items()}, return_dtype=pl.String)
    split = line.join_asof(own.select("step", "start_ns"), on="start_ns").select(
        pl.col("step").cast(pl.UInt32), names.alias("kind"), *intervals.BOUNDS
    )
    whole = pl.concat([path.filter(~pl.col("kind").is_in(known)), split]).sort("start_ns")
    return intervals.merge(whole, "step", "kind").select(_SEGMENTS.names())


def shares(path: pl.DataFrame) -> dict[str, float]:
    """Return the share of each kind in the paths of all steps, in the order of `KINDS`.

    share = time of the kind on the paths / total time of the paths

    Args:
        path: the critical paths of the steps, from `segments`.
    """
    length = pl.col("end_ns") - pl.col("start_ns")
    sums = dict(path.group_by("kind").agg(length.sum().alias("total")).iter_rows())
    total = max(sum(sums.values()), 1)
    return {kind: sums[kind] / total for kind in KINDS if sums.get(kind)}


def by_step(path: pl.DataFrame) -> pl.DataFrame:
    """Return one row per step: `step`, and a column with the nanoseconds of each kind that occurs; sorted by step.

    Args:
        path: the critical paths of the steps, from `segments`.
    """
    length = (pl.col("end_ns") - pl.col("start_ns")).alias("length")
    return (
        path.select("step", "kind", length)
        .pivot("kind", index="step", values="length", aggregate_function="sum")
        .sort("step")
    )
