"""Find whose own code causes most of the blocked time, or of the time of other host code.

It may be the code of a module, of a callback, or of the scheduler of learning rates.
"""

from typing import Final

import polars as pl

from ms_profiler.analysis.metrics import bounds, callbacks, intervals
from ms_profiler.analysis.metrics.phases import innermost
from ms_profiler.analysis.metrics.steps import Steps, stepping
from ms_profiler.store.format import Category
from ms_profiler.store.names import LEARNING_RATE

#: what texts call the owner `LEARNING_RATE`
SCHEDULER: Final = "the scheduler of learning rates"
#: parts of a step for which the own code of an owner (a module, a callback or the scheduler) may be the cause
PARTS: Final = (bounds.BLOCKED, bounds.HOST)
#: an owner is named if its own code, without inner modules, takes more than this share of the part's time
MOST: Final = 0.5
#: an owner is named for a part only if the part takes at least this share of the steps
LEAST: Final = 0.05


def within(moments: pl.DataFrame, spans: pl.DataFrame, names: pl.Series, steps: Steps) -> dict[str, str]:
    """Return part of a step -> the owner whose own code takes most of the time of this part.

    The owner is a module, a callback, whose name begins with `CALLBACK`, or the scheduler, whose name is
    `LEARNING_RATE`.

    The result covers only those of `PARTS` that take at least the share `LEAST` of the steps.

    Args:
        moments: the steps cut into pieces with one part each, from `bounds.parts`.
        spans: spans of these steps, with the columns of `tables.SPANS`.
        names: the names of the recording.
        steps: the steps in use.
    """
    length = (pl.col("end_ns") - pl.col("start_ns")).sum()
    times = moments.group_by("part").agg(length.alias("length"))
    share = pl.col("length") / pl.col("length").sum()
    large = times.with_columns(share=share).filter(pl.col("part").is_in(PARTS), pl.col("share") >= LEAST)["part"]
    if large.is_empty():
        return {}
    own = stepping(spans, steps)
    rates = (names == LEARNING_RATE).arg_true().implode()
    others = pl.col("name").is_in(callbacks.rows(names)) | pl.col("name").is_in(rates)
    own = own.filter((pl.col("category") == int(Category.MODULE)) | others)
    if own.is_empty():
        return {}
    inner = innermost(own, "name").with_columns(label=pl.col("name").cast(pl.Int64))
    parts = {part: code for code, part in enumerate(large.sort(), 1)}
    chosen = moments.filter(pl.col("part").is_in(large.implode()))
    coded = chosen.with_columns(code=pl.col("part").replace_strict(parts, return_dtype=pl.Int64))
    line = intervals.timeline({"part": coded, "module": inner}, {"part": "code", "module": "label"})
    sums = line.filter(pl.col("part") > 0).group_by("part", "module").agg(length.alias("length"))
    sums = sums.with_columns(whole=pl.col("length").sum().over("part"))
    most = sums.filter(pl.col("module") > 0, pl.col("length") > MOST * pl.col("whole"))
    kinds = {code: part for part, code in parts.items()}
    return {kinds[part]: names[module] for part, module in most.select("part", "module").iter_rows()}


def code(owner: str) -> str:
    """Return words for the own code of an owner."""
    return SCHEDULER if owner == LEARNING_RATE else f"the own code of {owner}"
