"""Collect the content of the page of one run: its summary, small tables, curves, and the events of its timeline.

The page has the content of summary.json, so both show the same figures. The tables are those of `ms-profiler sql`.
Times are ns since the first record of the run.
"""

import os
from typing import Any, Final

import polars as pl

from ms_profiler.analysis.metrics.measures import Measures
from ms_profiler.analysis.page import curves, events, flames, holdings, listed, step_parts
from ms_profiler.analysis.writers import summary
from ms_profiler.store import layout

#: largest number of steps that the page draws one by one
STEPS_MOST: Final = 20_000
#: largest number of rows of a table
ROWS_MOST: Final = 2_000
_NOTHING: Final[dict[str, Any]] = {"count": 0, "columns": {}}


def content(measures: Measures, most: int = events.MOST) -> dict[str, Any]:
    """Return the content of the page of a run, with its summary.

    Args:
        measures: the measures of the run.
        most: the largest number of events in its timeline.
    """
    return {"summary": summary.summary(measures), **figures(measures, most)}


def figures(measures: Measures, most: int = events.MOST) -> dict[str, Any]:
    """Return the content of the page of a run, without its summary.

    Args:
        measures: the measures of the run.
        most: the largest number of events in its timeline.
    """
    origin = int(measures.recording.processes["first_ns"].min() or 0)  # type: ignore[arg-type]
    spans = events.spans(measures)
    return {
        "trace": _trace(measures),
        "steps": _steps(measures, origin),
        "phases": _phases(measures),
        "bounds": _bounds(measures),
        "parts": _rows(step_parts.parts(measures), STEPS_MOST),
        "operators": _rows(events.operators(measures, spans)),
        "kernels": _rows(_kernels(measures)),
        "communication": _rows(_exchanges(measures)),
        "curves": curves.content(measures, origin),
        "memory": holdings.content(measures, origin),
        "flames": flames.content(measures),
        "timeline": events.timeline(measures, spans, origin, most),
    }


def _trace(measures: Measures) -> str:
    """Return the path of the timeline for Perfetto, relative to the result. For a trace, return its file name."""
    if not measures.recording.foreign:
        return f"{layout.OUTPUT}/{layout.PERFETTO_TRACE}"
    device = measures.recording.device
    if os.path.isfile(measures.recording.directory) or device is None:
        return os.path.basename(measures.recording.directory)
    return f"{layout.OUTPUT}/{layout.TRACE_VIEW}"


def _rows(table: pl.DataFrame, most: int = ROWS_MOST) -> dict[str, Any]:
    """Return the columns of a table's first rows, and the number of all its rows."""
    return {"count": table.height, "columns": table.head(most).to_dict(as_series=False)}


def _steps(measures: Measures, origin: int) -> dict[str, Any]:
    own = measures.steps
    table = own.table.select("number", pl.col("start_ns") - origin, pl.col("duration_ns"), "recorded")
    return _rows(table.sort("start_ns"), STEPS_MOST)


def _phases(measures: Measures) -> dict[str, Any]:
    table = listed.table("phases", measures).drop_nulls("step")
    return _wide(table.group_by("step", "phase").agg(pl.col("dur").sum()), "phase")


def _bounds(measures: Measures) -> dict[str, Any]:
    parts = measures.diagnosis.parts
    if parts.is_empty():
        return _NOTHING
    sums = parts.group_by("step", "part").agg(pl.col("duration_ns").sum().alias("dur"))
    numbers = measures.steps.table["number"]
    return _wide(sums.with_columns(numbers.gather(sums["step"]).alias("step")), "part")


def _wide(sums: pl.DataFrame, kind: str) -> dict[str, Any]:
    """Return a row for each step, with a column for each kind of time. The kind with the longest total comes first."""
    if sums.is_empty():
        return _NOTHING
    order = sums.group_by(kind).agg(pl.col("dur").sum()).sort("dur", kind, descending=[True, False])[kind].to_list()
    wide = sums.pivot(kind, index="step", values="dur").sort("step").fill_null(0)
    return _rows(wide.select("step", *order), STEPS_MOST)


def _kernels(measures: Measures) -> pl.DataFrame:
    """Return sums of kernels by name, type, module, part and stream.

    The stream is null if only some kernels of the run are in memory: then the sums have no streams.
    """
    sums = listed.table("kernel_sums", measures)
    one = ["name", "type", "module", "part"]
    # drop exchanges with other ranks: they are not in the sums of kernels
    kernels = listed.table("kernels", measures).join(sums, on=one, how="semi", nulls_equal=True)
    if kernels.height != sums["count"].sum():
        return sums.with_columns(pl.lit(None, pl.UInt32).alias("stream")).sort(
            "total", "name", descending=[True, False]
        )
    by = [*one, "stream"]
    found = kernels.group_by(by).agg(
        pl.len().alias("count"),
        pl.col("dur").sum().alias("total"),
        pl.col("dur").min().alias("min"),
        pl.col("dur").max().alias("max"),
    )
    return found.sort("total", *by, descending=[True] + [False] * len(by))


def _exchanges(measures: Measures) -> pl.DataFrame:
    table = listed.table("communication", measures)
    # if the bytes of one exchange are unknown, the sum is unknown, too: null and not 0
    known = pl.when(pl.col("bytes").is_not_null().all()).then(pl.col("bytes").sum())
    sums = table.group_by("name", "ranks").agg(
        pl.len().alias("count"),
        known.alias("bytes"),
        pl.col("dur").sum().alias("total"),
        pl.col("dur").max().alias("max"),
    )
    return sums.sort("total", "name", descending=[True, False])
