import random

import polars as pl
import pytest
from ms_profiler.analysis.metrics import gradients
from ms_profiler.analysis.metrics.scopes import Scope

SOFTMAX = [f"Expand/_SoftmaxBackward/{last}" for last in ("Mul-op0", "ReduceSum-op0", "Sub-op0", "Mul-op1")]


def owners(*stretches, begin=0, scripted=False):
    """Return the operators from which each backward kernel may come.

    Args:
        stretches: names of kernels, alternately of forward and of backward passes.
        begin: the row of the first kernel that belongs to the first forward pass.
        scripted: whether the script computes a part of the gradient.

    Returns:
        {row of a backward kernel: (first, last) row of the forward kernels to which it may belong}.
    """
    rows = [(name, None if place % 2 == 0 else place) for place, names in enumerate(stretches) for name in names]
    names = list(dict.fromkeys(name for name, _ in rows))
    kernels = pl.DataFrame(
        [(names.index(name), backward) for name, backward in rows], schema=gradients.KERNELS, orient="row"
    )
    begins = pl.DataFrame(
        [(place, begin, scripted) for place in range(1, len(stretches), 2)],
        schema={"backward": pl.UInt32, "begin": pl.Int64, "scripted": pl.Boolean},
        orient="row",
    )
    found = gradients.owners(kernels, begins, [Scope.of(name) for name in names])
    return {row: (first, last) for row, first, last in found.select("row", "first", "last").iter_rows()}


DENSE = ["MatMul", "Default/BiasAdd-op0"]
DENSE_BACK = ["Default/BiasAddGrad-op0", "MatMul", "MatMul"]


def test_each_kernel_finds_the_operator_it_is_the_gradient_of():
    forward = [*DENSE, "ReLU", *DENSE]
    found = owners(forward, ["Ones", *DENSE_BACK, "ReluGrad", *DENSE_BACK[:2]])
    #                           bias    products        relu    bias    product of the first layer
    assert found == {5: (4, 4), 6: (4, 4), 7: (3, 3), 8: (3, 3), 9: (2, 2), 10: (1, 1), 11: (0, 0)}


@pytest.mark.parametrize(
    ("forward", "backward", "expected"),
    [
        # one of the two ReLUs has no gradient, so the gradient kernel may belong to either
        (["ReLU", "Tanh", "ReLU"], ["ReluGrad"], [(0, 2)]),
        # the order of the gradient kernels tells which ReLU has the gradient
        (["ReLU", "Tanh", "ReLU"], ["TanhGrad", "ReluGrad"], [(1, 1), (0, 0)]),
        # Concat may come from any operator between those of its neighbours
        (["ReLU", "Concat", "Tanh"], ["TanhGrad", "Concat", "ReluGrad"], [(2, 2), (0, 2), (0, 0)]),
        # an operator with a gradient kernel of its own, such as ReLU, launches no elementwise kernels for its gradient
        (["ReLU", "Mul", "Tanh"], ["TanhGrad", "Mul", "Mul", "ReluGrad"], [(2, 2), (1, 1), (1, 1), (0, 0)]),
        (["Mul", "ReLU", "AddExt", "Tanh"], ["TanhGrad", "Mul", "ReluGrad"], [(3, 3), (2, 2), (1, 1)]),
        # an operator of an unknown type may launch any kernel, except for kernels named after another operator that ran
        (["Fancy", "ReLU"], ["ReluGrad"], [(1, 1)]),
        (["Fancy", "ReLU"], ["MatMul"], [(0, 0)]),
        (["Fancy", "Mul"], ["ReluGrad"], [(0, 0)]),
        (["ReLU", "Fancy", "Tanh"], ["TanhGrad", "Mul", "ReluGrad"], [(2, 2), (1, 1), (0, 0)]),
        # an operator whose name contains another one's name may launch that operator's kernels
        (["LinearReLU", "ReLU"], ["ReluGrad"], [(0, 1)]),
        # the gradient of Softmax takes several kernels, whose number is known
        (["Softmax", "MatMul", "Softmax"], [*SOFTMAX, "MatMul", *SOFTMAX], [(2, 2)] * 4 + [(1, 1)] + [(0, 0)] * 4),
        # the kernel of a loss computes its gradient, too
        (
            ["ReLU", "SparseSoftmaxCrossEntropyWithLogits"],
            ["Ones", "SparseSoftmaxCrossEntropyWithLogits", "Mul", "ReluGrad"],
            [(1, 1), (1, 1), (1, 1), (0, 0)],
        ),
        # the name of the gradient kernel is a variant of the operator's name
        (["GatherD", "Default/MaxPoolWithIndices-op0"], ["MaxPoolGradWithIndices", "GatherDGradV2"], [(1, 1), (0, 0)]),
        # a transposed convolution is computed with the kernel of a gradient
        (
            ["Conv2D", "Conv2DBackpropInput"],
            ["Conv2D", "Conv2DBackpropFilter", "Conv2DBackpropInput", "Conv2DBackpropFilter"],
            [(1, 1), (1, 1), (0, 1), (0, 0)],
        ),
        # kernels of a compiled function have no order
        (
            ["ReLU", "Tanh", "Sigmoid"],
            ["SigmoidGrad", "Gradients/Default/Grad_ReLU/ReluGrad-op0", "Gradients/Default/Grad_Tanh/TanhGrad-op0"],
            [(2, 2), (0, 2), (0, 2)],
        ),
    ],
)
def test_types_bound_the_owners(forward, backward, expected):
    assert list(owners(forward, backward).values()) == expected


