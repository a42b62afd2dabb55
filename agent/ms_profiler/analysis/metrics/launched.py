"""Find the operator and the module that launched each task of a device: the innermost spans around the launch.

A task belongs to the part of the training step (forward, backward, optimizer) in which its thread was at the launch.
Autograd's engine launches on threads of its own. In a step that was not sampled, nothing is recorded on these threads.
Then a launch there belongs to the backward pass that another thread waits for.
"""

from collections.abc import Sequence

import polars as pl

from ms_profiler.analysis.metrics import backward_operators, intervals
from ms_profiler.analysis.metrics.binding import Bound
from ms_profiler.analysis.metrics.owners import optimizer_names
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
        texts: the names of the recording, followed by further texts, among them those of `optimizers`.
    """

    def __init__(self, recording: tables.Recording, process: int, texts: Sequence[str]) -> None:
        self._spans = recording.spans.with_row_index("row").filter(pl.col("process") == process)
        nodes = backward_operators.nodes(self._spans, recording.names)
        self._nodes = nodes.with_columns(_rows(nodes["module"], recording.names))
        self._gradients = self._nodes.drop_nulls("module")
        self._passes = intervals.union(self._spans.filter(pl.col("category") == int(Category.BACKWARD)))
        self._engine = set(nodes["thread"].unique())
        rows = {text: row for row, text in enumerate(texts)}
        names = optimizer_names(self._spans.filter(pl.col("category") == int(Category.OPTIMIZER)), recording.names)
        self._optimizers = names.select(
            "name", owner=pl.Series([rows[kind] for kind in names["kind"]], dtype=pl.UInt32)
        )
        self._threads: dict[int, _Thread] = {}

    def bind(self, launched: pl.DataFrame) -> pl.DataFrame:
        """Return the innermost spans around the launch of each task, with the columns of `BOUND`.

        - `launch`: row of a span of the recording. For an exchange, it is the call of the collective if there is one,
          otherwise the operator. For any other task, it is the operator if there is one, otherwise the call of the
          collective.
        - `host`: row of a span of the recording: the operator if there is one, otherwise the call of the collective.
        - `module`: row of the recording's names. In a backward pass, a launch may be outside of all modules. Then this
          is the module of the operator whose gradient was computed. In an optimizer, it is the optimizer.
        - `part`: the part of the step in which the launch was.

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
        optimizes = pl.col("part") == int(Part.OPTIMIZER)
        called = pl.coalesce("module", "gradient")
        owned = pl.when(optimizes).then(pl.coalesce("optimizer", called)).otherwise(called)
        how = inside.when(optimizes & pl.col("optimizer").is_not_null()).then(int(Bound.MODULE)).otherwise("how")
        return known.select(
            pl.coalesce("operator", "exchanged").alias("host"),
            pl.when("exchange")
            .then(pl.coalesce("exchanged", "operator"))
            .otherwise(pl.coalesce("operator", "exchanged"))
            .alias("launch"),
            owned.alias("module"),
            how.fill_null(int(Bound.NOTHING)).alias("bound"),
            pl.col("part").fill_null(int(Part.UNKNOWN)),
        ).cast(BOUND)

    def _thread(self, number: int) -> "_Thread":
        if number not in self._threads:
            own = pl.col("thread") == number
            spans, nodes = self._spans.filter(own), self._nodes.filter(own)
            # a thread with backward passes of its own works for itself
            passes = spans.filter(pl.col("category") == int(Category.BACKWARD))
            beside = self._passes if number in self._engine and passes.is_empty() else self._passes.head(0)
            optimizers = spans.join(self._optimizers, on="name", maintain_order="left").filter(
                pl.col("category") == int(Category.OPTIMIZER)
            )
            gradients = self._gradients.filter(own)
            self._threads[number] = _Thread(spans, gradients, _parts(spans, nodes, beside), optimizers)
        return self._threads[number]


def optimizers(recording: tables.Recording) -> list[str]:
    """Return the names of the optimizers, which are modules in the tables, as `owners.optimizer_names` shortens them.

    Args:
        recording: the run.
    """
    spans = recording.spans.filter(pl.col("category") == int(Category.OPTIMIZER))
    return optimizer_names(spans, recording.names)["kind"].unique().sort().to_list()


def _parts(spans: pl.DataFrame, nodes: pl.DataFrame, beside: pl.DataFrame) -> pl.DataFrame:
    """Return the part of the training step in which a thread was at each time: `part`, `start_ns`, `end_ns`.

    Args:
        spans: the spans of the thread.
        nodes: the nodes of backward passes that it ran, from `backward_operators.nodes`.
        beside: the backward passes of other threads, for which this thread worked; disjoint and sorted by time.
    """
    category = pl.col("category")
    passes = spans.filter(category == int(Category.BACKWARD)).select(*intervals.BOUNDS)
    again = intervals.union(pl.concat([passes, nodes.select(*intervals.BOUNDS), beside.select(*intervals.BOUNDS)]))
    forward = spans.filter(category.is_in([int(Category.FORWARD), int(Category.MODULE)])).select(*intervals.BOUNDS)
    # a module that is called in a backward pass is recomputed there
    recomputed = intervals.locate(forward["start_ns"], again).is_not_null()
    optimizes = spans.filter(category == int(Category.OPTIMIZER)).select(*intervals.BOUNDS)
    marked = [
        again.select(*intervals.BOUNDS, part=pl.lit(int(Part.BACKWARD))),
        forward.filter(recomputed).with_columns(part=pl.lit(int(Part.BACKWARD))),
        forward.filter(~recomputed).with_columns(part=pl.lit(int(Part.FORWARD))),
        optimizes.with_columns(part=pl.lit(int(Part.OPTIMIZER))),
    ]
    one = {"process": pl.UInt32, "thread": pl.UInt32, "category": pl.UInt8}
    return innermost(pl.concat(marked).with_columns(pl.lit(0, kind).alias(name) for name, kind in one.items()), "part")


class _Thread:
    """The innermost operator, collective, module, gradient, part and optimizer of one thread at each time."""

    def __init__(
        self, spans: pl.DataFrame, gradients: pl.DataFrame, parts: pl.DataFrame, optimizers: pl.DataFrame
    ) -> None:
        category = pl.col("category")
        self._pieces = {
            "operator": innermost(spans.filter(category == int(Category.OP)), "row"),
            "exchanged": innermost(spans.filter(category == int(Category.COMMUNICATION)), "row"),
            "module": innermost(spans.filter(category == int(Category.MODULE)), "name"),
            "gradient": innermost(gradients, "module"),
            "how": innermost(gradients, "bound"),
            "part": parts,
            "optimizer": innermost(optimizers, "owner").rename({"owner": "optimizer"}),
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


_PLACES = ("operator", "exchanged", "module", "gradient", "how", "part", "optimizer")
