"""Divide the time of each step among owners. An owner is the module or the optimizer that the time is spent on.

The owner is the innermost module that runs on the stepping thread. While autograd runs a node of a backward pass, the
owner is the module of the operator whose gradient the node computes (`metrics.backward_operators`). If a module is
recomputed in a backward pass, it is called again, and the time of this call counts as backward.

The exchanges that DistributedDataParallel makes in a backward pass belong to no module. If code of a module calls an
exchange, the exchange belongs to this module.
"""

from typing import Final

import polars as pl

from ms_profiler.analysis.metrics import handed_over, intervals
from ms_profiler.analysis.metrics.binding import Bound
from ms_profiler.analysis.metrics.phases import innermost
from ms_profiler.analysis.metrics.scopes import Part
from ms_profiler.analysis.metrics.steps import Steps, stepping
from ms_profiler.store.format import Category

#: one row per interval of a step that belongs to one owner in one pass
PIECES: Final = pl.Schema(
    {
        "step": pl.UInt32,  # row of `Steps.table`
        "owner": pl.String,  # path of a module, name of an optimizer's call; null if unknown
        "part": pl.UInt8,  # metrics.scopes.Part
        "bound": pl.UInt8,  # metrics.binding.Bound; 0 without an owner
        "start_ns": pl.Int64,
        "end_ns": pl.Int64,
    }
)
_MADE: Final = r"^GraphModule(\.|$)"
#: begin of the name that PyTorch's own profiler gives to a call of an optimizer
_PREFIX: Final = r"^Optimizer\.\w+#"
#: factors that put part and binding into one number
_PARTS: Final = 16
_BOUNDS: Final = 16


def pieces(spans: pl.DataFrame, names: pl.Series, steps: Steps, nodes: pl.DataFrame, cut: pl.DataFrame) -> pl.DataFrame:
    """Cut steps into intervals that each have one owner; return the columns of `PIECES`, sorted by time.

    An owner is the module or the optimizer on which the time is spent. Time outside of all modules, backward passes,
    optimizers and compilations is in no interval. The exchanges of `handed_over.uncalled` have no owner.

    Args:
        spans: table of the run's spans, with the columns of `tables.SPANS`.
        names: the names of the recording.
        steps: the steps in use.
        nodes: the nodes of backward passes with their modules, from `backward_operators.nodes`.
        cut: the steps to cut, sorted by start: `row` (of `steps.table`), `start_ns`, `end_ns`.
    """
    own = stepping(spans, steps)
    category = pl.col("category")
    again = intervals.union(own.filter(category == int(Category.BACKWARD)))
    modules = _compiled(own.filter(category == int(Category.MODULE)), names)
    exchanges = handed_over.uncalled(own, names)
    texts = names.to_list()
    numbers = {path: row for row, path in enumerate(texts)}
    for path in nodes["module"].drop_nulls().unique().sort():
        if path not in numbers:
            numbers[path] = len(texts)
            texts.append(path)
    paths = nodes["module"].drop_nulls().unique()
    rows = pl.Series([numbers[path] for path in paths], dtype=pl.UInt64)
    known = nodes["module"].replace_strict(paths, rows, default=None, return_dtype=pl.UInt64)
    optimizers = own.filter(category == int(Category.OPTIMIZER))
    kinds = optimizers.join(optimizer_names(optimizers, names), on="name", maintain_order="left")["kind"]
    for kind in kinds.unique().sort():
        if kind not in numbers:
            numbers[kind] = len(texts)
            texts.append(kind)
    parts = [
        _coded(
            modules,
            modules["name"],
            _passes(modules, again),
            int(Bound.MODULE),
        ),
        _coded(exchanges, None, _passes(exchanges, again), 0),
        *(
            _coded(found, None, part, 0)
            for found, part in (
                (own.filter(category == int(Category.BACKWARD)), Part.BACKWARD),
                (own.filter(category == int(Category.COMPILE)), Part.UNKNOWN),
            )
        ),
        _coded(nodes, known, Part.BACKWARD, nodes["bound"]),
    ]
    optimizing = pl.Series([numbers[kind] for kind in kinds], dtype=pl.UInt64)
    parts.append(_coded(optimizers, optimizing, Part.OPTIMIZER, int(Bound.MODULE)))
    return _cut(innermost(pl.concat(parts), "code"), cut, pl.Series("owner", texts, dtype=pl.String))


