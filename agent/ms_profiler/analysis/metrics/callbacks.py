"""Find the calls of the script's callbacks, which MindSpore's loops run between the parts of a step."""

import polars as pl

from ms_profiler.analysis.metrics import call_sums, intervals
from ms_profiler.analysis.metrics.phases import innermost
from ms_profiler.analysis.metrics.steps import Steps, stepping
from ms_profiler.store.names import CALLBACK


def rows(names: pl.Series) -> pl.Series:
    """Return the rows of the names of callbacks, for `is_in`."""
    return names.str.starts_with(CALLBACK).arg_true().implode()


def sums(spans: pl.DataFrame, names: pl.Series) -> pl.DataFrame:
    """Return the calls of each callback in the whole run, the longest total first.

    Args:
        spans: spans, with the columns of `tables.SPANS`.
        names: the names of the recording.

    Returns:
        `callback` (class and method), and the other columns of `call_sums.sums`.
    """
    found = call_sums.sums(spans.filter(pl.col("name").is_in(rows(names))), names)
    return found.with_columns(pl.col("name").str.strip_prefix(CALLBACK)).rename({"name": "callback"})


def by_step(spans: pl.DataFrame, names: pl.Series, steps: Steps) -> pl.DataFrame:
    """Return the time of each callback of the script in each step: `step` (row of `steps.table`), `name`, `time`.

    Args:
        spans: spans of these steps, with the columns of `tables.SPANS`.
        names: the names of the recording.
        steps: the steps in use.
    """
    own = stepping(spans, steps)
    inner = innermost(own.filter(pl.col("name").is_in(rows(names))), "name")
    step = intervals.locate(inner["start_ns"], steps.table)
    length = (inner["end_ns"] - inner["start_ns"]).alias("time")
    return pl.DataFrame([step.alias("step"), names.gather(inner["name"]).alias("name"), length]).drop_nulls("step")
