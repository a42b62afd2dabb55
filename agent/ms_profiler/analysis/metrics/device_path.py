"""The critical path of each step with a device: the chain of work for which the end of the step waited.

The steps are those of `launched_steps.spans`. A step begins where the step before it ended, and lasts until the last
kernel that the step launched has ended. So the paths of all steps together form the path of the run.

The path is followed backwards, from the end of the step to its start. From the end of a kernel K, the path runs to the
start of K, and from there to K's predecessor P:

- P is usually the kernel before K in the same stream.
- If the kernel before K in the stream ended long before K started, K must have waited for another stream. P is then the
  kernel of any stream that ended last before K.
- If K was launched only after P had ended, the launch is the predecessor instead.

From a launch, the path runs back along the host to the end of a wait. From there it runs along the awaited work.

A piece of the path is an interval with one kind of work. The pieces follow each other without gaps. Their lengths add
up to the length of the step exactly.
"""

from bisect import bisect_right
from collections.abc import Iterator
from typing import Final

import polars as pl

from ms_profiler.analysis.metrics import bounds, critical_path, intervals
from ms_profiler.analysis.model.tables import Device

#: if a kernel starts at most this many ns after the end of the kernel before it in its stream, it waited for that
#: kernel and not for another stream
NEXT: Final = 10_000
#: largest number of moves back that are made within a step; the rest of the step is assigned to the host
MOST: Final = 1_000_000
_KINDS: Final = (bounds.COMPUTING, bounds.COMMUNICATION, critical_path.COPY)
#: a time in ns before all recorded times
_EVER: Final = -(2**62)


class _Walk:
    """Follows the critical path back in time, through the tasks of a device and the waits of the host.

    Args:
        tasks: `stream`, `start_ns`, `end_ns`, `launch_ns` (null if unknown), `kind` (one of `_KINDS`).
        waits: the host's waits for the device, with the columns of `device_waits.WAITED`.
    """

    def __init__(self, tasks: pl.DataFrame, waits: pl.DataFrame) -> None:
        ordered = tasks.sort("end_ns", "start_ns").with_row_index("row")
        self.starts, self.ends = ordered["start_ns"].to_list(), ordered["end_ns"].to_list()
        self.launches, self.kinds = ordered["launch_ns"].to_list(), ordered["kind"].to_list()
        before = ordered.sort("stream", "start_ns", "end_ns").select(
            "row", pl.col("row").shift(1).over("stream").alias("before")
        )
        self.before = before.sort("row")["before"].to_list()
        # whether the launch of any task is known
        self.launched = ordered["launch_ns"].null_count() < ordered.height
        rows = ordered.select(pl.col("start_ns").alias("released_ns"), "stream", pl.col("row").alias("task")).unique(
            ["released_ns", "stream"], keep="last"
        )
        known = waits.join(rows, on=["released_ns", "stream"], how="left", maintain_order="left").sort("end_ns")
        self.waits = list(known.select(*intervals.BOUNDS, "task", "stream").iter_rows())
        self.wait_ends = known["end_ns"].to_list()
        streams = ordered.group_by("stream").agg("row", "end_ns")
        self.streams = {stream: (rows, ends) for stream, rows, ends in streams.iter_rows()}

    def back(self, begin: int, end: int) -> Iterator[tuple[str, int, int]]:
        """Yield the kind, the start and the end of each piece of a step's path, the last piece first.

        Args:
            begin: the start of the step on the device, in ns.
            end: the end of the step on the device, in ns.
        """
        last = bisect_right(self.ends, end) - 1
        time, task = end, last if last >= 0 and self.ends[last] == end else -1
        for _ in range(MOST):
            if time <= begin:
                return
            if task < 0:
                time, task, pieces = self._on_host(time, begin)
            else:
                time, task, pieces = self._on_device(task, time)
            for kind, start, until in pieces:
                if until > max(start, begin):
                    yield kind, max(start, begin), until
        if time > begin:
            yield bounds.HOST, begin, time

    def _on_host(self, time: int, begin: int) -> tuple[int, int, list[tuple[str, int, int]]]:
        row = bisect_right(self.wait_ends, time) - 1
        if row < 0 or self.waits[row][1] <= begin:
            return begin, -1, [(bounds.HOST, begin, time)]
        start, end, task, stream = self.waits[row]
        host = [(bounds.HOST, end, time)]
        if task is None:
            task = self._waited(end, stream)
        if task is None or self.ends[task] <= start or self.starts[task] >= end:
            # no known work ran during the wait, so the waiting call itself took all the time
            return start, -1, [*host, (bounds.SYNC, start, end)]
        done = min(self.ends[task], end)
        return done, task, [*host, (bounds.SYNC, done, end)]

    def _waited(self, end: int, stream: int | None) -> int | None:
        """Return the row of the last task that ended at `end` or before; None if there is no such task.

        Only tasks of `stream` are searched, or all tasks if `stream` is None.
        """
        rows, ends = self.streams.get(stream, (None, self.ends)) if stream is not None else (None, self.ends)
        last = bisect_right(ends, end) - 1
        if last < 0:
            return None
        return last if rows is None else int(rows[last])

    def _on_device(self, task: int, time: int) -> tuple[int, int, list[tuple[str, int, int]]]:
        start = self.starts[task]
        ran = [(self.kinds[task], start, time)] if start < time else []
        start = min(start, time)
        launch = self.launches[task]
        previous = self._previous(task, start)
        ended = self.ends[previous] if previous >= 0 else _EVER
        if launch is None:
            # the task was launched before recording began, or its launch is unknown
            if previous >= 0 and (self.launched or start - ended <= critical_path.BACK_TO_BACK):
                return ended, previous, [*ran, (critical_path.GAP, ended, start)]
            return start, -1, ran
        if ended >= launch:
            return ended, previous, [*ran, (critical_path.GAP, ended, start)]
        launch = min(launch, start)
        return launch, -1, [*ran, (bounds.LAUNCH, launch, start)]

    def _previous(self, task: int, start: int) -> int:
        """Return the row of the task for whose end `task` had to wait before its start; -1 if there is none."""
        before = self.before[task]
        if before is not None and before < task and 0 <= start - self.ends[before] <= NEXT:
            return int(before)
        # only rows before `task` are searched, because later rows may have the same end
        return bisect_right(self.ends, start, 0, task) - 1


