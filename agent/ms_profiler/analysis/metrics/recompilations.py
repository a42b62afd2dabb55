"""Find repeated compilations, and the reason of each."""

import polars as pl

from ms_profiler.analysis.metrics import intervals
from ms_profiler.analysis.metrics.steps import Steps
from ms_profiler.analysis.model import tables
from ms_profiler.store.format import Category


def recompilations(recording: tables.Recording, steps: Steps) -> pl.DataFrame:
    """Return the repeated compilations: `step` (row of `steps.table`), `text` (the reason).

    Args:
        recording: the recording, with its instants.
        steps: the steps in use.
    """
    marks = recording.instants.filter(
        pl.col("process") == steps.process, pl.col("category") == int(Category.COMPILE)
    ).sort("time_ns")
    texts = recording.names.gather(marks["name"])
    found = pl.DataFrame(
        {"step": intervals.locate(marks["time_ns"], steps.table), "text": texts},
        schema={"step": pl.UInt32, "text": pl.String},
    )
    return found.filter(pl.col("step").is_not_null(), pl.col("text").str.starts_with("recompile"))
