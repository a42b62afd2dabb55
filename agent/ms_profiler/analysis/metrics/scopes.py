"""Parse the name of a kernel, which contains its place in a compiled network.

Example: `Default/network-Loss/_backbone-Net/fc-Dense/MatMul-op0` is the primitive `MatMul` in the module
`network._backbone.fc`, which is a `Dense`. Some parts of a name have a meaning:

- `Gradients` as the first part: the kernel belongs to the backward pass.
- `Expand` as the first part: MindSpore made the primitive by expanding another primitive.
- `recompute_` before a part: the kernel belongs to a cell whose forward pass runs again for the backward pass. Only the
  compiled graph shows whether the kernel is this recomputation or the first forward pass, see `dataflow`.
- `Grad_Dense`: the kernel computes the gradient of a `Dense`.
"""

import re
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import polars as pl

from ms_profiler.store.format import Category


class Part(IntEnum):
    """The part of a training step to which a kernel belongs."""

    UNKNOWN = 0
    FORWARD = 1
    BACKWARD = 2
    RECOMPUTE = 3
    OPTIMIZER = 4


#: primitive of the first kernel of a backward pass; if the script passes a gradient, the pass has no such kernel
SEED: Final = "Ones"
#: first parts of the names of kernels that belong to a network
ROOTS: Final = ("Default", "Gradients", "recompute_Default")

_EXPANDED: Final = "Expand"
_BACKWARD: Final = "Gradients"
_RECOMPUTE: Final = "recompute_"
_ROOT: Final = "Default"
#: an attribute of a module, and the class of the module that it holds
_MODULE: Final = re.compile(r"(\w+)-([A-Za-z_]\w*)")
#: the attribute that holds the optimizer in MindSpore's own cells
_OPTIMIZER: Final = "optimizer"
#: primitives that occur in one phase only
_PHASES: Final = {
    # without BackpropInput, because it also computes transposed convolutions in the forward pass
    Category.BACKWARD: re.compile(r"\w*(Grad(?!ient)|BackpropFilter)\w*"),
    Category.OPTIMIZER: re.compile(r"(Sparse|Fused)*(Apply|Adam|Ftrl|Lamb|Lars|Momentum|RMSProp|SGD)\w*"),
}


@dataclass(frozen=True)
class Scope:
    """The parsed name of a kernel.

    Attributes:
        type: the primitive: the last part of the name up to its last hyphen, as in the framework's own tables.
        path: the name without the last part.
        module: attribute names from the outermost module on, joined by dots; None if the name contains no module.
        kind: class of the module `module`.
        part: the part of a training step.
        expanded: whether the kernel is part of an expanded primitive; the name of such a kernel lacks the module.
        phase: category of the only phase in which its primitive occurs; None if it may occur in several phases.
        named: whether the module comes from the kernel's name; if false, it comes from the compiled graph.
    """

    type: str
    path: str
    module: str | None
    kind: str | None
    part: Part
    expanded: bool
    phase: int | None
    named: bool = True

    @classmethod
    def of(cls, full_name: str) -> "Scope":
        """Parse the full name of a kernel."""
        path, _, last = full_name.rpartition("/")
        primitive = last.rpartition("-")[0] or last
        parts = path.split("/") if path else []
        modules = [match.groups() for part in parts if (match := _MODULE.fullmatch(part))]
        phases = [int(category) for category, pattern in _PHASES.items() if pattern.fullmatch(primitive)]
        return cls(
            type=primitive,
            path=path,
            module=".".join(name for name, _ in modules) or None,
            kind=modules[-1][1] if modules else None,
            part=_part(parts, [name for name, _ in modules]),
            expanded=parts[:1] == [_EXPANDED],
            phase=phases[0] if phases else None,
        )


def runs(kernels: pl.DataFrame, names: pl.DataFrame) -> pl.DataFrame:
    """Return, for each depth, intervals of consecutive kernels whose names agree down to that depth.

    For example, consecutive kernels of `Default/network-Loss/fc-Dense` make one interval at depth 2. An interval ends
    where the next interval of the same depth begins, and at the latest with its step.

    Args:
        kernels: kernels of one process, with the columns of `tables.KERNELS`.
        names: table of kernel names, with the columns of `tables.KERNEL_NAMES`.

    Returns:
        `depth`, `scope` (the part of the kernel's name at that depth), `start_ns`, `end_ns`, sorted by depth and start.
    """
    parts = [scope.split("/") if scope.startswith(ROOTS) else [] for scope in names["scope"]]
    scoped = pl.Series([bool(scope) for scope in parts], dtype=pl.Boolean)
    ordered = (
        kernels.filter(scoped.gather(kernels["kernel"]))
        .sort("start_ns", "lane", "kernel")
        .select("kernel", "step", "start_ns", (pl.col("start_ns") + pl.col("duration_ns")).alias("end_ns"))
    )
    found = [pl.DataFrame(schema={"depth": pl.UInt32, "scope": pl.String, "start_ns": pl.Int64, "end_ns": pl.Int64})]
    for depth in range(max(map(len, parts), default=0)):
        prefixes: dict[str, int] = {}
        rows = [
            prefixes.setdefault("/".join(scope[: depth + 1]), len(prefixes)) if len(scope) > depth else None
            for scope in parts
        ]
        here = ordered.with_columns(pl.Series("prefix", rows, dtype=pl.UInt32).gather(ordered["kernel"]))
        change = pl.any_horizontal(pl.col(name).ne_missing(pl.col(name).shift(1)) for name in ("prefix", "step"))
        stretches = (
            here.with_columns(run=change.cum_sum())
            .filter(pl.col("prefix").is_not_null())
            .group_by("run", maintain_order=True)
            .agg(pl.col("prefix").first(), pl.col("start_ns").first(), pl.col("end_ns").max())
        )
        last = pl.Series("scope", [prefix.rpartition("/")[2] for prefix in prefixes], dtype=pl.String)
        found.append(
            stretches.select(
                pl.lit(depth, pl.UInt32).alias("depth"),
                last.gather(stretches["prefix"]),
                "start_ns",
                pl.min_horizontal("end_ns", pl.col("start_ns").shift(-1)),
            )
        )
    return pl.concat(found)


def _part(parts: list[str], modules: list[str]) -> Part:
    if not parts:
        return Part.UNKNOWN
    if parts[0] == _BACKWARD:
        return Part.BACKWARD
    if any(part.startswith(_RECOMPUTE) for part in parts):
        return Part.RECOMPUTE
    if modules[:1] == [_OPTIMIZER]:
        return Part.OPTIMIZER
    return Part.FORWARD if modules and parts[0] == _ROOT else Part.UNKNOWN