def tasks_of(device: Device) -> pl.DataFrame:
    """Return the tasks and copies of a device, with the kind that each has on the critical path."""
    kind = pl.when("exchange").then(pl.lit(bounds.COMMUNICATION)).otherwise(pl.lit(bounds.COMPUTING))
    columns = ("stream", *intervals.BOUNDS, "launch_ns")
    copies = device.copies.select(*columns, pl.lit(critical_path.COPY).alias("kind"))
    return pl.concat([device.tasks.select(*columns, kind.alias("kind")), copies])


def segments(during: pl.DataFrame, tasks: pl.DataFrame, waits: pl.DataFrame, host: pl.DataFrame) -> pl.DataFrame:
    """Return the critical path of each step: `step`, `kind`, `start_ns`, `end_ns`, sorted by time.

    Args:
        during: the selected steps on the device, from `launched_steps.spans`.
        tasks: all tasks of a device: `stream`, `start_ns`, `end_ns`, `launch_ns` (null if unknown), `kind`.
        waits: the host's waits for the device (`device_waits.WAITED`), but only waits of threads that delay the steps.
        host: what the host did: `part` (one of `bounds.PARTS`), `start_ns`, `end_ns`, without overlap, sorted by time.
    """
    walk = _Walk(tasks, waits)
    found = [
        (step, kind, start, end)
        for step, begin, finish in during.select("step", *intervals.BOUNDS).iter_rows()
        for kind, start, end in walk.back(begin, finish)
    ]
    return _busy(critical_path.divided(found, host), tasks)


def _busy(path: pl.DataFrame, tasks: pl.DataFrame) -> pl.DataFrame:
    """Replace gaps on the path by work of other streams that ran meanwhile, because the device was not idle then."""
    gaps = path.filter(pl.col("kind") == critical_path.GAP)
    if gaps.is_empty() or tasks["stream"].n_unique() < 2:
        return path
    near = tasks.filter(pl.col("end_ns") > gaps["start_ns"].min(), pl.col("start_ns") < gaps["end_ns"].max())
    sets = {critical_path.GAP: gaps, **{kind: near.filter(pl.col("kind") == kind) for kind in _KINDS}}
    line = intervals.timeline(sets).filter(pl.col(critical_path.GAP) > 0)
    kind = pl.coalesce(pl.when(pl.col(kind) > 0).then(pl.lit(kind)) for kind in _KINDS).fill_null(critical_path.GAP)
    split = line.join_asof(gaps.select("step", "start_ns"), on="start_ns")
    whole = pl.concat(
        [path.filter(pl.col("kind") != critical_path.GAP), split.select("step", kind.alias("kind"), *intervals.BOUNDS)]
    )
    return intervals.merge(whole.sort("start_ns"), "step", "kind").select(path.columns)
