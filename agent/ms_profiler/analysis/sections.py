"""A run in sections: times of it, one after the other, each of which can be held in memory.

Timelines and the table of kernels are written section by section. A run that is held has one section.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import polars as pl

from ms_profiler.analysis import tables
from ms_profiler.store.format import CATEGORY_FINE, Category

#: fine-grained spans of a section, about: 160 MB of a timeline, and less than a gigabyte of memory
MOST: Final = 1_000_000
#: sections at most: MindStudio Insight takes 100 files
COUNT: Final = 100

_FINE: Final = pl.col("category") >= CATEGORY_FINE
_COLUMNS: Final = tables.UNNESTED.names()


@dataclass(frozen=True)
class Section:
    """Some time of a run.

    Attributes:
        number: from 0; the first one has everything of the run that is not cut: steps, phases, counters, kernels.
        last: there is none after it.
        spans: `tables.UNNESTED` at least: the fine-grained ones that begin in it, and in the first section the coarse
            ones of the run.
        before: spans in the sections before.
        carried: `tables.UNNESTED`: what the fine-grained ones may stand in or come after, of the sections before.
        operators: those of its spans that compute where they are called, of `metrics.host_operators.calls`.
    """

    number: int
    last: bool
    spans: pl.DataFrame
    before: int
    carried: pl.DataFrame
    operators: pl.DataFrame = field(default_factory=pl.DataFrame)

    @property
    def first(self) -> bool:
        """Tell whether it is the first one."""
        return self.number == 0


def sections(recording: tables.Recording, spans: pl.DataFrame, steps: pl.DataFrame, cut: bool) -> Iterator[Section]:
    """Yield the sections of a run.

    Args:
        recording: the run.
        spans: `tables.SPANS`, as `Recording.spans`.
        steps: in use.
        cut: only what touches the time of the steps is wanted.
    """
    carried = pl.DataFrame(schema=tables.UNNESTED)
    if recording.again is None:
        yield Section(0, True, spans, 0, carried)
        return
    start, end = (steps["start_ns"][0], steps["end_ns"][-1]) if cut else (tables.EARLIEST, tables.LATEST)
    ends = [bound for bound in bounds(recording, steps) if start < bound < end]
    coarse, before = spans.filter(~_FINE).select(_COLUMNS), 0
    for number, (begin, until) in enumerate(zip([tables.EARLIEST, *ends], [*ends, end], strict=True)):
        parts = [batch.filter(_FINE, pl.col("end_ns") > start) for batch in recording.again(begin, until)]
        fine = pl.concat([carried.clear(), *parts])
        yield Section(number, number == len(ends), pl.concat([fine, coarse]), before, carried)
        before += fine.height + coarse.height
        coarse = coarse.clear()
        known = pl.concat([carried, fine])
        open_still = known.filter(pl.col("end_ns") > until)
        operators = known.filter(pl.col("category") == Category.OP)
        latest = operators.filter(pl.col("start_ns") == pl.col("start_ns").max().over("process", "thread"))
        carried = pl.concat([open_still, latest]).unique()


def bounds(recording: tables.Recording, steps: pl.DataFrame, most: int | None = None) -> list[int]:
    """Return when sections end, but for the last one: where a step begins, if one does in between.

    Args:
        recording: the run.
        steps: in use.
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
