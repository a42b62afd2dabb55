"""Make the part of summary.json that divides the time of the whole run, for example into set-up and steps."""

from typing import Any

import polars as pl

from ms_profiler.analysis.metrics import steps, stretches
from ms_profiler.analysis.metrics.measures import Measures
from ms_profiler.analysis.metrics.steps import milliseconds
from ms_profiler.store.format import StepSource


def summary(measures: Measures) -> list[dict[str, Any]] | None:
    """Return how long each part of the run took, such as the steps, for each process that has steps.

    The times of the first process add up to the time of the run.

    Args:
        measures: the measures of the run.

    Returns:
        None for the result of another tool.
    """
    if measures.recording.foreign:
        return None
    sums, training = stretches.sums(measures.stretches), stretches.training(measures.stretches)
    return [_process(measures, used, sums, training) for used in steps.every(measures.recording)]


def _process(measures: Measures, used: steps.Steps, sums: pl.DataFrame, training: pl.DataFrame) -> dict[str, Any]:
    own = sums.filter(pl.col("process") == used.process)
    trained = dict(training.filter(pl.col("process") == used.process).select("part", "total_ns").iter_rows())
    total = int(own["total_ns"].sum())
    parts: dict[str, dict[str, int]] = {}
    for part, phase, duration in own.select("part", "phase", "total_ns").iter_rows():
        parts.setdefault(part, {})[phase] = duration
    row = measures.recording.processes.row(by_predicate=pl.col("process") == used.process, named=True)
    counted = used.source != StepSource.WHOLE_RUN
    return {
        "pid": used.process,
        "role": row["role"],
        "name": row["name"],
        "total_ns": total,
        "steps": used.table.height if counted else 0,
        "step_median_ms": steps.statistics(used.table)["median_ms"] if counted else None,
        "parts": [
            {
                "part": part,
                "total_ns": sum(phases.values()),
                "share": round(sum(phases.values()) / max(total, 1), 6),
                "training_share": round(trained.get(part, 0) / max(sum(trained.values()), 1), 6),
                **_content(measures, used, part, phases),
            }
            for part, phases in parts.items()
        ],
    }


def _content(measures: Measures, used: steps.Steps, part: str, phases: dict[str, int]) -> dict[str, Any]:
    """Return the time of each phase in a part of the run. If steps were sampled, phases of steps may be estimates."""
    found = measures.totals if used.process == measures.steps.process and measures.chosen is None else None
    if part != stretches.STEPS or found is None:
        return {"contains_ms": {phase: milliseconds(duration) for phase, duration in phases.items()}, "scaled": False}
    ordered = sorted(found.phases.items(), key=lambda item: -item[1].ns)
    return {
        "contains_ms": {phase: milliseconds(each.ns) for phase, each in ordered},
        "scaled": any(each.scaled for _, each in ordered),
    }
