"""Collect the curves under the timeline: metrics of the host and of devices over time."""

from typing import Any, Final

import polars as pl

from ms_profiler.analysis.metrics.measures import Measures
from ms_profiler.analysis.page import listed

#: largest number of values of a curve
VALUES_MOST: Final = 20_000
#: largest number of curves; the page shows those with the most values
CURVES_MOST: Final = 60


def thinned(table: pl.DataFrame) -> pl.DataFrame:
    """Reduce a curve to at most `VALUES_MOST` values: the largest value of each interval, so that peaks stay visible.

    Args:
        table: the columns `time` and `value` of the curve, sorted by time.
    """
    if table.height <= VALUES_MOST:
        return table
    numbered = table.with_row_index("row")
    parts = numbered.with_columns(part=pl.col("row").cast(pl.Int64) * VALUES_MOST // table.height)
    largest = parts.sort("value", "row", descending=[True, False]).unique("part", keep="first", maintain_order=True)
    return largest.sort("row").drop("row", "part")


def content(measures: Measures, origin: int) -> dict[str, Any]:
    """Return the curves to show, and the number of all curves.

    Args:
        measures: the measures of the run.
        origin: the zero of the returned times, ns since the epoch.
    """
    host = listed.table("counters", measures).select("process", "name", "time", "value")
    device = measures.curves.select(
        pl.lit(None, pl.UInt32).alias("process"), "name", pl.col("time_ns").alias("time"), "value"
    )
    table = pl.concat([host.cast({"process": pl.UInt32}), device]).with_columns(pl.col("time") - origin)
    by = ["process", "name"]
    names = table.group_by(by, maintain_order=True).len()
    most = names.sort("len", descending=True).head(CURVES_MOST)
    shown = names.join(most.select(by), on=by, nulls_equal=True, maintain_order="left")
    found = []
    for process, name in shown.select(by).iter_rows():
        own = table.filter(pl.col("process").eq_missing(process), pl.col("name") == name).sort("time")
        curve = thinned(own.select("time", "value"))
        found.append({"process": process, "name": name, **curve.to_dict(as_series=False)})
    return {"curves": found, "count": names.height}
