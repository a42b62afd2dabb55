"""Backward passes of PyTorch: the nodes of autograd's graph, and the operators that created them.

Autograd reports each node that it runs, for example as `autograd::engine::evaluate_function: AddmmBackward0`. Some
recordings lack these reports, and contain `AddmmBackward0` alone. A node is named after the operator that created it
(derivatives.yaml of PyTorch): `aten::addmm` or `aten::addmm_` created `AddmmBackward0`. Operators that run inside the
creating operator create no nodes.

On a processor of the host, the thread that calls a pass runs the nodes of the pass. On a device, autograd's own threads
run the nodes of all passes. Such a thread may call a pass, too, but only inside a node: to recompute.
"""

import re
from dataclasses import dataclass
from functools import cache
from typing import Final

import polars as pl

from ms_profiler.analysis.metrics import intervals
from ms_profiler.analysis.metrics.passes import RECOMPUTE
from ms_profiler.analysis.metrics.phases import innermost
from ms_profiler.store.format import Category, Flag

_EVALUATES: Final = "autograd::engine::evaluate_function: "
_NODE: Final = r"^(?:autograd::engine::evaluate_function: )?(?:torch::(?:autograd|jit)::)?(\w+?)Backward(?:\d*|s)$"
_ACCUMULATES: Final = r"^(?:autograd::engine::evaluate_function: )?torch::autograd::AccumulateGrad$"
_OPERATOR: Final = r"^(?:\w+::)*(\w+)$"
#: part of a node's name -> part of its operator's name, for the nodes whose names differ from their operators' names
_CALLED: Final = {"nlllossforward": "nllloss", "nllloss2dforward": "nllloss2d"}
#: operators with two kinds of overloads: some have a derivative, the others call operators that have a derivative
_BOTH: Final = ("max", "min", "norm")

#: one row per node, and one row per operator that may have created a node
KEYED: Final = pl.Schema(
    {
        "row": pl.UInt32,
        "thread": pl.UInt32,
        "start_ns": pl.Int64,
        "end_ns": pl.Int64,
        "module": pl.UInt32,  # row of the name of the innermost module around; null outside of modules
        "key": pl.String,  # name that a node and its operator share, such as "addmm"; null for unknown nodes
        # row of the innermost backward pass or recomputation around; null outside of these, or if several threads may
        # have called the pass
        "around": pl.UInt32,
        # the thread that called this pass; the own thread if several may have called it; null outside of passes
        "began": pl.UInt32,
    }
)

_COLUMNS: Final = [pl.col(name).cast(kind) for name, kind in KEYED.items()]


def known(names: pl.Series) -> bool:
    """Return whether any name is the name of a node.

    Args:
        names: the names of the recording.
    """
    return bool((names.str.contains(_NODE) | names.str.starts_with(_EVALUATES)).any())


def keys(used: pl.Series, names: pl.Series) -> pl.DataFrame:
    """Return the parsed names of operators: `name` (row of the names), and the attributes of `Key` as columns.

    Args:
        used: the rows of `names` to parse.
        names: the names of the recording.
    """
    rows = used.unique().sort()
    found = [key(text) for text in names.gather(rows).to_list()]
    return pl.DataFrame(
        {
            "name": rows,
            "key": pl.Series([each.key for each in found], dtype=pl.String),
            "node": pl.Series([each.node for each in found], dtype=pl.Boolean),
            "evaluates": pl.Series([each.evaluates for each in found], dtype=pl.Boolean),
            "accumulates": pl.Series([each.accumulates for each in found], dtype=pl.Boolean),
        }
    )


@dataclass(frozen=True)
class Key:
    """The parsed name of an operator, which may also be a node of autograd's graph.

    Attributes:
        key: name that a node shares with the operator that created it; None if the node's name does not tell the
            operator.
        node: whether the name is that of a node.
        evaluates: whether autograd's report of a node has this name. The span of the report may contain the node's own
            span.
        accumulates: whether the name is that of a node that adds to the gradient of a parameter.
    """

    key: str | None
    node: bool
    evaluates: bool
    accumulates: bool


