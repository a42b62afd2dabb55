"""Kernels of a backward pass get the right modules if autograd's nodes are known."""

import orjson
import polars as pl
from ms_profiler.analysis.metrics import recomputations
from ms_profiler.analysis.metrics.node_owners import Known
from ms_profiler.analysis.metrics.scopes import Scope
from ms_profiler.analysis.readers import tapes
from ms_profiler.store.format import Category

#: nodes of a block: (type, number of gradients it computes, number of these that are added to other gradients)
BLOCK = [("LayerNorm", 3, 1), ("MatMul", 2, 0), ("BiasAdd", 2, 0), ("ReLU", 1, 0), ("AddExt", 2, 0)]
LOSS = [("SumExt", 1, 0), ("Log", 1, 0)]
RAN = ["Ones", "Div", "Tile", *2 * ["ReluGrad", "Default/BiasAddGrad-op0", "MatMul", "MatMul", "LayerNormGrad", "Add"]]


def tape(names=("a", "b"), time_ns=5, block=BLOCK):
    """Return the parsed nodes of a network of equal blocks with a loss that belongs to no module."""
    nodes, calls, number = [], [], 1
    for name in names:
        begin = number
        for kind, wanted, summed in block:
            nodes.append((number, kind, wanted, summed))
            calls.append((number - 1, number + 1, f"Net.{name}.{kind}"))
            number += 1
        calls = [call for call in calls if not call[2].endswith("AddExt")]
        calls.append((begin - 1, number, f"Net.{name}"))
    nodes += [(number + place, *each) for place, each in enumerate(LOSS)]
    return tapes.parse(orjson.dumps({"time_ns": time_ns, "nodes": nodes, "calls": calls}))


def modules(known, *passes):
    """Return the module of each kernel in the passes, None for a kernel without one."""
    names = list(dict.fromkeys(name for ran in passes for name in ran))
    rows = [(names.index(name), backward) for backward, ran in enumerate(passes) for name in ran]
    kernels = pl.DataFrame(rows, schema={"kernel": pl.UInt32, "backward": pl.UInt32}, orient="row")
    found = known.owned(kernels.with_row_index("place"), [Scope.of(name) for name in names])
    owners = dict(found.select("place", "module").iter_rows())
    return [owners.get(place) for place in range(len(rows))]


def known(*found, passes=1, called=()):
    """Return the known nodes for backward passes at 6, 16, 26, ... ns; `called` are modules called 5 ns before each."""
    begun = [(number, 10 * number + 6, False) for number in range(passes)]
    schema = {"backward": pl.UInt32, "start_ns": pl.Int64, "scripted": pl.Boolean}
    spans = pl.DataFrame(
        [(name, int(Category.MODULE), 10 * number + 1) for number, name in enumerate(called)],
        schema={"name": pl.UInt32, "category": pl.UInt8, "start_ns": pl.Int64},
        orient="row",
    )
    return Known.of(list(found), pl.DataFrame(begun, schema, orient="row"), spans)


OWN = ["ReLU", "BiasAdd", "MatMul", "MatMul", "LayerNorm", "LayerNorm"]
EXPECTED = [None, None, None, *(f"Net.b.{name}" for name in OWN), *(f"Net.a.{name}" for name in OWN)]


def test_kernels_of_equal_blocks_are_distinguished():
    assert modules(known(tape()), RAN) == EXPECTED


def test_a_sum_of_gradients_is_of_the_node_that_adds_to_another_one():
    """A sum of gradients may come after any node. The graph says how many sums there are."""
    block = [(kind, wanted, int(kind == "MatMul")) for kind, wanted, _ in BLOCK]
    ran = ["ReluGrad", "Default/BiasAddGrad-op0", "MatMul", "MatMul", "Add", "LayerNormGrad"]
    found = modules(known(tape(block=block)), ["Div", "Tile", *ran, *ran])
    assert [found[6], found[12]] == ["Net.b.MatMul", "Net.a.MatMul"]


def test_passes_of_other_steps_have_the_nodes_of_the_one_before_which_the_same_was_called():
    found = known(tape(), passes=3, called=[1, 1, 2])
    assert modules(found, RAN, RAN, RAN) == [*EXPECTED, *EXPECTED, *[None] * len(RAN)]


def test_casts_before_a_product_may_be_those_of_the_product():
    """The device has no product in float16 and computes it in float32. So it casts both inputs and the output."""
    product = ["Cast", "Cast", "MatMul", "Cast"]
    ran = ["ReluGrad", "Default/BiasAddGrad-op0", *product, *product, "LayerNormGrad", "Add"]
    found = modules(known(tape()), ["Ones", "Div", "Tile", *ran, *ran])
    assert found[5:7] == ["Net.b", "Net.b"] and found[7:12] == ["Net.b.MatMul"] * 5


def test_a_softmax_along_another_axis_transposes_three_times():
    last = [f"Expand/_SoftmaxBackward/{kind}-op0" for kind in ("Mul", "ReduceSum", "Sub", "Mul")]
    other = ["Expand/_SoftmaxBackward/Transpose-op0"]
    found = modules(
        known(tape("abc", block=[("Softmax", 1, 0)])), ["Tile", *last, *last, *other, *other, *last, *other]
    )
    assert found[8:] == ["Net.b", "Net", "Net", *["Net.a"] * 5]


