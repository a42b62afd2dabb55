"""Look up the innermost span of one thread at a time, or around an interval."""

from functools import cached_property

import polars as pl

from ms_profiler.analysis.metrics import intervals
from ms_profiler.analysis.metrics.phases import innermost
from ms_profiler.analysis.streams.nesting import nest

#: number of the owner of a time outside of all spans
OUTSIDE = -1
_ALWAYS = -(2**63)


class Line:
    """Spans of one thread.

    Args:
        spans: `process`, `thread`, `row`, `name`, `start_ns`, `end_ns`.
    """

    def __init__(self, spans: pl.DataFrame) -> None:
        self._spans = spans.select(
            "process", "thread", "row", "name", "start_ns", "end_ns", pl.lit(0, pl.UInt8).alias("category")
        )
        self._pieces = self._spans if spans.is_empty() else innermost(self._spans, "row")

    def at(self, times: pl.Series) -> pl.Series:
        """Return the row of the innermost span around each time; null for a time outside of all spans."""
        return self._pieces["row"].gather(intervals.locate(times, self._pieces))

    def around(self, after: pl.Series, before: pl.Series) -> pl.Series:
        """Return the row of the innermost span around each interval from `after` to `before`; null if there is none."""
        row = self.at(before.zip_with((after <= before).fill_null(False), pl.Series([None], dtype=pl.Int64)))
        while True:
            place = (
                self._outer["row"].search_sorted(row).zip_with(row.is_not_null(), pl.Series([None], dtype=pl.UInt32))
            )
            late = (self._outer["start_ns"].gather(place) > after).fill_null(False)
            if not late.any():
                return row
            row = self._outer["outer"].gather(place).zip_with(late, row)

    @cached_property
    def cuts(self) -> pl.DataFrame:
        """Return the times at which the name of the innermost span changes: `start_ns`, `owner`, sorted by time.

        `owner` is the name's row from then on, or `OUTSIDE`. The first cut is before all times.
        """
        names = self._spans.select("row", owner=pl.col("name").cast(pl.Int64))
        begun = self._pieces.select("row", "start_ns").join(names, on="row", maintain_order="left")
        ended = self._pieces.select(start_ns="end_ns", owner=pl.lit(OUTSIDE, pl.Int64))
        always = pl.DataFrame({"start_ns": [_ALWAYS], "owner": [OUTSIDE]}, schema=ended.schema)
        # where one piece ends and another begins, the begin counts
        every = pl.concat([always, begun.select("start_ns", "owner"), ended])
        ordered = every.unique("start_ns", keep="first", maintain_order=True).sort("start_ns")
        return ordered.filter(pl.col("owner").ne_missing(pl.col("owner").shift(1)))

    @property
    def outermost(self) -> pl.DataFrame:
        """Return the intervals of the outermost spans, sorted by time."""
        return intervals.union(self._spans)

    @cached_property
    def _outer(self) -> pl.DataFrame:
        """Return for each span its `row`, `start_ns` and `outer` (row of the enclosing span), sorted by row."""
        nested = nest(self._spans)
        return nested.select("row", "start_ns", nested["row"].gather(nested["parent"]).alias("outer")).sort("row")
