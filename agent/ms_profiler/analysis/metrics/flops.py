"""Floating-point operations of matrix products, convolutions and attention, from the shapes of their operands.

A multiplication with an addition counts as two operations, as in torch.utils.flop_counter and the papers on
utilization. Other operations do not count, because there are only about a thousandth as many of them. If the shapes of
an operator do not tell its number of operations, the number is unknown. It is then also unknown for every module around
the operator.
"""

from collections.abc import Callable, Iterable
from math import prod
from typing import Final

from ms_profiler.analysis.metrics.operands import dimensions

Shapes = list[list[int]]
#: a function that takes the shapes of an operator's operands, and returns its number of operations; None if unknown
Formula = Callable[[Shapes], int | None]


def _product(first: list[int], second: list[int]) -> int | None:
    """Return the number of operations of a product of matrices (.., m, k) and (.., k, n)."""
    if len(first) < 2 or len(second) < 2 or first[-1] != second[-2]:
        return None
    return 2 * prod(first) * second[-1]


def _vector(first: list[int], second: list[int]) -> int | None:
    return 2 * prod(first) if first and second and first[-1] == second[0] else None


def _attention(own: int, value: int) -> Callable[[Shapes], int | None]:
    """Return a function that computes the number of operations of an attention from the shapes of its operands.

    Args:
        own: number of matrix products whose size depends on the width of the queries.
        value: number of matrix products whose size depends on the width of the values.
    """

    def count(shapes: Shapes) -> int | None:
        if len(shapes) < 3 or any(len(shape) != 4 for shape in shapes[:3]):
            return None
        (batch, heads, length, width), keys, values = shapes[:3]
        return 2 * batch * heads * length * keys[2] * (own * width + value * values[3])

    return count


def _at(formula: Callable[[list[int], list[int]], int | None], first: int) -> Formula:
    return lambda shapes: formula(shapes[first], shapes[first + 1]) if len(shapes) > first + 1 else None


_PRODUCT, _ADDED = _at(_product, 0), _at(_product, 1)
#: start of the names of PyTorch's fused attention
_FLASH: Final = "aten::_scaled_dot_product_"


def _folded(shapes: Shapes) -> int | None:
    """Return the number of operations of a matrix product whose matrices may be transposed.

    The product sums over the one size that both matrices share. If they share no size or both sizes, it is unknown over
    which size the product sums. Then the result is None.
    """
    if len(shapes) < 2 or min(map(len, shapes[:2])) < 2 or shapes[0][:-2] != shapes[1][:-2]:
        return None
    first, second = shapes[0], shapes[1]
    common = set(first[-2:]) & set(second[-2:])
    if len(common) != 1:
        return None
    (summed,) = common
    return 2 * prod(first) * prod(second[-2:]) // summed


#: kinds of fused attention; the gradient of each kind is a separate operator
_FUSED: Final = (
    "flash_attention",
    "flash_attention_for_cpu",
    "efficient_attention",
    "cudnn_attention",
    "fused_attention_overrideable",
)

#: operators of PyTorch -> functions that count their operations
OPERATORS: Final[dict[str, Formula]] = {
    "aten::mm": _PRODUCT,
    "aten::bmm": _PRODUCT,
    "aten::addmm": _ADDED,
    "aten::_addmm_activation": _ADDED,
    "aten::baddbmm": _ADDED,
    "aten::mv": _at(_vector, 0),
    "aten::addmv": _at(_vector, 1),
    "aten::dot": _at(_vector, 0),
    **{f"{_FLASH}{kind}": _attention(1, 1) for kind in _FUSED},
    # the gradient computes the scores again, so it has three products with keys or queries, and two with values
    **{f"{_FLASH}{kind}_backward": lambda shapes: _attention(3, 2)(shapes[1:]) for kind in _FUSED},
}
CONVOLUTION: Final = "aten::convolution"
CONVOLUTION_BACKWARD: Final = "aten::convolution_backward"
#: operators with many operations, whose number the shapes do not tell
_HEAVY: Final = (
    "aten::mkldnn_rnn_layer",
    "aten::_cudnn_rnn",
    "aten::miopen_rnn",
    "aten::_trilinear",
    "aten::_native_multi_head_attention",
    "aten::_transformer_encoder_layer_fwd",
    "aten::_scaled_mm",
    "aten::_grouped_mm",
    "aten::_flex_attention",
)
#: namespaces of operators that do not count: they have few operations, or only call other operators
_LIGHT: Final = ("aten", "prim", "autograd", "c10d", "c10d_functional", "_c10d_functional", "profiler", "torch", "nn")