@pytest.mark.parametrize(
    ("forward", "backward"),
    [
        (["ReLU"], ["ReluGrad", "ReluGrad"]),
        (["ReLU", "Tanh"], ["ReluGrad", "TanhGrad"]),
        (["MatMul"], ["MatMul", "MatMul", "MatMul"]),
        (["ReLU", "Mul", "Tanh"], ["ReluGrad", "Mul"]),
        ([], ["ReluGrad"]),
    ],
)
def test_a_contradictory_pass_has_no_owners(forward, backward):
    assert owners(forward, backward) == {}


def test_passes_have_forward_passes_of_their_own():
    found = owners(
        ["ReLU"], ["ReluGrad"], ["ReLU"], ["ReluGrad", "ReluGrad"], ["ReLU", "ReLU"], ["ReluGrad", "ReluGrad"]
    )
    # the second backward pass has more gradient kernels than its forward pass has operators, so it has no owners
    assert found == {1: (0, 0), 7: (6, 6), 8: (5, 5)}


def test_kernels_before_the_forward_pass_are_no_owners():
    assert owners(["ReLU", "ReLU"], ["ReluGrad"], begin=1) == {2: (1, 1)}


def test_code_of_the_script_may_launch_products_and_elementwise_kernels():
    forward, backward = ["ReLU", "MatMul", "Mul", "Tanh"], ["TanhGrad", "Mul", "MatMul", "ReluGrad"]
    assert list(owners(forward, backward).values()) == [(3, 3), (2, 2), (1, 1), (0, 0)]
    assert list(owners(forward, backward, scripted=True).values()) == [(3, 3), (0, 3), (0, 3), (0, 0)]


#: operator -> kernels of its gradient
LAUNCHES = {
    "MatMul": ["MatMul", "MatMul"],
    "Default/BiasAdd-op0": ["Default/BiasAddGrad-op0"],
    "ReLU": ["ReluGrad"],
    "Tanh": ["TanhGrad"],
    "Mul": ["Mul", "Mul", "ReduceSum"],
    "ReduceSum": ["Tile"],
    "AddExt": ["ReduceSum"],
    "Div": ["Div", "Div", "Neg", "Mul"],
    "Default/LayerNorm-op0": ["Default/LayerNormGrad-op0", "Add"],
    "Equal": [],
}


@pytest.mark.parametrize("share", [1.0, 0.7])
@pytest.mark.parametrize("seed", range(8))
def test_the_owner_is_always_among_those_found(seed, share):
    generator = random.Random(seed)
    stretches, truth = [], {}
    row = 0
    for _ in range(20):
        forward = generator.choices(list(LAUNCHES), k=generator.randrange(1, 60))
        backward = []
        for place in reversed(range(len(forward))):
            kernels = LAUNCHES[forward[place]] if generator.random() < share else []
            # a product has one gradient kernel if one of its operands needs no gradient
            kernels = kernels[: generator.choice([1, 2])] if forward[place] == "MatMul" else kernels
            # a view launches no kernel in the forward pass, but its gradient may
            kernels = kernels + (["Concat"] if generator.random() < 0.1 else [])
            truth |= {row + len(forward) + len(backward) + more: row + place for more in range(len(kernels))}
            backward += kernels
        stretches += [forward, backward]
        row += len(forward) + len(backward)
    found = owners(*stretches)
    assert found.keys() == truth.keys()
    assert all(first <= truth[row] <= last for row, (first, last) in found.items())
    alone = sum(first == last for first, last in found.values())
    assert alone > len(found) * (0.3 if share == 1.0 else 0.05)


def test_empty_passes():
    assert owners() == {} and owners(["ReLU"]) == {}
