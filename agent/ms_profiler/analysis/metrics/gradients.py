"""Use order alone to find the operators of a forward pass whose gradient a kernel of a backward pass can compute.

The owner of a kernel is the operator whose gradient the kernel computes. Autograd runs its nodes in the reverse order
of their creation. MindSpore 2.10's own numbers of the nodes confirmed this in every examined network. So in a backward
pass, owners go backwards: the owner of a later kernel ran earlier than the owner of an earlier kernel, or is the same
operator. If the owners of two kernels are known, they limit the owners of the kernels between the two.

The type of a kernel also limits its owner. The candidates of a kernel are the operators whose gradient can launch a
kernel of this type. Examples:

- A `ReluGrad` belongs to a `ReLU`, whose gradient launches one such kernel.
- The gradient of a matrix product launches at most two matrix products.
- A `Mul` does not belong to an operator whose gradient consists of kernels named after the operator.

Kernels with the same candidates form a family. In a backward pass, let

    n              be the number of kernels of a family
    c_1, c_2, ...  be its candidates, from the last one that ran to the first
    m_i            be the largest number of kernels of this family that the gradient of c_i launches.

Then the owner of kernel j (0, 1, ..., n - 1) ran

    not after  the first c_i with m_1 + ... + m_i > j
    not before the last c_i with m_i + m_i+1 + ... >= n - j.

If the gradient of every candidate has launched its largest number of kernels, these bounds leave one operator. If some
candidates have no gradient, the bounds leave a range of operators. If the bounds of a pass contradict each other, its
kernels get no owners.

If the type of an operator U is unknown, U is a candidate for any number of kernels of every family. But if a kernel is
named after an operator N that ran, U is a candidate for this kernel only if U may contain N. The kernels of each
operator were measured with MindSpore 2.10 for CPU.
"""

import re
from dataclasses import dataclass
from typing import Final

import polars as pl

from ms_profiler.analysis.metrics.scopes import Part, Scope

#: one row per kernel: the row of its name, and the number of its backward pass (null in a forward pass)
KERNELS: Final = pl.Schema({"kernel": pl.UInt32, "backward": pl.UInt32})
#: one row per kernel of a backward pass
OWNERS: Final = pl.Schema(
    {
        "row": pl.Int64,  # row of the kernel
        "backward": pl.UInt32,  # number of the backward pass
        "first": pl.Int64,  # row of the earliest kernel of the forward pass that the owner can have launched
        "last": pl.Int64,  # row of the latest such kernel
        "end": pl.Int64,  # row of the first kernel of the backward pass
        "unseen": pl.Boolean,  # whether the owner may have launched no kernel in the forward pass
    }
)

#: stands for "any number of kernels". It is larger than any pass, but the sum over all candidates stays below `_GROUP`
_UNLIMITED: Final = 1 << 20
#: factor in sort keys, which are group * `_GROUP` + row or group * `_GROUP` + count; rows and counts are below `_GROUP`
_GROUP: Final = 1 << 40
#: a row number greater than all others
_NONE: Final = 1 << 39
#: number of rounds in which the bounds of each family narrow the bounds of the other families. More rounds changed
#: nothing in any examined network
_ROUNDS: Final = 2

