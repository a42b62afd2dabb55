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


class Launches:
    """What stands around launches on the threads of a process.

    Args:
        recording: the run.
        process: pid of what launched.
    """

    def __init__(self, recording: tables.Recording, process: int) -> None:
        self._spans = recording.spans.with_row_index("row").filter(pl.col("process") == process)
        self._threads: dict[int, _Thread] = {}

    def bind(self, launched: pl.DataFrame) -> pl.DataFrame:
        """Return `BOUND` of each: `module` is a row of the recording's names, `launch` and `host` of its spans.

        An exchange is bound to the call that asked for it, where there is one around its launch, and anything else to
        the innermost operator; both to the innermost module.

        Args:
            launched: `launch_ns`, `thread`, `exchange`.
        """
        places = launched.select("launch_ns", "thread", "exchange").with_row_index("task")
        found = [places.head(0).select("task", *(pl.lit(None, pl.UInt32).alias(name) for name in _PLACES))]
        for (thread,), own in places.drop_nulls(["launch_ns", "thread"]).group_by("thread", maintain_order=True):
            found.append(own.select("task", *self._thread(int(thread)).around(own["launch_ns"])))
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

    def _thread(self, number: int) -> "_Thread":
        if number not in self._threads:
            self._threads[number] = _Thread(self._spans.filter(pl.col("thread") == number))
        return self._threads[number]


class _Thread:
    """The spans of one thread, cut into pieces of one innermost span each."""

    def __init__(self, spans: pl.DataFrame) -> None:
        category = pl.col("category")
        self._operators = innermost(spans.filter(category == int(Category.OP)), "row")
        self._exchanges = innermost(spans.filter(category == int(Category.COMMUNICATION)), "row")
        self._modules = innermost(spans.filter(category == int(Category.MODULE)), "name")

    def around(self, times: pl.Series) -> list[pl.Series]:
        """Return the columns `_PLACES` of some moments."""
        pieces = zip(_PLACES, (self._operators, self._exchanges, self._modules), ("row", "row", "name"), strict=True)
        return [
            part[value].gather(intervals.locate(times, part)).cast(pl.UInt32).alias(name)
            for name, part, value in pieces
        ]


_PLACES = ("operator", "exchanged", "module")
