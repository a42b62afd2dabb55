"""Read tensor memory on the host from text files of MindSpore's recorder of CPU kernels (see `kernel_windows`).

`cpu_ms_memory_record_{rank}.txt` has a line for each allocation and release, with the wall clock in nanoseconds and
three totals in bytes: allocated, reserved from the system, active. MindSpore writes such a file for each window. The
recorder never clears its records: the file of a window repeats the records of all earlier windows. So ms-profiler
stores only the last file.
"""

from itertools import groupby
from typing import Final

import polars as pl

from ms_profiler.analysis.metrics import intervals
from ms_profiler.analysis.model import tables
from ms_profiler.analysis.readers import csv_text, kernel_windows
from ms_profiler.store import layout

_COLUMNS: Final = pl.Schema(
    {"wall_ns": pl.Int64, "allocated": pl.Int64, "reserved": pl.Int64, "active": pl.Int64},
)


def read(recording: tables.Recording) -> pl.DataFrame:
    """Return the memory of tensors on the host as `tables.MEMORY`.

    MindSpore's records come first, sorted by process and time, if the run's options request them. Then come the
    records of ms-profiler's own store (see `readers.tensor_blocks`).

    Args:
        recording: the run; its counts receive the number of unreadable records.
    """
    parts = [pl.DataFrame(schema=tables.MEMORY)]
    if recording.info.options.get("profile_memory"):
        for _, windows in groupby(recording.windows, lambda window: window.process):
            parts.append(_process(recording, list(windows)))
    return pl.concat([*parts, recording.tensors])


def _process(recording: tables.Recording, windows: list[tables.Window]) -> pl.DataFrame:
    rows = pl.DataFrame(schema=_COLUMNS)
    for window in reversed(windows):
        older = _rows(kernel_windows.content(window.folder, layout.MEMORY_PREFIX, recording.counts), recording)
        if rows.height:
            older = older.filter(pl.col("wall_ns") < rows["wall_ns"][0])
        rows = pl.concat([older, rows])
    bounds = pl.DataFrame(
        {"start_ns": [window.start_ns for window in windows], "end_ns": [window.end_ns for window in windows]}
    )
    times = recording.clock.from_wall(rows["wall_ns"], windows[0].start_ns, windows[-1].end_ns)
    inside = times.is_not_null() & intervals.locate(times, bounds).is_not_null()
    return (
        rows.with_columns(process=pl.lit(windows[0].process, pl.UInt32), time_ns=times)
        .filter(inside)
        .select(tables.MEMORY.names())
        .sort("time_ns", maintain_order=True)
    )


def _rows(content: bytes, recording: tables.Recording) -> pl.DataFrame:
    # leave out the header, and the last line, which the end of the process may have cut
    lines = content[content.find(b"\n") + 1 : content.rfind(b"\n") + 1]
    if not lines:
        return pl.DataFrame(schema=_COLUMNS)
    try:
        rows = csv_text.read(
            lines, has_header=False, schema=_COLUMNS, quote_char=None, ignore_errors=True, truncate_ragged_lines=True
        )
    except pl.exceptions.PolarsError:  # no line has all columns
        recording.counts.damaged_memory += lines.count(b"\n")
        return pl.DataFrame(schema=_COLUMNS)
    readable = rows.drop_nulls()
    recording.counts.damaged_memory += rows.height - readable.height
    return readable