#: name of a kernel that computes the gradient of one operator: the kernel is named after the operator
_GRADIENT: Final = re.compile(r"_*(\w+?)(?:Grad(?!ient)|Backward|Backprop(?:Input|Filter))(?:V\d+|Ext|With\w+)?")
_VARIANT: Final = re.compile(r"(?:v\d+|ext|with(?:argmax|indices|mask))$")
#: name of the family of matrix products
MATMUL: Final = "matmul"
_ELEMENTWISE: Final = "elementwise"
PRODUCTS: Final = frozenset({"matmul", "batchmatmul"})
#: an operator of an unknown type may consist of other operators if this pattern matches its name. Its gradient then
#: launches the kernels of the gradients of these other operators
_INSIDE: Final = re.compile(r"attention|conv|dense|fused|gru|linear|lstm|matmul|norm|rnn")
#: family of kernels -> largest number of these kernels that the gradient of one operator launches. `Roles.launches`
#: computes this number for all other families
_SEVERAL: Final = {
    "SmoothL1LossGrad": 2,
    "Expand/_SoftmaxBackward/Mul": 2,
    "Expand/_SoftmaxBackward/Cast": 2,  # in float16
    "Expand/_SoftmaxBackward/Transpose": 3,  # along another axis than the last
}
#: operators whose gradients MindSpore expands to several kernels, in a known number
_COUNTED: Final = frozenset({"softmax"})
#: losses whose gradient is computed in the backward pass by a kernel of the same type as the loss
_BOTH: Final = frozenset({"sparsesoftmaxcrossentropywithlogits"})
#: operators that MindSpore computes with a kernel that is named after the gradient of another operator
_ALIASES: Final = {"conv2dbackpropinput": "conv2d", "conv3dbackpropinput": "conv3d"}


def _keys(*lines: str) -> frozenset[str]:
    return frozenset(name.lower() for line in lines for name in line.split())


#: operators without a gradient, and those whose gradient has only kernels named after them, matrix products and sums
_OWN_KERNELS: Final = PRODUCTS | _keys(
    "AdaptiveAvgPool2D AdaptiveMaxPool2D AvgPool AvgPool3D BatchNorm BiasAdd Conv2D Conv3D Dropout Elu GatherD",
    "GroupNorm HSigmoid HSwish LayerNorm LogSoftmax LSTM MaxPool MaxPool3D PReLU ReLU ReLU6 ResizeBilinear",
    "ResizeNearestNeighbor Rsqrt Sigmoid SmoothL1Loss Softmax Sqrt Tanh",
    "Argmax Argmin ArgMaxWithValue Equal FillScalar Floor Greater GreaterEqual IsFinite IsInf IsNan Less LessEqual",
    "LogicalAnd LogicalNot LogicalOr LogicalXor NotEqual OneHot Ones OnesLike Randn Range Zeros ZerosLike",
)
#: operators whose gradients consist of several elementwise kernels, sums and copies
_COMPOSED: Final = _keys(
    "Abs Add Cast Concat Cos Div Erf Erfinv Exp Gather GeLU Lerp Log MaskedFill MaxDim Maximum MinDim Minimum Mul Neg",
    "Pow RealDiv Reciprocal ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReverseV2 Select Sign Sin Slice",
    "Softplus Square Stack Sub Tile Transpose Unstack",
    "Acos Acosh Asin Asinh Atan Atan2 Atanh BroadcastTo CeLU Clamp ClampScalar Clip Cosh CumSum Erfc Expm1 ExpandDims",
    "Flatten HardShrink HardTanh Identity IndexSelect L2Normalize LeakyReLU Log1p LogSigmoid LogSumExp MaskedSelect",
    "Mean MeanExt Mish Muls Divs Adds Subs Pad PadV3 ProdExt ReflectionPad1D ReflectionPad2D Reshape RmsNorm Roll SeLU",
    "SiLU Sinh SoftShrink Softsign Sort Split SplitTensor Squeeze StridedSlice Sum SumExt Tan TopK Tril Triu Xlogy",
    "UpsampleBilinear2D UpsampleNearest1D UpsampleNearest2D",
    "BCEWithLogitsLoss BinaryCrossEntropy KLDivLoss L1Loss MSELoss NLLLoss SoftMarginLoss",
    "SigmoidCrossEntropyWithLogits SoftmaxCrossEntropyWithLogits SparseSoftmaxCrossEntropyWithLogits",
)
#: kernel that adds up the gradients of one tensor, if several operators read the tensor
SUM: Final = "Add"
#: Elementwise kernels that gradients launch. If an operator makes a view, its gradient launches none of these kernels.
#: `Cast` is missing here, because any gradient may launch it before and after a kernel that does not support float16.
_ELEMENTS: Final = _keys(
    "Cos Div Equal Exp Greater GreaterEqual Less LessEqual Log LogicalAnd MaskedFill Mul Neg NotEqual Pow RealDiv",
    "Select Sign Sin Square Sub Tile",
)


