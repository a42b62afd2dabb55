"""What launched a kernel of a device: the operator and the module around its launch, on the thread that launched."""

import polars as pl

from ms_profiler.analysis import tables
from ms_profiler.analysis.metrics import intervals
from ms_profiler.analysis.metrics.binding import Bound
from ms_profiler.analysis.metrics.phases import innermost
from ms_profiler.analysis.metrics.scopes import Part
from ms_profiler.store.format import Category

#: what a launch is bound to, as columns of `tables.KERNELS`
BOUND: pl.Schema = pl.Schema({name: tables.KERNELS[name] for name in ("host", "launch", "module", "bound", "part")})


def unbound(count: int) -> pl.DataFrame:
    """Return that much of `BOUND` of which nothing is known."""
    nothing = {name: pl.repeat(None, count, dtype=kind, eager=True) for name, kind in BOUND.items()}
    return pl.DataFrame(nothing).with_columns(
        pl.lit(int(Bound.NOTHING), pl.UInt8).alias("bound"), pl.lit(int(Part.UNKNOWN), pl.UInt8).alias("part")
    )


def bind(recording: tables.Recording, tasks: pl.DataFrame, launches: pl.DataFrame, process: int) -> pl.DataFrame:
    """Return `BOUND` for each task: `module` is a row of the recording's names, `launch` and `host` of its spans.

    An exchange is bound to the call that asked for it, where there is one around its launch, and anything else to the
    innermost operator; both to the innermost module.

    Args:
        recording: the run.
        tasks: `tables.TASKS`.
        launches: `tables.LAUNCHES`, of the same rows.
        process: pid of what launched.
    """
    spans = recording.spans.with_row_index("row").filter(pl.col("process") == process)
    places = pl.concat([tasks.select("launch_ns", "exchange"), launches], how="horizontal").with_row_index("task")
    found = [places.head(0).select("task", *(pl.lit(None, pl.UInt32).alias(name) for name in _PLACES))]
    for (thread,), own in places.drop_nulls(["launch_ns", "thread"]).group_by("thread", maintain_order=True):
        around = spans.filter(pl.col("thread") == thread)
        found.append(
            own.select(
                "task",
                _at(own["launch_ns"], around.filter(pl.col("category") == int(Category.OP)), "row").alias("operator"),
                _at(own["launch_ns"], around.filter(_EXCHANGE), "row").alias("exchanged"),
                _at(own["launch_ns"], around.filter(pl.col("category") == int(Category.MODULE)), "name").alias(
                    "module"
                ),
            )
        )
    known = places.select("task", "exchange").join(pl.concat(found), on="task", how="left", maintain_order="left")
    bound = pl.when(pl.col("module").is_not_null()).then(int(Bound.MODULE)).otherwise(int(Bound.NOTHING))
    return known.select(
        pl.coalesce("operator", "exchanged").alias("host"),
        pl.when("exchange")
        .then(pl.coalesce("exchanged", "operator"))
        .otherwise(pl.coalesce("operator", "exchanged"))
        .alias("launch"),
        "module",
        bound.alias("bound"),
        pl.lit(int(Part.UNKNOWN)).alias("part"),
    ).cast(BOUND)


_PLACES = ("operator", "exchanged", "module")
_EXCHANGE = pl.col("category") == int(Category.COMMUNICATION)


def _at(times: pl.Series, spans: pl.DataFrame, value: str) -> pl.Series:
    """Return what the innermost of some spans around each time has in a column; null outside of all."""
    if spans.is_empty():
        return pl.repeat(None, len(times), dtype=pl.UInt32, eager=True)
    pieces = innermost(spans, value)
    return pieces[value].gather(intervals.locate(times, pieces))
