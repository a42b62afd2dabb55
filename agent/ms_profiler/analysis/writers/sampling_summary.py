"""The parts of `summary.json` about sampled steps, and its totals over all steps."""

from typing import Any, Final

import polars as pl

from ms_profiler.analysis.metrics import kernel_shares, operators, sampling
from ms_profiler.analysis.metrics.measures import Measures
from ms_profiler.analysis.metrics.steps import milliseconds
from ms_profiler.analysis.model import tables
from ms_profiler.store.format import Category

#: properties of a device's kernels that are known only in sampled steps
_OF_MODULES: Final = ("module", "part")


def summary(measures: Measures) -> dict[str, Any] | None:
    """Return how many steps were sampled, and why not all; None if `overhead_budget` did not leave out any step.

    Args:
        measures: the measures of the run.
    """
    if measures.totals is None:
        return None
    table, gaps = measures.steps.table, measures.totals.between.table.filter("calls")
    return {
        "steps": table.height,
        "sampled": measures.steps.recorded.height,
        "stretches": int(sampling.strata(table).n_unique()),
        "first_left_out": int(table.filter(pl.col("content") == tables.COARSE)["number"][0]),
        "calls_between_steps": {
            "gaps": gaps.height,
            "recorded": int(gaps["recorded"].sum()),
            "share": round(measures.totals.between.called_ns / max(int(table["duration_ns"].sum()), 1), 6),
        }
        if gaps.height
        else None,
        "why": "recording all steps took more than overhead_budget; `scaled` totals are estimates for the whole run, "
        "`_error` is their standard error; they contain the cost of recording; shares of a step are those of sampled "
        "steps",
    }


def spans(measures: Measures, sums: pl.DataFrame, category: Category) -> pl.DataFrame:
    """Return the sums of spans over the whole run. If steps were sampled, the sums are estimates.

    Args:
        measures: the measures of the run.
        sums: the sums of the recorded spans by name, from `operators.by_name`.
        category: the category of the spans, such as operators or modules.
    """
    found = measures.totals
    return sums if found is None else operators.scaled(sums, found.of(category), measures.recording.names)


def kernels(measures: Measures, by: str) -> pl.DataFrame | None:
    """Return estimated totals of kernels over all steps, by a property such as "type"; None if no step was left out."""
    stream = measures.stream
    if by in _OF_MODULES and not stream.unseen.is_empty():
        shared, _ = stream.shared
        of_steps = shared.filter("in_step")
        found = kernel_shares.by_module(shared, stream.texts) if by == "module" else kernel_shares.by_part(of_steps)
        return found.with_columns(pl.lit(None, pl.Float64).alias(f"{name}_error") for name in ("count", "total_ns"))
    return None if measures.totals is None else measures.totals.kernels(by)


def parts(measures: Measures) -> pl.DataFrame:
    """Return the time of the steps' kernels (`total_ns`) in each `part` of a step, such as the backward pass."""
    found = kernels(measures, "part")
    return measures.stream.of_steps if found is None else found.rename({"name": "part"})


def phase(measures: Measures, name: str, recorded_ns: int) -> dict[str, Any]:
    """Return the total of a phase over all steps, with its error if it is an estimate.

    Args:
        measures: the measures of the run.
        name: the name of the phase.
        recorded_ns: the total of the phase in the recorded steps, ns.
    """
    if measures.totals is None:
        return {"total_ms": milliseconds(recorded_ns), "scaled": False, "total_ms_error": None}
    found = measures.totals.phases[name]
    return {
        "total_ms": milliseconds(found.ns),
        "scaled": found.scaled,
        "total_ms_error": None if found.error is None else milliseconds(found.error),
    }
