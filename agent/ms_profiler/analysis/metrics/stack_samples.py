"""Sampled Python stacks of threads: the samples, slices for a timeline, and the functions in the parts of a step."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import polars as pl

from ms_profiler.analysis.columns import COLUMNS
from ms_profiler.analysis.metrics.stack_tree import Tree
from ms_profiler.analysis.metrics.traced_calls import Calls
from ms_profiler.analysis.model import tables

#: number of samples per second that is assumed if the run's record does not contain it
_RATE: Final = 100.0
#: largest number of functions that are listed for a part of a step
ROWS: Final = 12
#: largest number of lines that are listed for a function, and smallest share of the function's samples in a listed line
_LINES: Final = 3
_LINE_SHARE: Final = 0.2
#: approximate largest number of functions that a timeline draws; this number takes a gigabyte of memory. A stack is
#: assumed to have `_DEEP` functions
_MOST: Final = 5_000_000
_DEEP: Final = 20
#: parts of a step with fewer samples are left out, because a single sample would be more than a tenth of the part
LEAST: Final = 10


@dataclass(frozen=True)
class Stacks:
    """The sampled Python stacks of a run.

    Attributes:
        recording: the run.
        between: begin and end of an interval, in ns since the epoch; only samples in this interval count.
    """

    recording: tables.Recording
    between: tuple[int, int]

    @cached_property
    def samples(self) -> pl.DataFrame:
        """Return `tables.SAMPLES` with `place`, the index of the stack in `Tree`. Unknown stacks are left out."""
        parts = [pl.DataFrame(schema={**tables.SAMPLES, "place": pl.Int64()})]
        chosen = self.recording.samples.filter(pl.col("start_ns").is_between(*self.between))
        for process, tree in self.trees.items():
            own = chosen.filter(pl.col("process") == process)
            place = own["node"].replace_strict(tree.places, default=None, return_dtype=pl.Int64)
            parts.append(own.with_columns(place=place))
        return pl.concat(parts).drop_nulls("place")

    @cached_property
    def trees(self) -> dict[int, Tree]:
        """Return the tree of functions of each process, by pid."""
        frames = self.recording.frames
        return {
            process: Tree(frames.filter(pl.col("process") == process), self.recording.names)
            for process in frames["process"].unique().sort()
        }

    @cached_property
    def calls(self) -> Calls:
        """Return the traced calls of the run; a run has either traced calls or samples."""
        return Calls(self.recording, self.between)

    @property
    def known(self) -> bool:
        """Return whether the run has any samples. Traced calls do not count as samples."""
        return not self.samples.is_empty()

    @property
    def period_ns(self) -> int:
        """Return the time in ns that a sample stands for."""
        rate = self.recording.info.options.get("stack_rate")  # a damaged record may contain any value here
        return round(1e9 / (rate if isinstance(rate, (int, float)) and rate >= 1 else _RATE))

    @property
    def late(self) -> dict[str, float]:
        """Return the median and the largest delay of a sample, in us."""
        late = self.samples["late_us"]
        return {"median_us": float(str(late.median() or 0)), "max_us": float(str(late.max() or 0))}

    @cached_property
    def moments(self) -> pl.DataFrame:
        """Return the samples one by one: `process`, `node`, `place`, `time_ns`, sorted by process and time.

        A row of `samples` stands for `count` consecutive samples of the same stack, at equal intervals of time.
        """
        rows = self.samples.select("process", "node", "place", "start_ns", "end_ns", "count")
        each = rows.with_columns(number=pl.int_ranges(0, pl.col("count"))).explode("number")
        gaps = (pl.col("count") - 1).clip(lower_bound=1)
        time = pl.col("start_ns") + (pl.col("end_ns") - pl.col("start_ns")) * pl.col("number") // gaps
        return each.select("process", "node", "place", time.alias("time_ns")).sort("process", "time_ns")

    def of_thread(self, process: int, native_tid: int) -> pl.DataFrame:
        """Return the samples of one thread one by one, in the form of `moments`.

        Args:
            process: pid.
            native_tid: the thread's number in the operating system.
        """
        tree = self.trees.get(process)
        if tree is None:
            return self.moments.clear()
        wanted = [place for place, thread in tree.threads.items() if tree.functions[thread].line == native_tid]
        own = self.moments.filter(pl.col("process") == process)
        return own.filter(pl.col("place").is_in(pl.Series(wanted, dtype=pl.Int64).implode()))

    def of_recorded(self, process: int, thread: int) -> pl.DataFrame:
        """Return the samples of one thread one by one, in the form of `moments`.

        Args:
            process: pid.
            thread: the thread's number in the recording.
        """
        threads = self.recording.threads.filter(pl.col("process") == process, pl.col("thread") == thread)
        return self.of_thread(process, int(threads["native_tid"][0]) if threads.height else 0)

    @cached_property
    def lanes(self) -> tuple[pl.DataFrame, list[str]]:
        """Return the slices of the timeline, `lane`, `name`, `start_ns`, `end_ns`, and the labels of the lanes.

        Each thread has one lane.
        """
        parts, labels = [], list[str]()
        for process, tree in self.trees.items():
            own = self.samples.filter(pl.col("process") == process).head(_MOST // _DEEP)
            table = slices(own, tree, self.period_ns)
            threads = table["lane"].unique().sort().to_list()
            first = len(labels)
            labels += [f"{tree.functions[thread].label} of process {process}" for thread in threads]
            names = pl.Series("name", [function.label for function in tree.functions], dtype=pl.String)
            lane = table["lane"].replace_strict(threads, range(first, len(labels)), return_dtype=pl.UInt32)
            parts.append(table.select(lane.alias("lane"), names.gather(table["place"]), "start_ns", "end_ns"))
        none = pl.DataFrame(schema={"lane": pl.UInt32, "name": pl.String, "start_ns": pl.Int64, "end_ns": pl.Int64})
        traced, more = self.calls.lanes
        parts.append(traced.with_columns(pl.col("lane") + len(labels)).select(none.columns))
        return pl.concat([none, *(part.cast(none.schema) for part in parts)]), labels + more

    def consists_of(self, moments: pl.DataFrame, pieces: pl.DataFrame, of: str) -> list[dict[str, Any]]:
        """Return the functions that samples show in parts of steps, the largest part first.

        Args:
            moments: the samples of one thread, in the form of the property `moments`.
            pieces: intervals that do not overlap, sorted by time, with a column that names the part of a step.
            of: the name of this column.

        Returns:
            For each part `name`, `samples` (number of samples) and `rows` (functions, in the form of `_row`).
        """
        row = COLUMNS.locate(moments["time_ns"], pieces["start_ns"], pieces["end_ns"])
        placed = moments.with_columns(pieces[of].gather(row).alias("part")).drop_nulls("part")
        sums = placed.group_by("part", "node", maintain_order=True).agg(pl.len().alias("samples"))
        parts = sums.group_by("part").agg(pl.col("samples").sum()).sort("samples", "part", descending=[True, False])
        process = int(moments["process"][0]) if moments.height else 0
        return [
            {"name": name, "samples": count, "rows": self._rows(process, sums.filter(pl.col("part") == name), count)}
            for name, count in parts.iter_rows()
            if count >= LEAST
        ]

    def _rows(self, process: int, sums: pl.DataFrame, whole: int) -> list[dict[str, Any]]:
        tree = self.trees[process]
        frames = self.recording.frames.filter(pl.col("process") == process)
        callers = dict(frames.select("node", "caller").iter_rows())
        found: dict[tuple[Any, ...], dict[int, int]] = {}
        for node, count in sums.select("node", "samples").iter_rows():
            own = tree.own(node, callers)
            leaf = tree.functions[tree.places[node]]
            script = tree.functions[tree.places[own]] if own else None
            line = tree.lines[own] if own and script != leaf else 0  # a function of the script is one row
            lines = found.setdefault((leaf, script, line), {})
            lines[tree.lines[node]] = lines.get(tree.lines[node], 0) + count
        order = sorted(found, key=lambda key: (-sum(found[key].values()), key[0].label, key[2]))
        return [_row(*key, lines=found[key], whole=whole) for key in order[:ROWS]]


def _row(leaf: Any, script: Any, line: int, *, lines: dict[int, int], whole: int) -> dict[str, Any]:
    """Return a row about a function: its most sampled lines, and the script's line from which it was called."""
    count = sum(lines.values())
    order = sorted(lines, key=lambda number: (-lines[number], number))
    row = {
        "function": leaf.name,
        "file": leaf.file,
        "line": order[0],
        "other_lines": [number for number in order[1:_LINES] if lines[number] >= _LINE_SHARE * count],
        "samples": count,
        "share": round(count / whole, 6),
        "called_from": None,
    }
    if script is not None and script != leaf:
        row["called_from"] = {"function": script.name, "file": script.file, "line": line}
    return row


