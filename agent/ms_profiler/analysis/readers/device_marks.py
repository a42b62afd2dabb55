"""Turn the markers that a device's tracing interface (CUPTI, msPTI) reported into annotations.

A marker is a name that the script gives to a moment or a range of time. A marker of the host belongs to the thread that
set it. A marker of a stream is shown beside the stream's kernels.

A hook of ms-profiler also records the calls of MindSpore's `mstx`. If the hook and the tracing interface recorded the
same marker, the hook's record is used, because the hook knows the script's thread.
"""

from typing import Final

import polars as pl

from ms_profiler.analysis.model import tables
from ms_profiler.analysis.readers import assembly
from ms_profiler.analysis.readers.left_out import DEFAULT_DOMAIN, DOMAIN_ENDS
from ms_profiler.analysis.streams.nesting import nest
from ms_profiler.store.format import Category

#: largest difference between the begin of a marker in the hook's record and in the interface's record
APART_NS: Final = 1_000_000


def attach(recording: tables.Recording, marks: pl.DataFrame) -> None:
    """Add the markers of the host to the spans and instants of a recording.

    Args:
        recording: the recording, which is changed in place.
        marks: the markers that have a thread, with the columns `text` and `domain`.
    """
    marks = marks.with_columns(_text(marks).alias("text"))
    placed = assembly.on_threads(marks, recording.threads, "native_tid")
    unknown = placed.filter(pl.col("thread").is_null())
    if unknown.height:
        why = "nothing else was recorded on the threads that set them"
        recording.info.not_collected.append({"what": f"{unknown.height} markers", "why": why})
    placed = placed.drop_nulls("thread")
    lasting = pl.col("end_ns") > pl.col("start_ns")
    ranges = _others(recording, placed.filter(lasting), recording.spans, "start_ns")
    moments = _others(recording, placed.filter(~lasting), recording.instants, "time_ns")
    if ranges.is_empty() and moments.is_empty():
        return
    first = len(recording.names)
    texts = pl.concat([ranges["text"], moments["text"]]).unique(maintain_order=True)
    recording.names = pl.concat([recording.names, texts.alias(recording.names.name)])
    rows = {text: first + row for row, text in enumerate(texts)}
    if ranges.height:
        spans = _rows(ranges, rows).select(
            *("process", "thread", "name", "category", "start_ns", "end_ns"),
            *(
                pl.lit(0).alias(name) if kind != pl.Boolean else pl.lit(False).alias(name)
                for name, kind in tables.UNNESTED.items()
                if name not in ("process", "thread", "name", "category", "start_ns", "end_ns")
            ),
        )
        own = recording.spans.select(tables.UNNESTED.names())
        both = pl.concat([own, spans.select(tables.UNNESTED.names()).cast(tables.UNNESTED)])
        recording.spans = nest(both).select(tables.SPANS.names())
    if moments.height:
        instants = _rows(moments, rows).select(
            *("process", "thread", "name", "category"), pl.col("start_ns").alias("time_ns"), pl.lit(0).alias("arg")
        )
        recording.instants = pl.concat(
            [recording.instants, instants.select(tables.INSTANTS.names()).cast(tables.INSTANTS)]
        ).sort("process", "thread", "time_ns")


def wanted(recording: tables.Recording, marks: pl.DataFrame) -> pl.DataFrame:
    """Return the markers of the domains that the run's options select.

    Args:
        recording: the run.
        marks: the markers, with the column `domain`.
    """
    domain = pl.col("domain").replace("", DEFAULT_DOMAIN)
    if included := recording.info.listed("mstx_domain_include"):
        return marks.filter(domain.is_in(included))
    return marks.filter(~domain.is_in(recording.info.listed("mstx_domain_exclude")))


def of_device(marks: pl.DataFrame, lane: pl.Expr) -> pl.DataFrame:
    """Return the markers of a device as `tables.MARKS`.

    Args:
        marks: the markers that have no thread, with the columns `text` and `domain`.
        lane: an expression for the number of the stream.
    """
    return marks.select(
        lane, pl.col("text").alias("name"), pl.col("domain").replace("", DEFAULT_DOMAIN), "start_ns", "end_ns"
    ).cast(tables.MARKS)


def _text(marks: pl.DataFrame) -> pl.Series:
    plain = pl.col("domain").is_in(["", DEFAULT_DOMAIN])
    whole = pl.concat_str("domain", pl.lit(DOMAIN_ENDS), "text")
    return marks.select(pl.when(plain).then("text").otherwise(whole).alias("text")).to_series()


def _rows(marks: pl.DataFrame, rows: dict[str, int]) -> pl.DataFrame:
    return marks.with_columns(
        pl.col("text").replace_strict(rows, return_dtype=pl.UInt32).alias("name"),
        pl.lit(int(Category.MARKER)).alias("category"),
    )


def _others(recording: tables.Recording, marks: pl.DataFrame, known: pl.DataFrame, time: str) -> pl.DataFrame:
    """Return the markers that no hook has recorded.

    A hook recorded a marker if its record has the same text and thread, and begins within `APART_NS` of the marker.
    """
    known = known.filter(pl.col("category") == int(Category.MARKER))
    if marks.is_empty() or known.is_empty():
        return marks
    ours = known.select(
        "process",
        "thread",
        recording.names.gather(known["name"]).alias("text"),
        pl.col(time).alias("known_ns"),
    ).sort("known_ns")
    found = marks.sort("start_ns").join_asof(
        ours,
        left_on="start_ns",
        right_on="known_ns",
        by=["process", "thread", "text"],
        strategy="nearest",
        tolerance=APART_NS,
        check_sortedness=False,
    )
    return found.filter(pl.col("known_ns").is_null())