@cache
def key(text: str) -> Key:
    """Parse the name of an operator.

    Plain Python is faster here than Polars, because a run has only hundreds of names.

    Args:
        text: the name.
    """
    gradient, own = re.search(_NODE, text), re.search(_OPERATOR, text)
    evaluates, accumulates = text.startswith(_EVALUATES), re.search(_ACCUMULATES, text) is not None
    node = gradient is not None or evaluates or accumulates
    named = gradient or (None if node else own)
    short = None if named is None else named[1].replace("_", "").lower()
    return Key(short and _CALLED.get(short, short), node, evaluates, accumulates)


def passes(spans: pl.DataFrame, names: pl.Series) -> pl.DataFrame:
    """Return backward passes and recomputations, sorted by start.

    Args:
        spans: spans of one process, with the columns of `tables.SPANS` and `row`.
        names: the names of the recording.

    Returns:
        `row`, `thread`, `start_ns`, `end_ns`, `again` (whether it is a recomputation), `home` (whether its thread calls
        passes outside of nodes, unlike an autograd thread of a device), `around` (row of the enclosing pass or
        recomputation, null for an outermost one), `began` (the thread that called the outermost pass around).
    """
    found = spans.filter(pl.col("category") == int(Category.BACKWARD)).sort(
        "start_ns", "end_ns", descending=[False, True]
    )
    again = names.gather(found["name"]).str.starts_with(RECOMPUTE).alias("again")
    found = found.select("row", "thread", "start_ns", "end_ns", again)
    homes = _homes(found, spans, names)
    around: list[tuple[int | None, int]] = []
    opened: dict[int, list[tuple[int, int, int]]] = {thread: [] for thread in found["thread"].unique()}
    for row, thread, start, end in found.select("row", "thread", "start_ns", "end_ns").iter_rows():
        for line in opened.values():
            while line and line[-1][0] <= start:
                line.pop()
        outer = [opened[thread]] if opened[thread] or thread in homes else [opened[each] for each in homes]
        outer = [line for line in outer if line]
        above, began = outer[0][-1][1:] if len(outer) == 1 else (None, thread)
        around.append((above, began))
        opened[thread].append((end, row, began))
    return found.with_columns(
        pl.col("thread").is_in(homes).alias("home"),
        *pl.DataFrame(around, schema={"around": pl.UInt32, "began": pl.UInt32}, orient="row"),
    )


def _homes(passes: pl.DataFrame, spans: pl.DataFrame, names: pl.Series) -> list[int]:
    """Return the threads that call backward passes outside of nodes, and either run their nodes or run no nodes.

    An autograd thread of a device runs the nodes of other threads' passes, so it is not among them.
    """
    operators = spans.filter(pl.col("category") == int(Category.OP), pl.col("thread").is_in(passes["thread"].implode()))
    kinds = keys(operators["name"], names).filter("node")["name"]
    nodes = operators.filter(pl.col("name").is_in(kinds.implode()))
    found = []
    for thread in passes["thread"].unique().sort():
        own = nodes.filter(pl.col("thread") == thread)
        called = passes.filter(pl.col("thread") == thread, ~pl.col("again"))
        called = called.filter(intervals.locate(called["start_ns"], intervals.union(own)).is_null())
        runs = intervals.locate(own["start_ns"], intervals.union(called)).is_not_null().any()
        if called.height and (runs or own.is_empty()):
            found.append(thread)
    return found


def _within(operators: pl.DataFrame, spans: pl.DataFrame) -> pl.Series:
    """Return for each operator whether it began inside one of the spans of its thread."""
    found = pl.repeat(False, operators.height, dtype=pl.Boolean, eager=True)
    for (thread,), own in spans.group_by("thread"):
        inside = intervals.locate(operators["start_ns"], intervals.union(own)).is_not_null()
        found = found | (inside & (operators["thread"] == thread))
    return found


