"""Which module an operator belongs to that computes a gradient: that of the operator whose gradient it is.

Where autograd's numbers were recorded they tell. Where they were not, the order does: autograd runs what is needed of a
graph in the reverse order of its making, since whatever uses a result is made after what made it (`ReadyQueue` of
github.com/pytorch/pytorch, torch/csrc/autograd/engine.cpp). So the first `AddmmBackward0` of a backward pass is of the
last `addmm` before it. That holds as far as each had a gradient: where a pass has more of one name than of the other,
nothing is said of that name.
"""

from typing import Final

import polars as pl

from ms_profiler.analysis.metrics import host_operators, intervals
from ms_profiler.analysis.metrics.binding import Bound
from ms_profiler.store.format import Category

#: what computes a gradient: `AddmmBackward0`, and what a script's own function has, without a number
_BACKWARD: Final = r"^(\w+?)Backward\d*$"
#: an operator: `aten::addmm_`, or a script's own function
_FORWARD: Final = r"^(?:\w+::)*(\w+)$"
#: of one pass and name
_GROUP: Final = ["pass", "key"]

#: backward operators whose module is known
MODULES: Final = pl.Schema(
    {
        "process": pl.UInt32,
        "thread": pl.UInt32,
        "start_ns": pl.Int64,
        "end_ns": pl.Int64,
        "category": pl.UInt8,
        "module": pl.UInt32,  # row of the names
        "bound": pl.UInt8,  # metrics.binding.Bound: by its number, or by order
    }
)


def modules(spans: pl.DataFrame, names: pl.Series) -> pl.DataFrame:
    """Return the backward operators whose module is known, as `MODULES`, by thread and start.

    Args:
        spans: `tables.SPANS` of one process, with `row`, which `parent` means.
        names: of the recording.
    """
    operators = host_operators.calls(spans)
    pairs = host_operators.ties(operators.drop("row"))
    told = operators[pairs["backward"]].with_columns(
        operators["module"].gather(pairs["forward"]), bound=pl.lit(int(Bound.MODULE))
    )
    columns = list(MODULES)
    by_order = _by_order(operators.filter(pl.col("arg") == 0), spans, names)
    found = pl.concat([part.select(columns).cast(MODULES) for part in (told, by_order)])
    return found.drop_nulls("module").sort("thread", "start_ns")


def _by_order(operators: pl.DataFrame, spans: pl.DataFrame, names: pl.Series) -> pl.DataFrame:
    """Return the backward operators of all passes with the modules of what they are the gradients of."""
    passes = intervals.union(spans.filter(pl.col("category") == int(Category.BACKWARD)))
    keyed = operators.join(_keys(operators["name"], names), on="name", how="left")
    during = intervals.locate(keyed["start_ns"], passes)
    backward = (
        keyed.with_columns(during.alias("pass"))
        .filter(during.is_not_null(), "backward")
        .select(*operators.columns, *_GROUP)
    )
    optimizing = intervals.union(spans.filter(pl.col("category") == int(Category.OPTIMIZER)))
    outside = during.is_null() & intervals.locate(keyed["start_ns"], optimizing).is_null()
    # of convolution, which calls _convolution, the outer one has the gradient
    around = keyed.select(pl.col("row").alias("parent"), pl.col("key").alias("outer"))
    forward = (
        keyed.with_columns(passes["start_ns"].search_sorted(keyed["start_ns"], side="right").alias("pass"))
        .filter(outside, ~pl.col("backward"))
        .join(around, on="parent", how="left")
        .filter(pl.col("key").ne_missing(pl.col("outer")))
        .select("pass", "key", "module", "start_ns")
    )
    places = [
        part.sort("start_ns", descending=latest_first, maintain_order=True).with_columns(
            pl.len().over(_GROUP).alias("count"), pl.int_range(pl.len()).over(_GROUP).alias("place")
        )
        for part, latest_first in ((backward.drop("module"), False), (forward, True))
    ]
    on = [*_GROUP, "count", "place"]
    paired = places[0].join(places[1].cast({"pass": pl.UInt32}).select(*on, "module"), on=on)
    return paired.with_columns(bound=pl.lit(int(Bound.ORDER)))


def _keys(used: pl.Series, names: pl.Series) -> pl.DataFrame:
    """Return `name` (row of the names), `key`, which an operator and its gradient have in common, and `backward`."""
    rows = used.unique().sort()
    text = names.gather(rows)
    gradient = text.str.extract(_BACKWARD)
    shared = pl.coalesce(gradient.alias("gradient"), text.str.extract(_FORWARD).alias("own"))
    key = pl.select(shared).to_series().str.replace_all("_", "").str.to_lowercase()
    return pl.DataFrame({"name": rows, "key": key, "backward": gradient.is_not_null()}).drop_nulls("key")
