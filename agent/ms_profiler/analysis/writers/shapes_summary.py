"""The part of `summary.json` that says which steps have shapes of operators, and why other steps have none."""

from typing import Any, Final

import polars as pl

from ms_profiler.analysis.metrics import intervals, operands
from ms_profiler.analysis.metrics.measures import Measures
from ms_profiler.store.format import Category

#: The run's record lists under `not_collected` what is missing. In entries about shapes, the key `what` begins so.
_WHAT: Final = "shapes of operators"


def summary(measures: Measures) -> dict[str, Any] | None:
    """Return which steps have shapes of operators; None if no operator of the run has shapes.

    Args:
        measures: the measures of the run.
    """
    if not measures.shaped:
        return None
    shaped = measures.spans.filter(operands.SHAPED)
    table = measures.steps.table
    found = intervals.locate(shaped["start_ns"], table).drop_nulls().unique().sort()
    operators = measures.spans.filter(pl.col("category") == Category.OP)
    in_steps = intervals.locate(operators["start_ns"], table[found]).is_not_null().sum()
    missing = [entry for entry in measures.recording.info.not_collected if entry["what"].startswith(_WHAT)]
    return {
        "steps": table["number"].gather(found).to_list(),
        "operators": in_steps,
        "with_shapes": shaped.height,
        "why": "; ".join(f"no {entry['what']}: {entry['why']}" for entry in missing),
    }
