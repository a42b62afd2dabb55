"""Compute the device time of each operator: the time of all kernels that it, or an operator inside it, launched."""

import polars as pl


def times(spans: pl.DataFrame, kernels: pl.DataFrame) -> pl.DataFrame:
    """Return `device_self_ns` and `device_total_ns` of each span.

    device_self_ns(i) = sum of the durations of the kernels that span i launched
    device_total_ns(i) = device_self_ns(i) + sum of device_total_ns(j) over all spans j with parent(j) = i

    If kernels overlap each other, each of them counts with its full duration.

    Args:
        spans: the spans, with `parent` (row of the enclosing span).
        kernels: the kernels: `launch` (row of the launching span), `duration_ns`.
    """
    own = kernels.drop_nulls("launch").group_by("launch").agg(pl.col("duration_ns").sum())
    rows = pl.int_range(spans.height, dtype=pl.UInt32, eager=True).alias("launch")
    alone = rows.to_frame().join(own, on="launch", how="left", maintain_order="left")["duration_ns"].fill_null(0)
    # each round adds the times to the enclosing spans, one level further out
    total, moving = alone, pl.DataFrame({"row": rows, "length": alone}).filter(pl.col("length") > 0)
    while not moving.is_empty():
        above = moving.with_columns(spans["parent"].gather(moving["row"]).alias("row")).drop_nulls("row")
        moving = above.group_by("row").agg(pl.col("length").sum())
        added = rows.alias("row").to_frame().join(moving, on="row", how="left", maintain_order="left")["length"]
        total = total + added.fill_null(0)
    return pl.DataFrame({"device_self_ns": alone, "device_total_ns": total})
