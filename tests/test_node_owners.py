"""Whose kernels of a backward pass are where autograd's nodes are known."""

import orjson
import polars as pl
from ms_profiler.analysis.metrics.node_owners import Known
from ms_profiler.analysis.metrics.scopes import Scope
from ms_profiler.analysis.readers import tapes
from ms_profiler.store.format import Category

#: nodes of a block, with how many gradients each computes and how many of these are added to others
BLOCK = [("LayerNorm", 3, 1), ("MatMul", 2, 0), ("BiasAdd", 2, 0), ("ReLU", 1, 0), ("AddExt", 2, 0)]
LOSS = [("SumExt", 1, 0), ("Log", 1, 0)]
RAN = ["Ones", "Div", "Tile", *2 * ["ReluGrad", "Default/BiasAddGrad-op0", "MatMul", "MatMul", "LayerNormGrad", "Add"]]


def tape(names=("a", "b"), time_ns=5, block=BLOCK):
    """Return the nodes of a network of like blocks, with a loss in no module."""
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
    """Return the module of each kernel of passes."""
    names = list(dict.fromkeys(name for ran in passes for name in ran))
    rows = [(names.index(name), backward) for backward, ran in enumerate(passes) for name in ran]
    kernels = pl.DataFrame(rows, schema={"kernel": pl.UInt32, "backward": pl.UInt32}, orient="row")
    found = known.owned(kernels.with_row_index("place"), [Scope.of(name) for name in names])
    told = dict(found.iter_rows())
    return [told.get(place) for place in range(len(rows))]


def known(*found, passes=1, called=()):
    """Return what is known of passes, each 10 ns long with a call of modules before it."""
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


def test_kernels_of_like_blocks_are_told_apart():
    assert modules(known(tape()), RAN) == EXPECTED


def test_a_sum_of_gradients_is_of_the_node_that_adds_to_another_one():
    """A sum may follow any node; how many do, the graph tells."""
    block = [(kind, wanted, int(kind == "MatMul")) for kind, wanted, _ in BLOCK]
    ran = ["ReluGrad", "Default/BiasAddGrad-op0", "MatMul", "MatMul", "Add", "LayerNormGrad"]
    found = modules(known(tape(block=block)), ["Div", "Tile", *ran, *ran])
    assert [found[6], found[12]] == ["Net.b.MatMul", "Net.a.MatMul"]


def test_passes_of_other_steps_have_the_nodes_of_the_one_before_which_the_same_was_called():
    found = known(tape(), passes=3, called=[1, 1, 2])
    assert modules(found, RAN, RAN, RAN) == [*EXPECTED, *EXPECTED, *[None] * len(RAN)]


def test_casts_before_a_product_may_be_those_of_the_product():
    """Without a product in float16 the device computes it in float32: each side is cast, and what comes out."""
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


def test_nodes_that_differ_after_the_same_calls_tell_of_their_own_passes_alone():
    found = known(tape(), tape("cd", time_ns=15), passes=3, called=[1, 1, 1])
    told = modules(found, RAN, RAN, RAN)
    assert told[: len(RAN)] == EXPECTED and told[len(RAN) + 3] == "Net.d.ReLU"
    assert told[2 * len(RAN) :] == [None] * len(RAN)


def test_kernels_that_do_not_fit_the_nodes_have_no_owner():
    assert modules(known(tape()), [*RAN, *["LayerNormGrad"] * 3]) == [None] * (len(RAN) + 3)


def test_what_comes_late_is_of_the_pass_while_gradients_are_missing():
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