def slices(samples: pl.DataFrame, tree: Tree, period_ns: int) -> pl.DataFrame:
    """Return the stacks of one process as nested intervals: `lane` (one for each thread), `place`, `depth`, and times.

    A function lasts from the first sample that contains it to the next sample that does not contain it. If two samples
    are more than three periods apart, the function ends after the first of the two.

    Args:
        samples: the samples of the process, from `Stacks.samples`.
        tree: the tree of the process.
        period_ns: the time between two samples.
    """
    schema = {"lane": pl.Int64, "place": pl.Int64, "depth": pl.UInt32, "start_ns": pl.Int64, "end_ns": pl.Int64}
    if samples.is_empty():
        return pl.DataFrame(schema=schema)
    lane = samples["place"].replace_strict(tree.threads, return_dtype=pl.Int64)
    runs = samples.select("place", "start_ns", "end_ns", lane=lane).sort("lane", "start_ns", maintain_order=True)
    following = pl.col("start_ns").shift(-1).over("lane")
    near = (following - pl.col("end_ns")) <= 3 * period_ns
    runs = runs.with_columns(
        until_ns=pl.when(near).then(following).otherwise(pl.col("end_ns") + period_ns),
        stretch=(~near.fill_null(False)).cast(pl.UInt32).cum_sum().shift(1, fill_value=0),
    )
    paths = {place: tree.path(place)[1:] for place in runs["place"].unique()}
    stacks = pl.DataFrame(
        {"place": list(paths), "path": list(paths.values())}, schema={"place": pl.Int64, "path": pl.List(pl.Int64)}
    ).with_columns(depth=pl.int_ranges(0, pl.col("path").list.len(), dtype=pl.UInt32))
    stood = runs.with_row_index("run").join(stacks, on="place").drop("place").explode("path", "depth")
    key = ["lane", "depth"]
    stood = stood.rename({"path": "place"}).sort(*key, "run")
    new = (
        (pl.col("place") != pl.col("place").shift(1).over(key))
        | (pl.col("run") != pl.col("run").shift(1).over(key) + 1)
        | (pl.col("stretch") != pl.col("stretch").shift(1).over(key))
    ).fill_null(True)
    grouped = stood.with_columns(slice=new.cum_sum()).group_by("slice", maintain_order=True)
    made = grouped.agg(pl.col("lane", "place", "depth", "start_ns").first(), pl.col("until_ns").last().alias("end_ns"))
    return made.select(*schema).sort("lane", "start_ns", "depth")
