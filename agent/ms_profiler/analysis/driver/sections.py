"""Divide a run into sections: consecutive intervals, each small enough for memory.

Timelines and the table of kernels are written section by section. A run that fits into memory has one section.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import polars as pl

from ms_profiler.analysis.model import tables
from ms_profiler.analysis.streams.nesting import in_order
from ms_profiler.store.format import CATEGORY_FINE, Category

#: fine-grained spans of a section, about: 160 MB of a timeline, and less than a gigabyte of memory
MOST: Final = 1_000_000
#: sections at most: MindStudio Insight takes 100 files
COUNT: Final = 100

_FINE: Final = pl.col("category") >= CATEGORY_FINE
_COLUMNS: Final = tables.UNNESTED.names()


@dataclass(frozen=True)
class Section:
    """An interval of a run.

    Attributes:
        number: its number, from 0; the first section has all undivided tables of the run: steps, phases, counters,
            kernels.
        last: whether it is the last one.
        spans: `tables.UNNESTED` at least, sorted as `tables.SPANS` are or by process, thread and start, the longest
        first: the fine-grained ones that begin in it, and in the first section the coarse ones of the run.
        before: spans in the sections before.
        carried: `tables.UNNESTED`: spans of earlier sections that its fine-grained spans may be inside of, or come
            after.
        operators: its operators that compute where they are called, of `metrics.host_operators.calls`; if the run is
            divided, those that are shown one by one or have a number.
    """

    number: int
    last: bool
    spans: pl.DataFrame
    before: int
    carried: pl.DataFrame
    operators: pl.DataFrame = field(default_factory=pl.DataFrame)

    @property
    def first(self) -> bool:
        """Return whether it is the first one."""
        return self.number == 0


def sections(recording: tables.Recording, spans: pl.DataFrame, steps: pl.DataFrame, cut: bool) -> Iterator[Section]:
    """Yield the sections of a run.

    Args:
        recording: the run.
        spans: `tables.SPANS`, as `Recording.spans`.
        steps: the steps in use.
        cut: leave out everything outside of the steps.
    """
    carried = pl.DataFrame(schema=tables.UNNESTED)
    if recording.again is None:
        yield Section(0, True, spans, 0, carried)
        return
    start, end = (steps["start_ns"][0], steps["end_ns"][-1]) if cut else (tables.EARLIEST, tables.LATEST)
    ends = [bound for bound in bounds(recording, steps) if start < bound < end]
    coarse, before = spans.filter(~_FINE).select(_COLUMNS), 0
    for number, (begin, until) in enumerate(zip([tables.EARLIEST, *ends], [*ends, end], strict=True)):
        fine = pl.concat([carried.clear(), *recording.again((begin, until), True)])
        if cut:
            fine = fine.filter(pl.col("end_ns") > start)
        yield Section(number, number == len(ends), in_order(pl.concat([fine, coarse])), before, carried)
        before += fine.height + coarse.height
        coarse = coarse.clear()
        carried = _carried(pl.concat([carried, fine]), until)


def _carried(known: pl.DataFrame, until_ns: int) -> pl.DataFrame:
    """Return the spans that spans of later sections may be inside of, or come after."""
    thread, operator = ["process", "thread"], pl.col("category") == Category.OP
    # lazily: only the needed part of a million rows is read
    latest = known.lazy().filter(operator).group_by(thread).agg(pl.col("start_ns").max()).collect()
    late = known.filter(operator, pl.col("start_ns") >= pl.lit(latest["start_ns"].min()))
    last = late.join(latest, on=[*thread, "start_ns"], how="semi")
    return pl.concat([known.filter(pl.col("end_ns") > until_ns), last]).unique()


def bounds(recording: tables.Recording, steps: pl.DataFrame, most: int | None = None) -> list[int]:
    """Return the ends of all sections but the last: at the begin of a step, where there is one.

    Args:
        recording: the run.
        steps: the steps in use.
        most: fine-grained spans of a section, about; `MOST` by default.
    """
    starts, begins = recording.starts, steps["start_ns"]
    count = min(-(-len(starts) * tables.SAMPLED // (MOST if most is None else most)), COUNT)
    found: list[int] = []
    for number in range(1, count):
        cut = int(starts[len(starts) * number // count])
        row = int(begins.search_sorted(cut, side="right")) - 1
        step = int(begins[row]) if row >= 0 else cut
        before = found[-1] if found else int(starts[0])
        if step > before:
            found.append(step)
        elif cut > before:
            found.append(cut)
    return found