@dataclass(frozen=True)
class Roles:
    """The role of a kernel: which operators may launch it, and what the gradient of its operator launches.

    The role is derived from the kernel's name. A family is a set of kernels with the same candidate operators.

    Attributes:
        family: name of the kernel's family in a backward pass; None if any operator may launch the kernel there.
        stem: common name (`known_by`) of the operator after which the family is named; None for other families.
        key: common name of the kernel's own type.
        expanded: whether MindSpore expanded a gradient to several kernels, of which this is one.
        products: largest number of matrix products that the gradient launches, if the operator is a matrix product.
        type: type of the kernel, to look up in `emits`; empty if the kernel is not looked up there.
        free: whether several operators may launch the kernel in a backward pass.
        summed: number of the operator's gradients that MindSpore adds to an existing gradient.
        emits: types of the kernels that the operator's gradient launches; None if unknown.
        never: families of kernels that the operator's gradient never launches.
    """

    family: str | None
    stem: str | None
    key: str
    expanded: bool = False
    products: int = 2
    type: str = ""
    free: bool = False
    summed: int = 0
    emits: frozenset[str] | None = None
    never: frozenset[str] = frozenset()

    @classmethod
    def of(cls, scope: Scope) -> "Roles":
        """Return the role of a kernel, given its parsed name."""
        key = known_by(scope.type)
        key = _ALIASES.get(key, key)
        if scope.expanded:
            matched = _GRADIENT.fullmatch(scope.path.partition("/")[2])
            if matched:
                return cls(f"{scope.path}/{scope.type}", known_by(matched[1]), key, expanded=True)
            return cls(None, None, key)
        if scope.part == Part.BACKWARD:
            return cls(None, None, key)  # a compiled function runs its kernels in any order
        if key in PRODUCTS:
            return cls(MATMUL, None, key)
        if key in _BOTH:
            return cls(scope.type, key, key)
        if matched := _GRADIENT.fullmatch(scope.type):
            return cls(scope.type, known_by(matched[1]), key)
        return cls(_ELEMENTWISE if key in _ELEMENTS else None, None, key)

    def launches(self, other: "Roles") -> int:
        """Return the largest number of kernels of `other`'s family that the gradient of this operator launches."""
        if other.family is None or other.family in self.never:
            return 0
        if self.emits is not None and other.type in self.emits:
            return _UNLIMITED
        if other.free:
            return _UNLIMITED if self.emits is None else self.summed if other.type == SUM else 0
        if self.key not in _OWN_KERNELS and self.key not in _COMPOSED:
            return _UNLIMITED
        if other.family == _ELEMENTWISE:
            return 0 if self.key in _OWN_KERNELS else _UNLIMITED
        if other.family == MATMUL:
            return self.products if self.key in PRODUCTS else 0
        if self.key != other.stem:
            return 0
        if other.expanded and other.stem not in _COUNTED:
            return _UNLIMITED
        return _SEVERAL.get(other.family, 1)

    def named_after(self, other: "Roles") -> bool:
        """Return whether this kernel is named after the operator of `other`, or after an operator inside `other`."""
        if self.stem is None:
            return False
        if other.emits is not None and self.type in other.emits:
            return True
        known = other.key in _OWN_KERNELS or other.key in _COMPOSED
        return self.stem == other.key or (not known and _INSIDE.search(other.key) is not None)


