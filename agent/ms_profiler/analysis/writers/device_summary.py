"""The part of summary.json about a recorded device."""

from typing import Any

import polars as pl

from ms_profiler.analysis.metrics import launched_steps, long_kernels
from ms_profiler.analysis.metrics.measures import Measures
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
_TIME = ("length", "computing", "overlapped", "not_overlapped", "copying", "idle")


def summary(measures: Measures) -> dict[str, Any] | None:
    """Return facts about the recorded device, and the times of its work; None if no device was recorded.

    `total` and `steps` follow the formulas of the tool that recorded the device, as `step_trace_time.csv` does. `time`
    splits the length of each step by what the device did, also for the steady steps together.

    Args:
        measures: the measures of the run.
    """
    device = measures.recording.device
    if device is None:
        return None
    times, numbers, totals = measures.stream.times, measures.steps.table["number"], device.totals
    return {
        "form": device.form.value,
        "files": device.files,
        "tasks": totals.tasks,
        "exchanges": totals.exchanges,
        "streams": totals.streams,
        "total": {f"{name}_ms": milliseconds(times[name].sum()) for name in _PARTS},
        "steps": [
            {"number": numbers[row["step"]], **{f"{name}_ms": milliseconds(row[name]) for name in _PARTS}}
            for row in times.iter_rows(named=True)
        ],
        "time": _time(measures.stream.moments, measures.steady["row"], numbers),
        "long_kernels": _long(measures),
    }


def _long(measures: Measures) -> dict[str, Any] | None:
    found = long_kernels.found(measures.recording, measures.stream.table)
    if found is None:
        return None
    share, excess = round(found.share, 6), milliseconds(found.excess_ns)
    return {"count": found.count, "of": found.of, "excess_ms": excess, "share": share}


def _time(moments: pl.DataFrame, rows: pl.Series, numbers: pl.Series) -> dict[str, Any]:
    steady = launched_steps.steady(moments, rows)
    return {
        "total": {f"{name}_ms": milliseconds(moments[name].sum()) for name in _TIME},
        "steady": {f"{name}_ms": milliseconds(steady[name].sum()) for name in _TIME},
        "steps": [
            {"number": numbers[row["step"]], **{f"{name}_ms": milliseconds(row[name]) for name in _TIME}}
            for row in moments.iter_rows(named=True)
        ],
    }