def _around(operators: pl.DataFrame, passed: pl.DataFrame) -> pl.DataFrame:
    """Return two columns for each operator, which `KEYED` describes: `around` and `began`.

    Args:
        operators: `thread` and `start_ns`.
        passed: the backward passes and recomputations, from `passes`.
    """
    times, homes = operators["start_ns"], passed.filter("home")["thread"].unique().sort()
    one = passed.with_columns(category=pl.lit(0, pl.UInt8), process=pl.lit(0, pl.UInt32), thread=pl.lit(0, pl.UInt32))
    elsewhere = pl.repeat(True, operators.height, dtype=pl.Boolean, eager=True)
    several = ~elsewhere
    if homes.len() < 2:
        around = _row_at(times, one)
    else:
        elsewhere = ~operators["thread"].is_in(homes.implode())
        around = pl.repeat(None, operators.height, dtype=pl.UInt32, eager=True)
        for home in homes:
            here = passed["thread"] == home
            its = _row_at(times, one.filter(here)), _row_at(times, one.filter(here | ~passed["home"]))
            found = its[1].zip_with(elsewhere, its[0])
            around = found.zip_with(found.is_not_null() & (elsewhere | (operators["thread"] == home)), around)
        called = pl.concat([intervals.union(passed.filter(pl.col("thread") == home)) for home in homes])
        shared = intervals.timeline({"passes": called}).filter(pl.col("passes") > 1)
        several = elsewhere & intervals.locate(times, shared).is_not_null()
        around = around.zip_with(~several, pl.Series([None], dtype=pl.UInt32))
    began = pl.DataFrame({"row": around}).join(passed, on="row", how="left", maintain_order="left")["began"]
    return pl.DataFrame({"around": around, "began": began.zip_with(elsewhere & ~several, operators["thread"])})


def _row_at(times: pl.Series, passed: pl.DataFrame) -> pl.Series:
    """Return the row of the innermost pass at each time; null outside of passes."""
    pieces = innermost(passed, "row")
    return pieces["row"].gather(intervals.locate(times, pieces))


def split(
    operators: pl.DataFrame, spans: pl.DataFrame, names: pl.Series, passed: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the nodes that ran, and the operators that can have created them, both as `KEYED`, sorted by start.

    Args:
        operators: the operators of `host_operators.calls`, with `row`, and `parent` (the `row` of the enclosing span).
        spans: spans of the process, with the columns of `tables.SPANS`.
        names: the names of the recording.
        passed: the backward passes and recomputations, from `passes`.
    """
    named = keys(operators["name"], names)
    if not named["node"].any():
        nothing = pl.DataFrame(schema=KEYED)
        return nothing.with_columns(pl.lit(None, pl.Boolean).alias("accumulates")), nothing
    # most operators neither are nodes nor create nodes; without them, the next lines are three times as fast
    made_by = named.filter(pl.col("node") | pl.col("key").is_in(named.filter("node")["key"].drop_nulls().implode()))
    used = operators.select("row", "thread", "start_ns", "end_ns", "name", "module", "parent")
    operators = used.filter(pl.col("name").is_in(made_by["name"].implode()))
    keyed = operators.join(made_by, on="name", how="left", maintain_order="left")
    keyed = keyed.with_columns(_around(operators, passed))
    evaluating = keyed.filter("evaluates")
    inner = keyed["node"] & ~keyed["evaluates"] & keyed["parent"].is_in(evaluating["row"].implode())
    nodes = keyed.filter(keyed["node"] & ~inner.fill_null(False))
    nodes = nodes.select(*_COLUMNS, "accumulates").sort("start_ns")
    made = keyed.filter(~pl.col("node"), pl.col("key").is_in(nodes["key"].drop_nulls().unique().implode()))
    apart = spans.filter(pl.col("category") == int(Category.OPTIMIZER))
    without = spans.filter(pl.col("category") == int(Category.FORWARD), pl.col("flags") & int(Flag.NO_GRADIENTS) > 0)
    threads = passed["thread"].unique()
    made = made.filter(
        ~_within(made, apart),
        ~_within(made, without),
        made["thread"].is_in(threads.implode()),
    ).sort("thread", "start_ns", "end_ns", descending=[False, False, True])
    # if operators are nested, the outer one created the node; but inside one of `_BOTH`, the inner one may have done so
    until = pl.when(pl.col("key").is_in(_BOTH)).then("start_ns").otherwise("end_ns").cum_max().shift(1).over("thread")
    outer = made.filter((pl.col("start_ns") >= until).fill_null(True))
    return nodes, outer.select(_COLUMNS).sort("start_ns")
