"""Make the part of summary.json that says what the job did after its last step, if it did not end normally."""

from typing import Any

from ms_profiler.analysis.cluster import ending, endings, exchanged
from ms_profiler.analysis.metrics.measures import Measures
from ms_profiler.analysis.metrics.steps import milliseconds


def summary(measures: Measures) -> dict[str, Any] | None:
    """Return the last phase after the last step, and its longest exchange.

    Args:
        measures: the measures of the run.

    Returns:
        None for the result of another tool, if the job ended normally, and if no phase began after the last step.
    """
    recording = measures.recording
    states = dict(recording.processes.select("process", "state").iter_rows())
    if recording.foreign or states.get(measures.steps.process, "") in endings.USUAL:
        return None
    found = ending.ending(measures, exchanged.exchanges(measures))
    if not found.phase:
        return None
    return {
        "after_step": found.step,
        "phase": found.phase,
        "ms": milliseconds(found.end_ns - found.start_ns),
        "raised": found.raised,
        "unfinished": found.unfinished,
        "exchange": found.operation or None,
        "exchange_ms": milliseconds(found.exchange_ns) if found.operation else None,
    }
