"""The part of summary.json that is of a device which another tool watched."""

from typing import Any

from ms_profiler.analysis.measures import Measures
from ms_profiler.analysis.metrics.steps import milliseconds

_PARTS = (
    "stage",
    "computing",
    "communication",
    "not_overlapped",
    "overlapped",
    "free",
    "bubble",
    "preparing",
)


def summary(measures: Measures) -> dict[str, Any] | None:
    """Return who recorded what, and each step as the device saw it; None where no device was watched.

    Args:
        measures: of the run.
    """
    device = measures.recording.device
    if device is None:
        return None
    times, numbers = measures.stream.times, measures.steps.table["number"]
    return {
        "form": device.form.value,
        "files": device.files,
        "tasks": device.runs.height,
        "exchanges": int(device.runs["exchange"].sum()),
        "streams": device.runs["stream"].n_unique(),
        "total": {f"{name}_ms": milliseconds(times[name].sum()) for name in _PARTS},
        "steps": [
            {"number": numbers[row["step"]], **{f"{name}_ms": milliseconds(row[name]) for name in _PARTS}}
            for row in times.iter_rows(named=True)
        ],
    }
