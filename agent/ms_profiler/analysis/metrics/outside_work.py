"""Find the sampled step from which on the script calls other operators outside of all phases.

Examples are a clipping of gradients that begins after a warm-up, or a metric that is computed from some epoch on.
"""

from typing import Any

import polars as pl

from ms_profiler.analysis.metrics import host_operators, intervals, launch_counts, phases, work_changes
from ms_profiler.analysis.metrics.ownership import Ownership
from ms_profiler.analysis.metrics.scopes import Part
from ms_profiler.analysis.metrics.steps import Steps, stepping
from ms_profiler.store.format import Category


def shift(same: pl.DataFrame, steps: Steps, spans: pl.DataFrame, names: pl.Series) -> dict[str, Any] | None:
    """Return a lasting change of the numbers of operators outside of all phases; None without one.

    Args:
        same: steps with the same records.
        steps: the steps in use.
        spans: table of the run's spans, with the columns of `tables.SPANS`.
        names: texts by row.

    Returns:
        The items of `work_changes.shift`, without `modules`, and `operators`: a list of `operator`, and the other items
        of a module. The time and the number of an operator include those that it calls itself.
    """
    change = work_changes.shift(same, steps, _owners(steps, spans, names), spans)
    if change is None:
        return None
    operators = [{"operator": each.pop("module"), **each} for each in change["modules"]]
    return change | {"modules": [], "operators": operators}


def _owners(steps: Steps, spans: pl.DataFrame, names: pl.Series) -> Ownership:
    """Return the operators outside of all phases as the owners of their time, whichever steps have them."""
    operators = stepping(spans, steps, Category.OP)
    calls = launch_counts.aside(operators.select("name", "start_ns", "end_ns"), phases.pieces(spans, steps))
    # a large recording has the operators of a part of its sampled steps only
    table = host_operators.known(operators, steps)
    row = intervals.locate(calls["start_ns"], table)
    pieces = pl.DataFrame(
        [
            table["step"].gather(row),
            names.gather(calls["name"]).alias("owner"),
            pl.repeat(int(Part.FORWARD), calls.height, dtype=pl.UInt8, eager=True).alias("part"),
            calls["start_ns"],
            calls["end_ns"],
        ]
    ).drop_nulls("step")
    sums = pieces.with_columns(self_ns=pl.col("end_ns") - pl.col("start_ns"))
    # a step without such operators counts, too
    every = pl.concat([pieces, table.select("step")], how="diagonal")
    return Ownership("host", table.height, int(table["duration_ns"].sum()), sums.clear(), sums, every, steps.process)