def owners(kernels: pl.DataFrame, begins: pl.DataFrame, scopes: list[Scope]) -> pl.DataFrame:
    """Return, for each kernel of a backward pass, the kernels of the forward pass between which its owner lies.

    The owner is the operator whose gradient the kernel computes.

    Args:
        kernels: the kernels of one lane, with the columns of `KERNELS`, in the order in which they ran.
        begins: one row per backward pass: `backward` (number of the backward pass), `begin` (the first row that can
            belong to its forward pass), `scripted` (whether the script itself computes gradients in this pass; its own
            code may then launch matrix products and elementwise kernels).
        scopes: the parsed kernel names; the column `kernel` is the index of the name.

    Returns:
        The columns of `OWNERS`, in the order of the kernels. Passes whose bounds contradict each other are left out.
    """
    return between(kernels, begins, {row: Roles.of(scopes[row]) for row in kernels["kernel"].unique()})


def between(kernels: pl.DataFrame, begins: pl.DataFrame, roles: dict[int, Roles]) -> pl.DataFrame:
    """Return the result of `owners`, computed from the roles of the kernels instead of their parsed names.

    Args:
        kernels: the kernels, as for `owners`.
        begins: the starts of forward passes, as for `owners`.
        roles: the role of each kernel name, by its row.
    """
    rows = kernels.with_row_index("row").with_columns(pl.col("row").cast(pl.Int64))
    gradients = rows.drop_nulls("backward")
    regions = (
        gradients.with_columns(before=pl.col("row").shift(1))
        .group_by("backward", maintain_order=True)
        .agg(pl.col("row").first().alias("end"), (pl.col("before").first() + 1).alias("after"))
        .join(begins, on="backward", maintain_order="left")
        .select("backward", pl.max_horizontal("begin", "after", 0).alias("begin"), "end", "scripted")
        .filter(pl.col("begin") < pl.col("end"))
        .with_row_index("region")
    )
    if regions.is_empty():
        return pl.DataFrame(schema=OWNERS)
    families = {role.family: role for role in roles.values() if role.family}
    candidates = _Candidates(rows, regions, roles, families)
    numbers = {family: number for number, family in enumerate(families)}
    family = pl.DataFrame(
        [(name, numbers[role.family], role.stem is not None) for name, role in roles.items() if role.family],
        schema={"kernel": pl.UInt32, "family": pl.Int64, "certain": pl.Boolean},
        orient="row",
    )
    number = pl.col("region") * len(families) + pl.col("family")
    table = (
        gradients.join(regions, on="backward", maintain_order="left")
        .join(family, on="kernel", how="left", maintain_order="left")
        .with_columns(group=pl.when(pl.col("certain") | ~pl.col("scripted")).then(number))
    )
    table = candidates.count(table.with_columns(candidates.known(table["group"])))
    for _ in range(_ROUNDS):
        table = candidates.narrow(_ordered(table))
    table = _ordered(table)
    sound = (pl.col("first") <= pl.col("last")).all().over("backward")
    return table.filter(sound).select("row", "backward", "first", "last", "end", unseen=pl.col("group").is_null())


