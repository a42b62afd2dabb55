"""overlap_analysis.json: lanes that show when a device computed, communicated or was free.

ms-profiler writes the file if another tool's timeline does not have these lanes. The events have the form of
`trace_view.json`. ms-profiler does not change another tool's `trace_view.json`. Perfetto and chrome://tracing show both
files in one picture if they are opened together.
"""

import json
import os
from typing import BinaryIO

import polars as pl

from ms_profiler.analysis.metrics import overlap
from ms_profiler.analysis.metrics.measures import Measures
from ms_profiler.analysis.writers import numbers
from ms_profiler.analysis.writers.lanes import OVERLAP, OVERLAP_LANES, overlap_metadata
from ms_profiler.store import layout


def path(measures: Measures) -> str:
    """Return the path of the file, relative to the result directory."""
    return os.path.join(layout.OUTPUT, layout.OVERLAP_ANALYSIS)


def applies(measures: Measures) -> bool:
    """Return whether ms-profiler should add the lanes of the overlap analysis to the timeline of another tool."""
    device = measures.recording.device
    return device is not None and device.unmarked and not measures.states.is_empty()


def write(measures: Measures, stream: BinaryIO) -> None:
    """Write the lanes of the overlap analysis."""
    table = overlap.lanes(measures.states)
    rows = table.select(
        pl.col("lane").alias("name"),
        numbers.microseconds(pl.col("start_ns")).alias("ts"),
        numbers.microseconds(pl.col("end_ns") - pl.col("start_ns")).alias("dur"),
    )
    tids = {name: tid for tid, name in enumerate(OVERLAP_LANES)}
    events = [
        *overlap_metadata(),
        *(
            {
                "ph": "X",
                "name": lane,
                "pid": OVERLAP,
                "tid": tids[lane],
                "ts": start,
                "dur": length,
                "cat": "",
                "args": {},
            }
            for lane, start, length in rows.iter_rows()
        ),
    ]
    stream.write(json.dumps(events, indent=4 if measures.request.pretty else None).encode() + b"\n")
