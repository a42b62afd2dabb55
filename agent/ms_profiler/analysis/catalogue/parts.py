"""Yield all spans of a run that is too large for memory, in parts.

The time of the run is divided into sections, and each part has the spans that end in one section. Only when a span
ends, the time of the spans inside it is known. If a span is still open at the end of a section, it is carried over to
the next section.
"""

from collections.abc import Iterator
from typing import Final

import polars as pl

from ms_profiler.analysis.driver.sections import bounds
from ms_profiler.analysis.metrics import operators, steps
from ms_profiler.analysis.metrics.measures import Measures
from ms_profiler.analysis.model import tables
from ms_profiler.analysis.streams.nesting import in_order, nest
from ms_profiler.store.format import CATEGORY_FINE

_COLUMNS: Final = tables.UNNESTED.names()
#: further columns of an open span: its `id`, depth and parent, and the time (ns) of the spans inside it read so far
_PLACE: Final = {"id": pl.UInt32(), "own_depth": pl.UInt16(), "own_parent": pl.UInt32(), "inside_ns": pl.Int64()}
_OPEN: Final = pl.Schema({**tables.UNNESTED, **_PLACE})


def spans(measures: Measures) -> Iterator[pl.DataFrame]:
    """Yield all spans, with the columns of `Measures.spans`. Here `parent` is an `id`, not a row.

    Args:
        measures: the measures of a run that can be read again.
    """
    recording = measures.recording
    assert recording.again is not None
    ends = bounds(recording, measures.steps.table)
    coarse = measures.spans.filter(pl.col("category") < CATEGORY_FINE).select(_COLUMNS)
    wanted = pl.lit(True) if measures.chosen is None else steps.touches(measures.steps)
    still, count = pl.DataFrame(schema=_OPEN), 0
    for begin, until in zip([tables.EARLIEST, *ends], [*ends, tables.LATEST], strict=True):
        fine = pl.concat([coarse.clear(), *recording.again((begin, until), True)])
        here = coarse.filter(pl.col("start_ns") >= begin, pl.col("start_ns") < until)
        new = in_order(pl.concat([here, fine])).with_row_index("id", count)
        count += new.height
        placed = _placed(pl.concat([still, new.select(_described(new))]))
        ended = (pl.col("end_ns") <= until) if until < tables.LATEST else pl.lit(True)
        yield _ended(placed.filter(ended, wanted))
        still = placed.filter(~ended)


def _described(new: pl.DataFrame) -> list[pl.Expr]:
    unknown = {"own_depth": None, "own_parent": None, "inside_ns": 0}
    return [
        pl.lit(unknown[name], kind).alias(name) if name in unknown else pl.col(name) for name, kind in _OPEN.items()
    ]


def _placed(table: pl.DataFrame) -> pl.DataFrame:
    """Find the parent of each new span, which is the span around it. Add the new span's time to the parent's time."""
    nested = nest(table)
    new = nested["own_depth"].is_null()
    inside, _ = operators.inside(nested, new)
    return nested.select(
        *_COLUMNS,
        "id",
        pl.coalesce("own_depth", "depth").alias("own_depth"),
        pl.when(new).then(nested["id"].gather(nested["parent"])).otherwise("own_parent").alias("own_parent"),
        pl.col("inside_ns") + inside,
    )


def _ended(ended: pl.DataFrame) -> pl.DataFrame:
    duration = pl.col("end_ns") - pl.col("start_ns")
    return ended.select(
        "id",
        *_COLUMNS,
        pl.col("own_depth").alias("depth"),
        pl.col("own_parent").alias("parent"),
        duration.alias("duration_ns"),
        (duration - pl.col("inside_ns")).alias("self_ns"),
    )
