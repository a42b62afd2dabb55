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

#: approximate number of fine-grained spans in a section: 160 MB of a timeline, and less than a gigabyte of memory
MOST: Final = 1_000_000
#: largest number of sections: MindStudio Insight reads at most 100 files
COUNT: Final = 100

_FINE: Final = pl.col("category") >= CATEGORY_FINE
_COLUMNS: Final = tables.UNNESTED.names()


@dataclass(frozen=True)
class Section:
    """An interval of a run.

    Attributes:
        number: number of the section, from 0. Section 0 also gets the tables that are not divided into sections: steps,
            phases, counters, kernels.
        last: whether this is the last section.
        spans: the fine-grained spans that begin in the section; in section 0 also all coarse spans of the run. The
            columns are at least those of `tables.UNNESTED`. Sorted by process, thread, start and falling duration.
        before: the number of spans in all earlier sections.
        carried: some spans of earlier sections, as `tables.UNNESTED`: those that may contain fine-grained spans of this
            section, and the last operators of each thread.
        operators: the operators of the section, from `metrics.host_operators.listed`. If the run has several sections,
            the table only has operators that are listed, or have a number from autograd.
    """

    number: int
    last: bool
    spans: pl.DataFrame
    before: int
    carried: pl.DataFrame
    operators: pl.DataFrame = field(default_factory=pl.DataFrame)

    @property
    def first(self) -> bool:
        """Return whether this is the first section."""
        return self.number == 0


def sections(recording: tables.Recording, spans: pl.DataFrame, steps: pl.DataFrame, cut: bool) -> Iterator[Section]:
    """Yield the sections of a run.

    Args:
        recording: the run.
        spans: `tables.SPANS`, as `Recording.spans`.
        steps: the steps in use.
        cut: whether to leave out the spans before the first step and after the last step.
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
    """Return the spans that may contain spans of later sections, and the last operators of each thread.

    The last operators of a thread are the one that ended last, and all that began after its begin.
    """
    thread, operator = ["process", "thread"], pl.col("category") == Category.OP
    # lazy, so that Polars reads only the needed columns of a million rows
    began = pl.col("start_ns").filter(pl.col("end_ns") == pl.col("end_ns").max()).min().alias("began_ns")
    latest = known.lazy().filter(operator).group_by(thread).agg(began).collect()
    late = known.filter(operator, pl.col("start_ns") >= pl.lit(latest["began_ns"].min()))
    last = late.join(latest, on=thread).filter(pl.col("start_ns") >= pl.col("began_ns")).select(known.columns)
    return pl.concat([known.filter(pl.col("end_ns") > until_ns), last]).unique()


def bounds(recording: tables.Recording, steps: pl.DataFrame, most: int | None = None) -> list[int]:
    """Return the ends of all sections except the last. If the run has steps, a section ends where a step begins.

    Args:
        recording: the run.
        steps: the steps in use.
        most: approximate number of fine-grained spans in a section; `MOST` by default.
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
