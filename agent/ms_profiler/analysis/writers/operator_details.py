"""operator_details.csv: the input shapes of every operator that ran, in order; only when shapes were asked for.

Columns are those of MindSpore's public profiler documents. Dimensions are separated by commas, inputs by semicolons; an
input without dimensions leaves its place empty.
"""

import os
from typing import BinaryIO

import polars as pl

from ms_profiler.analysis.measures import Measures
from ms_profiler.store import layout

_OPTION = "record_shapes"


def path(measures: Measures) -> str:
    """Return where it goes."""
    return os.path.join(layout.OUTPUT, layout.OPERATOR_DETAILS)


def applies(measures: Measures) -> bool:
    """Tell whether shapes were asked for, and any is known."""
    asked = bool(measures.recording.info.options.get(_OPTION))
    return asked and bool(measures.stream.table["shapes"].is_not_null().any())


def write(measures: Measures, stream: BinaryIO, *, pretty: bool) -> None:
    """Write the table."""
    kernels = measures.stream
    rows = kernels.table.filter(pl.col("shapes").is_not_null()).sort("start_ns", "process", "lane", "kernel")
    rows.select(
        kernels.names["full_name"].gather(rows["kernel"]).alias("Name"),
        kernels.texts.gather(rows["shapes"]).alias("Input Shapes"),
    ).write_csv(stream)
