"""Find the span of another tool's trace in which the host mostly runs its own code."""

from typing import Final

import polars as pl

from ms_profiler.analysis.metrics import bounds, intervals
from ms_profiler.analysis.metrics.steps import Steps
from ms_profiler.analysis.model import tables

#: the name of spans is reported if these spans take at least this share of the time of the host's own code
_MOST: Final = 0.5
_HOST: Final = (bounds.HOST, bounds.UNKNOWN)


def longest(recording: tables.Recording, used: Steps, pieces: pl.DataFrame) -> str:
    """Return the name of the spans in which most of the host's own code ran, and their share of its time.

    self time of a name = time of the host's own code in the spans of this name - time of this code in their child spans

    Args:
        recording: the run; the column `parent` of its spans is the row of the enclosing span.
        used: the steps in use.
        pieces: the steps cut into parts, from `Diagnosis.pieces`.

    Returns:
        Text, such as "in NAME (60 %)"; empty if no name has at least half of the time.
    """
    own = pieces.filter(pl.col("part").is_in(_HOST)).sort("start_ns")
    total = intervals.total_ns(own)
    if not total:
        return ""
    spans = recording.spans.with_row_index("row").filter(
        pl.col("process") == used.process,
        pl.col("thread") == used.thread,
        pl.col("end_ns") > own["start_ns"][0],
        pl.col("start_ns") < own["end_ns"][-1],
    )
    spans = spans.with_columns(inside=_until(own, spans["end_ns"]) - _until(own, spans["start_ns"]))
    spans = spans.filter(pl.col("inside") > 0)
    inner = spans.drop_nulls("parent").group_by("parent").agg(pl.col("inside").sum().alias("inner"))
    found = (
        spans.join(inner, left_on="row", right_on="parent", how="left")
        .group_by("name")
        .agg((pl.col("inside") - pl.col("inner").fill_null(0)).sum().alias("self"))
        .sort("self", "name", descending=[True, False])
    )
    if found.is_empty() or found["self"][0] < _MOST * total:
        return ""
    return f"in {recording.names[int(found['name'][0])]} ({found['self'][0] / total * 100:.0f} %)"


def _until(own: pl.DataFrame, times: pl.Series) -> pl.Series:
    """Return for each time how much of the disjoint intervals `own` lies before it, in ns."""
    length = own["end_ns"] - own["start_ns"]
    before = length.cum_sum() - length
    place = own["start_ns"].search_sorted(times, side="right").cast(pl.Int64) - 1
    row = place.clip(lower_bound=0)
    since = pl.select(pl.min_horizontal(times - own["start_ns"].gather(row), length.gather(row))).to_series()
    return before.gather(row) + since.clip(lower_bound=0)