def test_nodes_that_differ_after_equal_calls_apply_only_to_their_passes():
    found = known(tape(), tape("cd", time_ns=15), passes=3, called=[1, 1, 1])
    named = modules(found, RAN, RAN, RAN)
    assert named[: len(RAN)] == EXPECTED and named[len(RAN) + 3] == "Net.d.ReLU"
    assert named[2 * len(RAN) :] == [None] * len(RAN)


def test_kernels_that_do_not_fit_the_nodes_have_no_owner():
    assert modules(known(tape()), [*RAN, *["LayerNormGrad"] * 3]) == [None] * (len(RAN) + 3)


def test_late_kernels_belong_to_the_pass_while_gradients_are_missing():
    names = list(dict.fromkeys([*RAN, "Mul"]))
    ran = [(names.index(name), 0, False) for name in RAN[:-3]]
    late = [(names.index("MatMul"), None, True), (names.index("MatMul"), None, True)]
    kernels = pl.DataFrame(
        [*ran, *late],
        schema={"kernel": pl.UInt32, "backward": pl.UInt32, "loose": pl.Boolean},
        orient="row",
    ).with_row_index("place")
    found = known(tape()).trailing(kernels, [Scope.of(name) for name in names])
    assert found["place"].to_list() == [len(ran)]


def outer(*names):
    """Return the nodes of a pass that recomputes blocks, then the nodes of the blocks' passes in their order."""
    nodes, calls = [], []
    for number, name in enumerate(names, 1):
        nodes.append((number, "CellCustomBackward", 5, 0))
        calls.append((number - 1, number + 1, f"Net.{name}._recompute_cell"))
    whole = tapes.parse(orjson.dumps({"time_ns": 5, "nodes": nodes, "calls": calls}))
    return [whole, *(tapes.Tape(6, tape([name]).nodes[: len(BLOCK)]) for name in reversed(names))]


def joined(found, spans=()):
    """Join the tapes of a pass and of all passes within it.

    Args:
        found: the tapes, of which the first one belongs to the outer pass.
        spans: (row, start, end) of operators.

    Returns:
        The joined tapes, the passes with nodes, and the rows that lie within the outer pass.
    """
    begun = [(number, 10 * number, 10 * number + 9 if number else 1000) for number in range(len(found))]
    passes = pl.DataFrame(begun, {"backward": pl.UInt32, "start_ns": pl.Int64, "end_ns": pl.Int64}, orient="row")
    passes_of = pl.DataFrame(
        [(number, False, number) for number in range(len(found))],
        {"backward": pl.UInt32, "scripted": pl.Boolean, "tape": pl.UInt32},
        orient="row",
    )
    rows = pl.DataFrame(list(spans), {"row": pl.UInt32, "start_ns": pl.Int64, "end_ns": pl.Int64}, orient="row")
    return recomputations.join(found, passes_of, passes, rows)


def test_recomputed_nodes_replace_the_node_that_computes_them():
    found, passes_of, inside = joined(outer("a", "b"), [(70, 5, 19), (71, 1200, 1300)])
    assert dict(inside.iter_rows()) == {1: 0, 2: 0, 70: 0}
    one = ["ReluGrad", "Default/BiasAddGrad-op0", "MatMul", "MatMul", "LayerNormGrad", "Add"]
    known = Known(found, passes_of)
    assert modules(known, [*one, *one]) == [f"Net.{name}.{kind}" for name in "ba" for kind in OWN]


def test_parts_that_are_not_as_many_as_nodes_are_not_joined():
    found = outer("a", "b")
    for wrong in (found[:2], [*found, found[1]]):
        tapes_found, passes_of, inside = joined(wrong)
        assert (len(tapes_found), inside.height) == (len(wrong), 0)
        assert passes_of["tape"].to_list() == list(range(len(wrong)))


def test_a_gradient_of_the_script_is_no_recomputation():
    own = tapes.Tape(5, (tapes.Node("CellCustomBackward", 1, 0, "Net.act"),))
    assert joined([own, tape(["a"])])[2].is_empty()


def test_parts_inside_of_parts_are_joined():
    inner = tapes.Node("CellCustomBackward", 5, 0, "Net.a.last._recompute_cell")
    middle = tapes.Tape(6, (*tape(["a"]).nodes[: len(BLOCK)], inner))
    found = [outer("a")[0], middle, tapes.Tape(7, tape(["a.last"]).nodes[: len(BLOCK)])]
    passes = pl.DataFrame(
        [(0, 0, 100), (1, 10, 90), (2, 20, 50)],
        {"backward": pl.UInt32, "start_ns": pl.Int64, "end_ns": pl.Int64},
        orient="row",
    )
    passes_of = passes.select("backward", scripted=False, tape="backward")
    spans = pl.DataFrame(schema={"row": pl.UInt32, "start_ns": pl.Int64, "end_ns": pl.Int64})
    whole, known, inside = recomputations.join(found, passes_of, passes, spans)
    assert dict(inside.iter_rows()) == {1: 0, 2: 0}
    names = [node.module for node in whole[known["tape"][0]].nodes[::-1]]
    assert names[:3] == ["Net.a", "Net.a.last", "Net.a.last"] and names[-1] == "Net.a.LayerNorm"
