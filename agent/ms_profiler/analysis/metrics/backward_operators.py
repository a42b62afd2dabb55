"""Assign each node of a backward pass to a module.

A node computes the gradient of one operator, and belongs to the module in which this operator ran. Autograd gives an
operator and its node the same sequence number. If these numbers were recorded, they tell the operator of each node.
Otherwise the order of the nodes decides:

- A tape (`readers.tapes`) is a recorded list of autograd's nodes of one pass, with the module of each node. If the pass
  ran exactly these nodes, the nodes get the modules of the tape.
- Without a tape, the gradients are matched with the operators that ran between the previous pass and this pass
  (`metrics.alignment`).
- The gradients of a second loss do not match these operators, because an earlier pass ran in between. Then the
  operators that ran before earlier passes are added, except those that surely have a gradient in an earlier pass.
- If the next pass also needs operators that ran before this pass, `alignment.window` is not used.

Threads that train in parallel have separate passes. Operators, tapes and nodes of one thread never belong to a pass of
another one. Only autograd's own threads run nodes for a thread that called a pass.

A node that adds to a parameter's gradient belongs to the module of the node before it. Any other node whose operator is
unknown gets the module of the nodes before and after it, if both have the same module.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

import polars as pl

from ms_profiler.analysis.metrics import gradient_nodes, host_operators, node_owners
from ms_profiler.analysis.metrics.alignment import OUTSIDE, UNKNOWN, Alignment, Paths, align, owners, window
from ms_profiler.analysis.metrics.binding import Bound
from ms_profiler.analysis.readers.tapes import Tape

#: if the gradients of a pass do not match its operators, the operators of up to this number of earlier passes are added
BEFORE: Final = 3

#: start of the names of autograd's nodes for functions of torch.compile
_COMPILED: Final = "CompiledFunction"

#: one row per node of a backward pass
NODES: Final = pl.Schema(
    {
        "process": pl.UInt32,
        "thread": pl.UInt32,
        "start_ns": pl.Int64,
        "end_ns": pl.Int64,
        "category": pl.UInt8,
        "module": pl.String,  # path of the module; null outside of modules, or if unknown
        "bound": pl.UInt8,  # metrics.binding.Bound: MODULE (by sequence number), ORDER, or NOTHING
        # the thread that called the pass; the node's own thread if several may have; null if no pass was recorded
        "began": pl.UInt32,
    }
)


def nodes(spans: pl.DataFrame, names: pl.Series, tapes: Sequence[Tape] = ()) -> pl.DataFrame:
    """Return the nodes of backward passes, with the columns of `NODES`, sorted by thread and start.

    Args:
        spans: table of spans of one process, with the columns of `tables.SPANS` and the column `row`; `parent` is the
            `row` of the enclosing span.
        names: the names of the recording.
        tapes: recorded lists of autograd's nodes for some of these passes.
    """
    if not gradient_nodes.known(names):
        return pl.DataFrame(schema=NODES)
    operators = host_operators.calls(spans)
    passed = gradient_nodes.passes(spans, names)
    found, made = gradient_nodes.split(operators, spans, names, passed)
    if found.is_empty():
        return pl.DataFrame(schema=NODES)
    paths = Paths(names.to_list())
    exact, inferred = _by_number(operators, found), _by_order(found, made, passed, paths)
    if tapes:
        by_tape = _by_tape(found, passed, spans, list(tapes), paths)
        inferred = by_tape.zip_with(by_tape.is_not_null(), inferred)
    known = _between(found.with_columns(exact.alias("exact"), pl.coalesce(exact, inferred).alias("known")))
    path = pl.Series("path", paths.texts, dtype=pl.String)
    number = pl.select(pl.when(known >= 0).then(known).cast(pl.UInt32)).to_series()
    how = (
        pl.when(pl.lit(known) == UNKNOWN)
        .then(int(Bound.NOTHING))
        .when(pl.lit(exact).is_not_null())
        .then(int(Bound.MODULE))
        .otherwise(int(Bound.ORDER))
    )
    process = spans["process"][0]
    return (
        found.with_columns(
            pl.lit(process, pl.UInt32).alias("process"),
            pl.lit(0, pl.UInt8).alias("category"),
            path.gather(number).alias("module"),
            how.cast(pl.UInt8).alias("bound"),
        )
        .select(NODES.names())
        .sort("thread", "start_ns")
    )


def _by_number(operators: pl.DataFrame, found: pl.DataFrame) -> pl.Series:
    """Return the module number of each node whose operator is known by autograd's sequence number; null for others.

    The number is `OUTSIDE` if the operator ran outside of all modules.
    """
    pairs = host_operators.ties(operators.drop("row"))
    module = operators["module"].gather(pairs["forward"]).cast(pl.Int64).fill_null(OUTSIDE)
    own, around = (operators[column].gather(pairs["backward"]).cast(pl.Int64) for column in ("row", "parent"))
    # autograd's operator around a node has no number; the node in it has
    tied = pl.concat([pl.DataFrame({"row": row, "tied": module}) for row in (own, around)])
    tied = tied.drop_nulls("row").unique("row", keep="first", maintain_order=True)
    return found.cast({"row": pl.Int64}).join(tied, on="row", how="left", maintain_order="left")["tied"]


def _by_tape(
    found: pl.DataFrame, passed: pl.DataFrame, spans: pl.DataFrame, tapes: list[Tape], paths: Paths
) -> pl.Series:
    """Return the module number of each node whose pass ran exactly the nodes of a tape; null for other nodes.

    A tape is a recorded list of autograd's nodes of one backward pass, with the module of each node.
    """
    ran = found.with_row_index("place").filter(~pl.col("accumulates")).group_by("around", maintain_order=True)
    rows = {around: (places, names) for around, places, names in ran.agg("place", "key").iter_rows()}
    by_place: list[int | None] = [None] * found.height
    for (thread,), called in passed.filter(~pl.col("again")).group_by("thread", maintain_order=True):
        passes = called.select(pl.col("row").alias("backward"), "start_ns", scripted=False)
        own = [tape for tape in tapes if thread in tape.threads]
        known = node_owners.Known.of(own, passes, spans.filter(pl.col("thread") == thread))
        modules = [_named(tape, paths) for tape in own]
        for backward, tape in known.passes.select("backward", "tape").iter_rows():
            places, names = rows.get(backward, ([], []))
            if names == modules[tape][0]:
                for place, module in zip(places, modules[tape][1], strict=True):
                    by_place[place] = module
    return pl.Series("tape", by_place, dtype=pl.Int64)


def _named(tape: Tape, paths: Paths) -> tuple[list[str | None], list[int | None]]:
    """Return the keys and the module numbers of the nodes of a tape, in the order in which the pass runs the nodes.

    The key of a node is its name in the form of `gradient_nodes.key`. Nodes of compiled functions have the module
    number None, because Dynamo does not report which modules a compiled function calls.
    """
    ran = tape.nodes[::-1]
    keys = [gradient_nodes.key(node.name).key for node in ran]
    modules = [OUTSIDE if node.module is None else paths.number(node.module) for node in ran]
    compiled = [node.name.startswith(_COMPILED) for node in ran]
    return keys, [None if made else module for made, module in zip(compiled, modules, strict=True)]


class _Pass:
    """A backward pass: its gradients in reverse order, and the operators that ran before the pass."""

    def __init__(self, rows: list[int], gradients: list[int], operators: list[int], modules: list[int]) -> None:
        self.rows, self.gradients, self.operators, self.modules = rows, gradients, operators, modules


def _by_order(found: pl.DataFrame, made: pl.DataFrame, passed: pl.DataFrame, paths: Paths) -> pl.Series:
    """Return for each node its module number, inferred from the order of the nodes, or `OUTSIDE`, or `UNKNOWN`."""
    keys = found["key"].drop_nulls().unique().sort()
    numbers = pl.DataFrame({"key": keys}).with_row_index("number")
    named = found.select("key", "around").with_row_index("place").drop_nulls()
    numbered = named.join(numbers, on="key", maintain_order="left")
    ran = {
        around: (places[::-1], gradients[::-1])
        for around, places, gradients in numbered.group_by("around").agg("place", "number").iter_rows()
    }
    operators = made.join(numbers, on="key", maintain_order="left").with_columns(
        pl.col("module").cast(pl.Int64).fill_null(OUTSIDE)
    )
    grouped = operators.group_by("around", "thread").agg("start_ns", "number", "module")
    inside = {(around, thread): rest for around, thread, *rest in grouped.iter_rows()}
    siblings: dict[tuple[int | None, int], list[tuple[int, int]]] = {}
    for row, thread, start, again, around in passed.select("row", "thread", "start_ns", "again", "around").iter_rows():
        if not again:
            siblings.setdefault((around, thread), []).append((row, start))
    by_place, solved = [UNKNOWN] * found.height, dict[object, list[int]]()
    for key, members in siblings.items():
        starts, names, modules = inside.get(key, ([], [], []))
        since, chain = 0, list[_Pass]()
        for row, start in members:
            until = bisect_left(starts, start, since)
            places, gradients = ran.get(row, ([], []))
            chain.append(_Pass(places, gradients, names[since:until], modules[since:until]))
            since = until
        _solve(chain, by_place, paths, solved)
    return pl.Series("by_place", by_place, dtype=pl.Int64)


def _solve(chain: list[_Pass], by_place: list[int], paths: Paths, solved: dict[object, list[int]]) -> None:
    """Find the modules of the nodes of several backward passes, one pass after the other.

    Args:
        chain: consecutive passes of one thread.
        by_place: list with the module number of each node; the function writes the numbers of the nodes of these
            passes into this list.
        paths: the paths of the modules.
        solved: earlier results, reused for passes with equal gradients and operators; the function adds its results.
    """
    known: dict[object, bool] = {}
    fits = []
    for each in chain:
        names = (tuple(each.gradients), tuple(each.operators))
        if names not in known:
            known[names] = _fits(each)
        fits.append(known[names])
    used: dict[int, set[int]] = {}
    for number, each in enumerate(chain):
        if not each.gradients:
            continue
        shared = number + 1 < len(chain) and bool(chain[number + 1].gradients) and not fits[number + 1]
        if fits[number]:
            pattern = (tuple(each.gradients), tuple(each.operators), tuple(each.modules), shared)
            answer = solved.get(pattern)
            if answer is None:
                alignment = align(each.gradients, each.operators)
                assert alignment is not None
                answer = solved[pattern] = _answer(each, alignment, paths, not shared)
            if shared:
                alignment = align(each.gradients, each.operators)
                assert alignment is not None
                sure = {a for a, b in zip(alignment.first, alignment.last, strict=True) if a == b}
                used[number] = sure
        else:
            answer = _earlier(chain, number, used, paths)
        for row, module in zip(each.rows, answer, strict=True):
            by_place[row] = module


def _fits(each: _Pass) -> bool:
    rest = iter(each.operators)
    return all(name in rest for name in each.gradients)


def _answer(each: _Pass, alignment: Alignment, paths: Paths, alone: bool) -> list[int]:
    operators, modules = each.operators, each.modules
    since = window(each.gradients, operators, alignment) if alone else 0
    if since:
        operators, modules = operators[since:], modules[since:]
        shifted = align(each.gradients, operators)
        assert shifted is not None
        alignment = shifted
    return owners(each.gradients, operators, modules, alignment, paths)


def _earlier(chain: list[_Pass], number: int, used: dict[int, set[int]], paths: Paths) -> list[int]:
    """Return the module of each gradient of a pass; also use the operators that ran before earlier passes."""
    each = chain[number]
    operators, modules = list(each.operators), list(each.modules)
    for before in range(number - 1, max(number - 1 - BEFORE, -1), -1):
        left = [place for place in range(len(chain[before].operators)) if place not in used.get(before, ())]
        operators = [chain[before].operators[place] for place in left] + operators
        modules = [chain[before].modules[place] for place in left] + modules
        alignment = align(each.gradients, operators)
        if alignment is not None:
            return owners(each.gradients, operators, modules, alignment, paths)
    return [UNKNOWN] * len(each.gradients)


def _between(nodes: pl.DataFrame) -> pl.Series:
    """Return the module number of every node; a node of an unknown operator gets the number that both neighbours have.

    Args:
        nodes: the nodes of `gradient_nodes.split`, with two columns of module numbers. `known` has all numbers; `exact`
            is null where the module was only inferred.
    """
    beside = ["thread", "around"]
    nameless = pl.col("key").is_null() & (pl.col("known") == UNKNOWN)
    accumulates = pl.col("accumulates") & pl.col("exact").is_null()
    sure = pl.when(~nameless & ~accumulates).then("known")
    between = nodes.with_columns(
        sure.forward_fill().over(beside).alias("before"), sure.backward_fill().over(beside).alias("behind")
    ).with_columns(
        pl.when(nameless & ~accumulates)
        .then(pl.when(pl.col("before") == pl.col("behind")).then("before").otherwise(UNKNOWN))
        .when(~accumulates)
        .then("known")
        .alias("known")
    )
    return between.select(pl.col("known").forward_fill().over(beside).fill_null(UNKNOWN)).to_series()