class _Candidates:
    """The candidates: kernels of forward passes whose operators' gradients may launch kernels of a backward pass.

    Each group of candidates is for one forward pass (region) and one family of backward kernels. A kernel is in a group
    if the gradient of its operator may launch kernels of the family.

    Args:
        rows: the kernels: `row`, `kernel`, `backward`.
        regions: the forward passes: `region` (number), `begin` and `end` (rows), without overlap, sorted.
        roles: the role of each kernel name, by its row.
        families: for each family, the role of one of its kernels.
    """

    def __init__(
        self, rows: pl.DataFrame, regions: pl.DataFrame, roles: dict[int, Roles], families: dict[str, Roles]
    ) -> None:
        links = [
            (name, number, most, other.named_after(role))
            for name, role in roles.items()
            for number, other in enumerate(families.values())
            if (most := role.launches(other))
        ]
        schema = {"kernel": pl.UInt32, "family": pl.Int64, "most": pl.Int64, "own": pl.Boolean}
        region = regions["begin"].search_sorted(rows["row"], side="right").cast(pl.Int64) - 1
        found = (
            rows.with_columns(region)
            .filter((region >= 0) & (rows["row"] < regions["end"].gather(region.clip(lower_bound=0))))
            .join(pl.DataFrame(links, schema=schema, orient="row"), on="kernel", maintain_order="left")
            .select("row", "most", "own", group=pl.col("begin") * len(families) + pl.col("family"))
            # if a backward kernel is named after an operator that ran, it does not belong to an unknown operator
            .filter(pl.col("own") | ~pl.col("own").any().over("group"))
            .sort("group", "row")
            .with_columns(since=pl.col("most").cum_sum().over("group"), total=pl.col("most").sum().over("group"))
        )
        self._rows, self._groups = found["row"], found["group"]
        self._totals = found.group_by("group").agg(pl.col("total").first())
        self._places = found["group"] * _GROUP + found["row"]
        self._since = found["group"] * _GROUP + found["since"]
        falling = found.with_columns(until=pl.col("total") - pl.col("since") + pl.col("most")).sort(
            "group", "row", descending=[False, True]
        )
        self._falling_rows, self._until = falling["row"], falling["group"] * _GROUP + falling["until"]

    def known(self, groups: pl.Series) -> pl.Series:
        """Return the groups, with null in place of each group that has no candidates."""
        return groups.zip_with(groups.is_in(self._totals["group"].implode()), pl.Series([None], dtype=pl.Int64))

    def count(self, table: pl.DataFrame) -> pl.DataFrame:
        """Add the columns `first` and `last`: the first and the last operator that can own a kernel.

        Both follow from how many kernels and how many candidates there are, by the formula in this module's docstring.

        Args:
            table: kernels of backward passes, in order: `group`, `begin` and `end`.
        """
        counted = table.join(self._totals, on="group", how="left", maintain_order="left").with_columns(
            number=pl.int_range(pl.len()).over("group"), n=pl.len().over("group")
        )
        base = counted["group"] * _GROUP
        enough = counted["n"] <= counted["total"]
        first = _at(self._rows, self._since.search_sorted(base + counted["n"] - counted["number"] - 1, side="right"))
        last = _at(self._falling_rows, self._until.search_sorted(base + counted["number"], side="right"))
        free = counted["group"].is_null()
        return counted.with_columns(
            first=pl.when(free).then("begin").when(enough).then(first).otherwise(_NONE),
            last=pl.when(free).then(pl.col("end") - 1).when(enough).then(last).otherwise(-1),
        )

    def narrow(self, table: pl.DataFrame) -> pl.DataFrame:
        """Raise `first`, and lower `last`, to the nearest candidate in the kernel's group."""
        base = table["group"] * _GROUP
        at = self._places.search_sorted(base + table["first"].clip(upper_bound=_NONE), side="left")
        before = self._places.search_sorted(base + table["last"].clip(lower_bound=-1), side="right").cast(pl.Int64) - 1
        first = _at(self._rows, at).zip_with(_at(self._groups, at) == table["group"], pl.Series([_NONE]))
        last = _at(self._rows, before).zip_with(
            (before >= 0) & (_at(self._groups, before) == table["group"]), pl.Series([-1])
        )
        free = table["group"].is_null()
        return table.with_columns(first=table["first"].zip_with(free, first), last=table["last"].zip_with(free, last))


def _ordered(table: pl.DataFrame) -> pl.DataFrame:
    """Narrow the bounds by the order of a backward pass: the owner of a later kernel does not run later."""
    return table.with_columns(
        pl.col("last").cum_min().over("backward"), pl.col("first").cum_max(reverse=True).over("backward")
    )


def _at(values: pl.Series, places: pl.Series) -> pl.Series:
    """Return the values at these positions. For a position beyond the end, the returned value has no meaning."""
    if values.is_empty():
        return pl.repeat(None, len(places), dtype=pl.Int64, eager=True)
    return values.gather(places.cast(pl.Int64).clip(0, max(len(values) - 1, 0)))


def known_by(name: str) -> str:
    """Return a common name for all variants of an operator: `gatherdgrad` for `GatherDGradV2`.

    Args:
        name: the name of a kernel or an operator.
    """
    return _VARIANT.sub("", name.replace("_", "").lower())
