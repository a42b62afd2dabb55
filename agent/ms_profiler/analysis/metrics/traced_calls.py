"""Traced calls of Python functions: their nesting, and the time of each function."""

from array import array
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import polars as pl

from ms_profiler.analysis.metrics.stack_tree import Function
from ms_profiler.analysis.model import tables
from ms_profiler.analysis.streams.nesting import nest

#: largest number of functions that are listed: in a summary, and for a part of a step
ROWS: Final = 20
PART_ROWS: Final = 12
#: largest number of calls that a timeline draws; if there are more calls, it draws the longest ones
DRAWN: Final = 1_000_000


@dataclass(frozen=True)
class Calls:
    """The traced calls of a run.

    Attributes:
        recording: the run.
        between: begin and end of an interval, in ns since the epoch; only calls that overlap the interval count.
    """

    recording: tables.Recording
    between: tuple[int, int]

    @property
    def known(self) -> bool:
        """Return whether the run has traced calls."""
        return not self.table.is_empty()

    @cached_property
    def table(self) -> pl.DataFrame:
        """Return `tables.CALLS` with `depth`, `parent`, `function` (index in `functions`), `self_ns`; callers first."""
        first, last = self.between
        own = self.recording.calls.filter(pl.col("end_ns") >= first, pl.col("start_ns") <= last)
        nested = nest(own.with_columns(category=pl.lit(0, pl.UInt8)))
        keys = nested.select("name", "file", "first_line")
        known = keys.unique(maintain_order=True).with_row_index("function")
        nested = nested.with_columns(
            keys.join(known, on=["name", "file", "first_line"], how="left", maintain_order="left")["function"],
            duration_ns=pl.col("end_ns") - pl.col("start_ns"),
        ).with_row_index("row")
        inner = nested.drop_nulls("parent").group_by("parent").agg(pl.col("duration_ns").sum().alias("inner_ns"))
        return (
            nested.join(inner, left_on="row", right_on="parent", how="left", maintain_order="left")
            .with_columns(self_ns=(pl.col("duration_ns") - pl.col("inner_ns").fill_null(0)).clip(lower_bound=0))
            .drop("inner_ns", "category")
        )

    @cached_property
    def functions(self) -> list[Function]:
        """Return the called functions; the number of a function is its index."""
        names = self.recording.names
        known = self.table.unique("function", keep="first").sort("function")
        columns = names.gather(known["name"]), names.gather(known["file"]), known["first_line"]
        return [Function(*row) for row in zip(*columns, strict=True)]

    @cached_property
    def threads(self) -> dict[tuple[int, int], str]:
        """Return the label of each thread with calls, by (pid, number of the thread)."""
        table = self.recording.threads
        found = {}
        for process, thread in self.table.select("process", "thread").unique().sort("process", "thread").iter_rows():
            own = table.filter(pl.col("process") == process, pl.col("thread") == thread)
            name, native = (own["thread_name"][0], own["native_tid"][0]) if own.height else ("", thread)
            found[process, thread] = f"{name or 'thread'} {native} of process {process}"
        return found

    def of_thread(self, process: int, thread: int) -> pl.DataFrame:
        """Return the calls of one thread, callers first."""
        return self.table.filter(pl.col("process") == process, pl.col("thread") == thread)

    @cached_property
    def lanes(self) -> tuple[pl.DataFrame, list[str]]:
        """Return the slices of the timeline, `lane`, `name`, `start_ns`, `end_ns`, and the labels of the lanes.

        Each thread has one lane.
        """
        drawn = self.table
        if drawn.height > DRAWN:
            drawn = drawn.sort("duration_ns", descending=True).head(DRAWN).sort("row")
        keys = pl.DataFrame(list(self.threads), schema={"process": pl.UInt32, "thread": pl.UInt32}, orient="row")
        lane = drawn.join(keys.with_row_index("lane"), on=["process", "thread"], how="left", maintain_order="left")
        names = pl.Series("name", [function.label for function in self.functions], dtype=pl.String)
        table = lane.select(
            pl.col("lane").cast(pl.UInt32), names.gather(lane["function"]).alias("name"), "start_ns", "end_ns"
        )
        return table, list(self.threads.values())

    @cached_property
    def paths(self) -> tuple[list[int], list[tuple[int, int]]]:
        """Return the path number of each call, and the list of paths.

        A path stands for a stack of functions. A path is stored as a pair: the path number of its caller (-1 without a
        caller), and the number of the called function.
        """
        known: dict[tuple[int, int], int] = {}
        of: list[int] = []
        for parent, function in self.table.select("parent", "function").iter_rows():
            key = (-1 if parent is None else of[parent], function)
            of.append(known.setdefault(key, len(known)))
        return of, list(known)

    def path(self, number: int) -> list[int]:
        """Return the functions of a path, from the outermost function to the innermost one."""
        found, paths = [], self.paths[1]
        while number >= 0:
            number, function = paths[number]
            found.append(function)
        return found[::-1]

    def sums(self) -> list[dict[str, Any]]:
        """Return the functions with most self time. If a function calls itself directly, its total time counts once."""
        table = self.table
        around = table["function"].gather(table["parent"])
        # as in cProfile: if a function calls itself directly, only the outermost call counts. If it calls itself
        # through other functions, the inner call counts again
        table = table.with_columns(outer=around.ne_missing(table["function"]))
        made = table.group_by("function").agg(
            (~pl.col("resumed")).sum().alias("calls"),
            pl.col("duration_ns").filter("outer").sum().alias("total_ns"),
            pl.col("self_ns").sum(),
        )
        first = made.sort("self_ns", "function", descending=[True, False]).head(ROWS)
        return [
            {
                **self._named(number),
                "calls": calls,
                "total_us": round(total / 1e3, 3),
                "self_us": round(own / 1e3, 3),
            }
            for number, calls, total, own in first.select("function", "calls", "total_ns", "self_ns").iter_rows()
        ]

    def _named(self, number: int) -> dict[str, Any]:
        function = self.functions[number]
        return {"function": function.name, "file": function.file, "line": function.line}

    def segments(self, own: pl.DataFrame) -> Iterator[tuple[int, int, int]]:
        """Yield the intervals in which one call of a thread is the innermost: begin, end, row of the call in `table`.

        Args:
            own: the calls of the thread, from `of_thread`.
        """
        stack: list[tuple[int, int]] = []  # end of the call, its row
        at = 0
        for row, start, end in own.select("row", "start_ns", "end_ns").iter_rows():
            while stack and stack[-1][0] <= start:
                until, inner = stack.pop()
                if until > at:
                    yield at, until, inner
                at = max(at, until)
            if stack and start > at:
                yield at, start, stack[-1][1]
            at = start
            stack.append((end, row))
        while stack:
            until, inner = stack.pop()
            if until > at:
                yield at, until, inner
            at = max(at, until)

    def consists_of(self, own: pl.DataFrame, pieces: pl.DataFrame, of: str) -> list[dict[str, Any]]:
        """Return the functions that one thread's calls show in parts of steps, the longest part first.

        Args:
            own: the calls of the thread, from `of_thread`.
            pieces: intervals that do not overlap, sorted by time, with a column that names the part of a step.
            of: the name of this column.
        """
        starts, ends, parts = pieces["start_ns"].to_list(), pieces["end_ns"].to_list(), pieces[of].to_list()
        of_rows, paths = self.paths
        scripts = self._scripts
        sums: dict[str, dict[tuple[int, int | None], int]] = {}
        for start, end, row in self.segments(own):
            path = of_rows[row]
            at = max(bisect_right(starts, start) - 1, 0)
            while at < len(starts) and starts[at] < end:
                inside = min(end, ends[at]) - max(start, starts[at])
                if inside > 0:
                    key = (paths[path][1], scripts[path])
                    part = sums.setdefault(parts[at], {})
                    part[key] = part.get(key, 0) + inside
                at += 1
        order = sorted(sums, key=lambda part: (-sum(sums[part].values()), part))
        return [self._part(part, sums[part]) for part in order]

    @cached_property
    def _scripts(self) -> list[int | None]:
        """Return, for each path, its innermost function of the script; None if that is the path's called function."""
        own = [function.own for function in self.functions]
        inner: list[int | None] = []
        for around, function in self.paths[1]:
            inner.append(function if own[function] else inner[around] if around >= 0 else None)
        return [None if own[function] else found for (_, function), found in zip(self.paths[1], inner, strict=True)]

    def _part(self, name: str, sums: dict[tuple[int, int | None], int]) -> dict[str, Any]:
        whole = sum(sums.values())
        order = sorted(sums, key=lambda key: (-sums[key], key[0], -1 if key[1] is None else key[1]))
        rows = [
            {
                **self._named(function),
                "time_us": round(sums[function, script] / 1e3, 3),
                "share": round(sums[function, script] / whole, 6),
                "called_from": None if script is None else self._named(script),
            }
            for function, script in order[:PART_ROWS]
        ]
        return {"name": name, "time_us": round(whole / 1e3, 3), "rows": rows}

    def paths_at(self, process: int, thread: int, times: pl.Series) -> pl.Series:
        """Return the path of a thread's innermost call at some times, as Int64; null if no traced function runs then.

        Args:
            process: pid.
            thread: the number of the thread.
            times: the times in ns, as Int64.
        """
        # arrays save memory: a job has millions of calls, and a tuple for each would take 150 bytes
        starts, ends, paths = array("q"), array("q"), array("q")
        of = self.paths[0]
        for start, end, row in self.segments(self.of_thread(process, thread)):
            starts.append(start)
            ends.append(end)
            paths.append(of[row])
        until, path = pl.Series(ends, dtype=pl.Int64), pl.Series(paths, dtype=pl.Int64)
        at = pl.Series(starts, dtype=pl.Int64).search_sorted(times, side="right").cast(pl.Int64) - 1
        table = pl.DataFrame({"time": times, "at": at}).with_columns(at=pl.when(pl.col("at") >= 0).then("at"))
        inner = table.select("time", until=until.gather(table["at"]), path=path.gather(table["at"]))
        return inner.select(pl.when(pl.col("time") < pl.col("until")).then("path")).to_series()

    def stack(self, number: int) -> str:
        """Return a path as text, the innermost function first."""
        return ";\r\n".join(_line(self.functions[function]) for function in reversed(self.path(number)))


def _line(function: Function) -> str:
    return f"{function.file}({function.line}): {function.name}" if function.file else f"<built-in {function.name}>"