def _passes(spans: pl.DataFrame, backward: pl.DataFrame) -> pl.Series:
    """Return for each span the part of the step that it began in: `Part.BACKWARD` or `Part.FORWARD`."""
    inside = intervals.locate(spans["start_ns"], backward).is_not_null()
    return inside.replace_strict({True: int(Part.BACKWARD), False: int(Part.FORWARD)}, return_dtype=pl.UInt8)


def optimizer_names(optimizers: pl.DataFrame, names: pl.Series) -> pl.DataFrame:
    """Return the names under which the tables list optimizers: `name` (row of the names), `kind` (such as "AdamW").

    Args:
        optimizers: the spans of calls of optimizers.
        names: the names of the recording.
    """
    rows = optimizers["name"].unique().sort()
    return pl.DataFrame({"name": rows, "kind": names.gather(rows).str.replace(_PREFIX, "").str.strip_suffix(".step")})


def _compiled(modules: pl.DataFrame, names: pl.Series) -> pl.DataFrame:
    """Return the modules, without those that Dynamo makes inside a compiled module."""
    made = names.gather(modules["name"]).str.contains(_MADE)
    inside = intervals.locate(modules["start_ns"], intervals.union(modules.filter(~made))).is_not_null()
    return modules.filter(~(made & inside))


def _coded(spans: pl.DataFrame, owner: pl.Series | None, part: pl.Series | int, bound: pl.Series | int) -> pl.DataFrame:
    """Return the spans as if they were of one thread, with `code`: a number that contains owner, part and binding."""
    number = pl.lit(0, pl.UInt64) if owner is None else pl.lit((owner.cast(pl.UInt64) + 1).fill_null(0))
    code = (number * _PARTS + pl.lit(part).cast(pl.UInt64)) * _BOUNDS + pl.lit(bound).cast(pl.UInt64)
    one = (
        pl.lit(0, kind).alias(name)
        for name, kind in (("process", pl.UInt32), ("thread", pl.UInt32), ("category", pl.UInt8))
    )
    return spans.select(*one, "start_ns", "end_ns", code.alias("code"))


def _cut(found: pl.DataFrame, cut: pl.DataFrame, texts: pl.Series) -> pl.DataFrame:
    """Return the intervals within steps. An interval that crosses the end of a step is divided at this end."""
    done, rest = [], found
    while not rest.is_empty():
        place = intervals.locate(rest["start_ns"], cut)
        here = rest.with_columns(cut["row"].gather(place).alias("step"), cut["end_ns"].gather(place).alias("until"))
        begins = cut["start_ns"].search_sorted(here["start_ns"], side="right")
        following = cut["start_ns"].gather(pl.select(pl.when(pl.lit(begins) < cut.height).then(begins)).to_series())
        done.append(here.drop_nulls("step").with_columns(end_ns=pl.min_horizontal("end_ns", "until")))
        rest = here.select("code", start_ns=pl.lit(following), end_ns="end_ns").filter(
            pl.col("start_ns") < pl.col("end_ns")
        )
    if not done:
        return pl.DataFrame(schema=PIECES)
    cut = pl.concat(done).sort("start_ns")
    code = cut["code"]
    row = code // (_PARTS * _BOUNDS)
    owner = texts.gather(pl.select(pl.when(row > 0).then(row.cast(pl.Int64) - 1).cast(pl.UInt32)).to_series())
    return cut.select(
        pl.col("step").cast(pl.UInt32),
        owner.alias("owner"),
        (code // _BOUNDS % _PARTS).cast(pl.UInt8).alias("part"),
        (code % _BOUNDS).cast(pl.UInt8).alias("bound"),
        "start_ns",
        "end_ns",
    )


def sums(cut: pl.DataFrame) -> pl.DataFrame:
    """Add up the pieces of each step by owner, part and binding: `step`, `owner`, `part`, `bound`, `self_ns`.

    Args:
        cut: the pieces of steps with one owner each, from `pieces`.
    """
    length = (pl.col("end_ns") - pl.col("start_ns")).sum().alias("self_ns")
    return cut.group_by("step", "owner", "part", "bound").agg(length).sort("step", "owner", "part", "bound")
