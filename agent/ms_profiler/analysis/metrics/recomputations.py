"""Join the nodes of backward passes with the nodes of the recomputations inside these passes.

MindSpore's `Cell.recompute` makes one node of autograd for a whole cell. When a backward pass runs this node, MindSpore
computes the cell again, and autograd makes nodes for this second computation. A second backward pass inside the first
pass runs these new nodes. So this module adds the nodes of the inner pass to the outer pass. The kernels of the inner
and the outer pass are examined together, because it is unknown where the kernels of the inner pass end.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import polars as pl

from ms_profiler.analysis.metrics.module_paths import common
from ms_profiler.analysis.readers.tapes import Node, Tape

#: name of the node of a cell that computes its own gradient
_NODE: Final = "CellCustomBackward"
#: the last part of the path of a recomputing cell begins with one of these texts
_CELLS: Final = ("_recompute_cell", "_RecomputeCell")
#: name that ms-profiler gives the node of a recomputing cell
AGAIN: Final = "recompute"
#: spans inside a backward pass whose nodes were joined to the pass: row of the span, and row of the pass
INSIDE: Final = pl.Schema({"row": pl.UInt32, "backward": pl.UInt32})


def join(
    tapes: Sequence[Tape], with_nodes: pl.DataFrame, passes: pl.DataFrame, again: pl.DataFrame
) -> tuple[list[Tape], pl.DataFrame, pl.DataFrame]:
    """Add the nodes of inner backward passes to the outer pass, next to the recomputing nodes that run these passes.

    Args:
        tapes: the recorded lists of autograd's nodes of the process (`readers.tapes`); a tape has the nodes of a pass.
        with_nodes: the passes with nodes: `backward` (row of the pass's span), `scripted` and `tape` (index in
            `tapes`).
        passes: `backward`, `start_ns`, `end_ns` of all backward passes, sorted by start.
        again: `row`, `start_ns`, `end_ns` of spans of recomputations, sorted by start.

    Returns:
        - The tapes, followed by the new tapes of the changed passes.
        - `with_nodes`, where `tape` of a changed pass is its new tape.
        - The spans whose nodes were joined to a pass, with the columns of `INSIDE`.
    """
    found, own = list(tapes), dict(with_nodes.select("backward", "tape").iter_rows())
    inner, around = _nested(passes)
    numbers: dict[tuple[int, ...], int] = {}
    joined: dict[int, int] = {}
    for backward in reversed(passes["backward"].to_list()):  # inner passes begin later, so they are handled first
        parts = inner.get(backward, [])
        tape = own.get(backward)
        if tape is None or not parts or any(part not in own for part in parts):
            continue
        key = tape, *(joined.get(part, own[part]) for part in parts)
        if key not in numbers:
            nodes = _put(found[tape].nodes, [found[part].nodes for part in key[1:]])
            numbers[key] = -1 if nodes is None else len(found)
            found += [] if nodes is None else [replace(found[tape], nodes=nodes)]
        if numbers[key] >= 0:
            joined[backward] = numbers[key]
    if not joined:
        return found, with_nodes, pl.DataFrame(schema=INSIDE)
    whole = {backward for backward in joined if around.get(backward) not in joined}
    tape_of = pl.col("backward").replace_strict(joined, default=None, return_dtype=pl.UInt32)
    rows = [(backward, outer) for backward in around if (outer := _outermost(backward, around, joined)) in whole]
    spans = passes.filter(pl.col("backward").is_in(list(whole)))
    place = spans["start_ns"].search_sorted(again["start_ns"], side="right").cast(pl.Int64) - 1
    for row, end, at in zip(again["row"], again["end_ns"], place, strict=True):
        if at >= 0 and end <= spans["end_ns"][at]:
            rows.append((row, spans["backward"][at]))
    return (
        found,
        with_nodes.with_columns(tape=pl.coalesce(tape_of, "tape")),
        pl.DataFrame(rows, schema=INSIDE, orient="row"),
    )


def _nested(passes: pl.DataFrame) -> tuple[dict[int, list[int]], dict[int, int]]:
    """Return the passes directly inside each pass, sorted by start, and the pass directly around each pass."""
    inner: dict[int, list[int]] = {}
    around: dict[int, int] = {}
    opened: list[tuple[int, int]] = []
    for backward, start, end in passes.select("backward", "start_ns", "end_ns").iter_rows():
        while opened and opened[-1][0] <= start:
            opened.pop()
        if opened:
            around[backward] = opened[-1][1]
            inner.setdefault(opened[-1][1], []).append(backward)
        opened.append((end, backward))
    return inner, around


def _outermost(backward: int, around: dict[int, int], joined: dict[int, int]) -> int:
    """Return the outermost pass to which the nodes of a pass were joined."""
    while (outer := around.get(backward)) in joined:
        assert outer is not None
        backward = outer
    return backward


def _put(nodes: tuple[Node, ...], parts: list[tuple[Node, ...]]) -> tuple[Node, ...] | None:
    """Add to each recomputing node the nodes of its inner pass; None if nodes and passes differ in number.

    The recomputing node itself stays in the list, under the name `AGAIN`.

    Args:
        nodes: the nodes in the order of their creation; they run in reverse.
        parts: the nodes of each inner pass, in the order in which the passes run.
    """
    rest, found = list(parts), list[Node]()
    for node in reversed(nodes):
        cell = (node.module or "").rpartition(".")[2]
        if node.name != _NODE or not cell.startswith(_CELLS):
            found.append(node)
            continue
        if not rest:
            return None
        part = rest.pop(0)
        known = [each.module for each in part if each.module is not None]
        around = common(known) if len(known) == len(part) else None
        found += [replace(node, name=AGAIN, module=around or None), *reversed(part)]
    return None if rest else tuple(reversed(found))
