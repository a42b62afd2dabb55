"""Add up Python's garbage collections in the steps. During a collection, no thread of the interpreter runs."""

from dataclasses import dataclass

import polars as pl

from ms_profiler.analysis.metrics import intervals
from ms_profiler.analysis.metrics.steps import Steps
from ms_profiler.store.names import COLLECTION


@dataclass(frozen=True)
class Pauses:
    """Garbage collections in some steps.

    Attributes:
        count: number of collections.
        total_ns: time of all collections.
        longest_ns: time of the longest collection.
        share: the share of these steps' time that the collections take.
        step: row of the step with the longest collection.
    """

    count: int
    total_ns: int
    longest_ns: int
    share: float
    step: int


def pauses(spans: pl.DataFrame, names: pl.Series, steps: Steps, chosen: list[int]) -> Pauses | None:
    """Return the collections that began in the chosen steps; None if there are no such collections.

    share = sum of the collections' durations / sum of the steps' durations.

    Args:
        spans: table of spans, with the columns of `tables.SPANS`.
        names: texts by row.
        steps: the steps in use.
        chosen: the rows of `steps.table` to examine.
    """
    known = steps.table.with_row_index("row").filter(pl.col("row").is_in(chosen))
    own = collections(spans, names, steps)
    place = intervals.locate(own["start_ns"], known)
    found = own.select(
        known["row"].gather(place).alias("step"), duration_ns=pl.col("end_ns") - pl.col("start_ns")
    ).drop_nulls("step")
    if found.is_empty():
        return None
    longest = found.row(found["duration_ns"].arg_max() or 0, named=True)
    total = int(found["duration_ns"].sum())
    whole = max(int(known["duration_ns"].sum()), 1)
    return Pauses(found.height, total, longest["duration_ns"], total / whole, longest["step"])


def collections(spans: pl.DataFrame, names: pl.Series, steps: Steps) -> pl.DataFrame:
    """Return the spans of the garbage collections in the process that runs the steps.

    Args:
        spans: table of spans, with the columns of `tables.SPANS`.
        names: texts by row.
        steps: the steps in use.
    """
    rows = names.str.starts_with(COLLECTION).arg_true().implode()
    return spans.filter(pl.col("process") == steps.process, pl.col("name").is_in(rows))
