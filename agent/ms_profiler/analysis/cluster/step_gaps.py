"""Divide the time between the steps of a rank into parts, because other ranks also wait for work between steps."""

from typing import TYPE_CHECKING, Final

import polars as pl

from ms_profiler.analysis.metrics import bounds, intervals, scheduling, stretches
from ms_profiler.analysis.metrics.steps import stepping
from ms_profiler.store.format import Category

if TYPE_CHECKING:
    from ms_profiler.analysis.metrics.measures import Measures

#: parts of the time between steps
PARTS: Final = (stretches.EVALUATION, "rollout", "profiling", stretches.NETWORK, stretches.BETWEEN)
#: phases of the stepping thread that occur within steps and between them
_PHASES: Final = (bounds.COMMUNICATION, bounds.DATA, bounds.COMPILE, bounds.CHECKPOINT, bounds.SYNC)
#: all parts that time between steps may have
ALL: Final = (*PARTS, *_PHASES, bounds.BLOCKED)
_PLACED: Final = pl.Schema({"step": pl.Int64, "part": pl.String, "start_ns": pl.Int64, "end_ns": pl.Int64})
#: categories of spans that name the work between steps, the preferred one first
_NAMING: Final = (Category.MODULE, Category.OP)
#: a part is named after a module or operator only if its spans take at least this share of the part's time
_MOST: Final = 0.3


def pieces(measures: "Measures") -> pl.DataFrame:
    """Return the time between steps, divided into pieces. A piece is an interval with one part.

    The part of a moment is the first of these that applies:

    - communication, during an exchange,
    - evaluation, rollout, profiling or network calls,
    - the phase of the stepping thread, if it is one of `_PHASES`,
    - `stretches.BETWEEN`.

    Args:
        measures: the measures of the run.

    Returns:
        `step` (the number of the step after the piece), `part`, `start_ns`, `end_ns`.
    """
    used = measures.steps
    cut = measures.stretches.filter(
        pl.col("process") == used.process,
        ~pl.col("part").is_in([stretches.STEPS, stretches.UNRECORDED, stretches.AWAY]),
    )
    place = used.table["start_ns"].search_sorted(cut["end_ns"]).cast(pl.Int64)
    inside = cut.with_columns(place=place).filter(pl.col("place") > 0, pl.col("place") < used.table.height)
    if inside.is_empty():
        return pl.DataFrame(schema=_PLACED)
    part = (
        pl.when(pl.col("phase") == bounds.COMMUNICATION)
        .then("phase")
        .when(pl.col("part").is_in(PARTS[:-1]))
        .then("part")
        .when(pl.col("phase").is_in(_PHASES))
        .then("phase")
        .otherwise(pl.lit(stretches.BETWEEN))
    )
    found = inside.select(
        used.table["number"].gather(inside["place"]).cast(pl.Int64).alias("step"), part.alias("part"), *intervals.BOUNDS
    )
    return found.cast(_PLACED)


def asleep(found: pl.DataFrame, measures: "Measures") -> pl.DataFrame:
    """Return the pieces, with the part `BLOCKED` in place of `stretches.BETWEEN` while the stepping thread slept.

    Args:
        found: the time between steps, as pieces with one part each, from `pieces`.
        measures: the measures of the run.
    """
    used = measures.steps
    still = scheduling.asleep(scheduling.cells(measures.recording.looks, used.process, used.thread))
    if still.is_empty() or found.is_empty():
        return found
    line = intervals.timeline(
        {"row": found.with_row_index("number", 1), "still": intervals.union(still)}, {"row": "number"}
    )
    rows = found.with_row_index("row", 1).select(pl.col("row").cast(pl.Int64), "step", "part")
    idle = (pl.col("still") > 0) & (pl.col("part") == stretches.BETWEEN)
    placed = line.filter(pl.col("row") > 0).join(rows, on="row", maintain_order="left")
    part = pl.when(idle).then(pl.lit(bounds.BLOCKED)).otherwise("part").alias("part")
    return placed.select("step", part, *intervals.BOUNDS)


def names(measures: "Measures", found: pl.DataFrame) -> dict[str, str]:
    """Return, for each part of the time between steps, the module or operator that took most of it.

    A module is named if it took at least the share `_MOST` of the part. If no module did, an operator that took this
    share is named. If no operator did either, the part has no name.

    Args:
        measures: the measures of the run.
        found: the time between steps, as pieces with one part each, from `pieces`.
    """
    used, recording = measures.steps, measures.recording
    own = stepping(recording.spans, used)
    called: dict[str, str] = {}
    for part, among in found.filter(pl.col("part").is_in(PARTS)).group_by("part"):
        for category in _NAMING:
            spans = own.filter(pl.col("category") == int(category)).sort("start_ns", "end_ns", descending=[False, True])
            spans = spans.filter(intervals.locate(spans["start_ns"], among.sort("start_ns")).is_not_null())
            outer = spans.filter((pl.col("start_ns") >= pl.col("end_ns").cum_max().shift(1)).fill_null(True))
            sums = outer.group_by("name").agg((pl.col("end_ns") - pl.col("start_ns")).sum().alias("sum"))
            if sums.is_empty():
                continue
            most = sums.sort("sum", "name", descending=[True, False]).row(0, named=True)
            if most["sum"] >= _MOST * intervals.total_ns(among):
                called[str(part[0])] = str(recording.names[most["name"]])
                break
    return called