#: types of MindSpore's kernels: matrix products, a convolution, and its gradients for the input and for the weight
PRODUCTS: Final = frozenset({"MatMul", "BatchMatMul", "MatMulExt", "BatchMatMulExt", "Mm", "Bmm"})
CONVOLVES: Final = "Conv2D"
TO_INPUT: Final = "Conv2DBackpropInput"
TO_FILTER: Final = "Conv2DBackpropFilter"
_UNKNOWN_KERNELS: Final = (
    "Conv",
    "Dense",
    "Matmul",
    "MatMul",
    "LSTM",
    "GRU",
    "FlashAttention",
    "Linear",
    "BatchMatMul",
)


def counted(name: str) -> bool:
    """Return whether the operations of a PyTorch operator count for FLOPs, even if their number is unknown."""
    space, colons, _ = name.partition("::")
    if not colons or " " in space:
        return False
    return (
        name in OPERATORS
        or name in (CONVOLUTION, CONVOLUTION_BACKWARD)
        or (name.startswith((*_HEAVY, _FLASH)) and not name.startswith(f"{_FLASH}attention_math"))
        or space not in _LIGHT
    )


def of_operators(kinds: Iterable[tuple[str, str]]) -> dict[tuple[str, str], int | None]:
    """Return the number of operations of each operator, by name and shapes; None if it is unknown.

    The shapes of a convolution lack the size of its output. This size is taken from the gradient that the convolution's
    backward pass receives.

    Args:
        kinds: distinct pairs of an operator's name and the text of its operands' shapes.
    """
    found: dict[tuple[str, str], int | None] = {}
    given: dict[tuple[str, ...], set[int | None]] = {}
    kinds = list(kinds)
    for name, text in kinds:
        if name == CONVOLUTION_BACKWARD:
            gradient, *rest = dimensions(text)[:3]
            given.setdefault(tuple(map(str, rest)), set()).add(_convolution(gradient, *rest))
    for name, text in kinds:
        shapes = dimensions(text)
        if name == CONVOLUTION:
            sizes = given.get(tuple(map(str, shapes[:2])), {None})
            found[name, text] = next(iter(sizes)) if len(sizes) == 1 else None
        else:
            formula = OPERATORS.get(name)
            found[name, text] = formula(shapes) if formula else None
    return found


def _convolution(given: list[int], read: list[int], weight: list[int]) -> int | None:
    """Return the number of operations of a convolution; None if the shapes do not tell whether it is transposed.

    Args:
        given: the shape of its output.
        read: the shape of its input.
        weight: the shape of its weight.
    """
    if min(map(len, (given, read, weight))) < 3:
        return None
    plain, transposed = given[1] == weight[0], read[1] == weight[0]
    if plain and transposed and given[2:] != read[2:]:
        return None
    if not plain and not transposed:
        return None
    return 2 * prod(given if plain else read) * prod(weight[1:])


def of_kernels(kinds: Iterable[tuple[str, str, str]]) -> dict[tuple[str, str, str], int | None]:
    """Return the number of operations of each kernel of MindSpore, by module, type and shapes; None if it is unknown.

    Kernels without operations that count are left out. The shapes of a convolution lack the size of its output. This
    size is taken from the gradient that the backward pass receives in the same module.

    Args:
        kinds: distinct triples of a kernel's module, its type and the text of its operands' shapes.
    """
    found: dict[tuple[str, str, str], int | None] = {}
    parsed = [(module, kind, text, [_sizes(part) for part in text.split(";")]) for module, kind, text in kinds]
    layers = [
        (module, shapes[0], shapes[1]) for module, kind, _, shapes in parsed if kind == CONVOLVES and len(shapes) > 1
    ]
    given: dict[tuple[str, ...], set[int | None]] = {}
    for module, kind, text, shapes in parsed:
        if kind not in (TO_INPUT, TO_FILTER) or len(shapes) < 2:
            continue
        place = 1 if kind == TO_INPUT else 0  # the kernel's other operand: the layer's weight (1) or input (0)
        counts = set()
        for around, read, weight in layers:
            if around == module and (read, weight)[place] == shapes[1] and shapes[0][1:2] == weight[:1]:
                counts.add(count := _convolution(shapes[0], read, weight))
                given.setdefault((module, str(read), str(weight)), set()).add(count)
        found[module, kind, text] = next(iter(counts)) if len(counts) == 1 else None
    for module, kind, text, shapes in parsed:
        if kind in PRODUCTS:
            found[module, kind, text] = _folded(shapes)
        elif kind == CONVOLVES:
            sizes = given.get((module, *map(str, shapes[:2])), {None}) if len(shapes) > 1 else {None}
            found[module, kind, text] = next(iter(sizes)) if len(sizes) == 1 else None
        elif kind not in (TO_INPUT, TO_FILTER) and kind.startswith(_UNKNOWN_KERNELS):
            found[module, kind, text] = None
    return found


def _sizes(text: str) -> list[int]:
    return [int(size) for size in text.split(",") if size.isdecimal()]
