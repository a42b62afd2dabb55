"""Find the operator and the module that launched each task of a device: the innermost spans around the launch."""

import polars as pl

from ms_profiler.analysis.metrics import backward_operators, intervals
from ms_profiler.analysis.metrics.binding import Bound
from ms_profiler.analysis.metrics.phases import innermost
from ms_profiler.analysis.metrics.scopes import Part
from ms_profiler.analysis.model import tables
from ms_profiler.store.format import Category

#: the columns of `tables.KERNELS` that `Launches.bind` returns
BOUND: pl.Schema = pl.Schema({name: tables.KERNELS[name] for name in ("host", "launch", "module", "bound", "part")})


def unbound(count: int) -> pl.DataFrame:
    """Return `count` rows with the columns of `BOUND`, for tasks whose launch is unknown."""
    nothing = {name: pl.repeat(None, count, dtype=kind, eager=True) for name, kind in BOUND.items()}
    return pl.DataFrame(nothing).with_columns(
        pl.lit(int(Bound.NOTHING), pl.UInt8).alias("bound"), pl.lit(int(Part.UNKNOWN), pl.UInt8).alias("part")
    )


class Launches:
    """The spans around launches of device work, on the threads of a process.

    Args:
        recording: the run.
        process: pid of the launching process.
    """

    def __init__(self, recording: tables.Recording, process: int) -> None:
        self._spans = recording.spans.with_row_index("row").filter(pl.col("process") == process)
        nodes = backward_operators.nodes(self._spans, recording.names)
        self._gradients = nodes.with_columns(_rows(nodes["module"], recording.names)).drop_nulls("module")
        self._threads: dict[int, _Thread] = {}

    def bind(self, launched: pl.DataFrame) -> pl.DataFrame:
        """Return the innermost spans around the launch of each task, with the columns of `BOUND`.

        - `launch`: row of a span of the recording. For an exchange, it is the call of the collective if there is one,
          otherwise the operator. For any other task, it is the operator if there is one, otherwise the call of the
          collective.
        - `host`: row of a span of the recording: the operator if there is one, otherwise the call of the collective.
        - `module`: row of the recording's names. In a backward pass, a launch may be outside of all modules. Then this
          is the module of the operator whose gradient was computed.

        Args:
            launched: the tasks: `launch_ns` and `thread` of the launch, `exchange` (whether the task communicates with
                other ranks).
        """
        places = launched.select("launch_ns", "thread", "exchange").with_row_index("task")
        found = [places.head(0).select("task", *(pl.lit(None, pl.UInt32).alias(name) for name in _PLACES))]
        for (thread,), own in places.drop_nulls(["launch_ns", "thread"]).group_by("thread", maintain_order=True):
            found.append(own.select("task", *self._thread(int(thread)).around(own["launch_ns"])))
        known = places.select("task", "exchange").join(pl.concat(found), on="task", how="left", maintain_order="left")
        inside = pl.when(pl.col("module").is_not_null()).then(int(Bound.MODULE))
        return known.select(
            pl.coalesce("operator", "exchanged").alias("host"),
            pl.when("exchange")
            .then(pl.coalesce("exchanged", "operator"))
            .otherwise(pl.coalesce("operator", "exchanged"))
            .alias("launch"),
            pl.coalesce("module", "gradient"),
            inside.otherwise("how").fill_null(int(Bound.NOTHING)).alias("bound"),
            pl.lit(int(Part.UNKNOWN)).alias("part"),
        ).cast(BOUND)

    def _thread(self, number: int) -> "_Thread":
        if number not in self._threads:
            own = pl.col("thread") == number
            self._threads[number] = _Thread(self._spans.filter(own), self._gradients.filter(own))
        return self._threads[number]


class _Thread:
    """The innermost operator, collective, module and gradient of one thread at each time."""

    def __init__(self, spans: pl.DataFrame, gradients: pl.DataFrame) -> None:
        category = pl.col("category")
        self._pieces = {
            "operator": innermost(spans.filter(category == int(Category.OP)), "row"),
            "exchanged": innermost(spans.filter(category == int(Category.COMMUNICATION)), "row"),
            "module": innermost(spans.filter(category == int(Category.MODULE)), "name"),
            "gradient": innermost(gradients, "module"),
            "how": innermost(gradients, "bound"),
        }

    def around(self, times: pl.Series) -> list[pl.Series]:
        """Return the columns of `_PLACES`: the innermost span of each kind around each time; null if there is none."""
        found = []
        for name, pieces in self._pieces.items():
            values = pieces.drop(intervals.BOUNDS).to_series()
            found.append(values.gather(intervals.locate(times, pieces)).cast(pl.UInt32).alias(name))
        return found


def _rows(paths: pl.Series, names: pl.Series) -> pl.Series:
    """Return the row in `names` of each module path.

    If `names` lacks a path, the row of the innermost enclosing module in `names` is returned; null if there is none.
    """
    known, rows = {name: row for row, name in enumerate(names)}, dict[str, int | None]()
    for path in paths.drop_nulls().unique():
        around = path
        while around and around not in known:
            around = around.rpartition(".")[0]
        rows[path] = known.get(around) if around else None
    return pl.Series("module", [None if path is None else rows[path] for path in paths], dtype=pl.UInt32)


_PLACES = ("operator", "exchanged", "module", "gradient", "how")
