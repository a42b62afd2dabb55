"""Build the tree of modules with the time of each module in forward and backward passes, inner modules included."""

from dataclasses import dataclass, field
from typing import Final

import polars as pl

from ms_profiler.analysis.metrics.binding import INFERRED
from ms_profiler.analysis.metrics.scopes import Part

#: columns of the tree of modules, which `rows` returns
ROWS: Final = pl.Schema(
    {
        "module": pl.String,  # path: attribute names from the outermost module on, joined by dots
        "depth": pl.UInt16,
        "leaf": pl.Boolean,  # whether no inner module has any time
        "calls": pl.UInt64,  # null if the module itself is not called, or if its calls are unknown
        "forward_ns": pl.Int64,
        "backward_ns": pl.Int64,
        "optimizer_ns": pl.Int64,
        "total_ns": pl.Int64,
        "self_ns": pl.Int64,
        "inferred_ns": pl.Int64,  # part of the total whose module was inferred from order or parameters
        "share": pl.Float64,  # total_ns / whole_ns
    }
)

#: whether a row of the tree computes in forward or backward passes; otherwise it is an optimizer or a scheduler
COMPUTES: Final = pl.col("forward_ns") + pl.col("backward_ns") > 0

#: further columns, from `with_host`; null if the times on the host are unknown, or are those of `ROWS`
ON_HOST: Final = pl.Schema(
    {
        "host_ns": pl.Int64,  # time of the stepping thread in a step, inner modules included
        "host_self_ns": pl.Int64,  # the same without inner modules
    }
)

#: columns of `owners.sums`
SUMS: Final = pl.Schema(
    {"step": pl.UInt32, "owner": pl.String, "part": pl.UInt8, "bound": pl.UInt8, "self_ns": pl.Int64}
)


@dataclass
class _Node:
    forward: int = 0
    backward: int = 0
    optimizer: int = 0
    own: int = 0
    inferred: int = 0
    children: list[str] = field(default_factory=list)

    @property
    def total(self) -> int:
        return self.forward + self.backward + self.optimizer


def rows(times: pl.DataFrame, calls: pl.DataFrame, whole_ns: int) -> pl.DataFrame:
    """Return the tree of modules, with the columns of `ROWS`: each module is followed by its inner modules.

    Among the inner modules of a module, the largest comes first.

    Args:
        times: `owner`, `part`, `bound`, `self_ns`, from `owners.sums` or from kernels.
        calls: `module`, `calls` (number of calls).
        whole_ns: the time of which shares are computed.
    """
    known: dict[str, _Node] = {}
    summed = times.drop_nulls("owner").group_by("owner", "part", "bound").agg(pl.col("self_ns").sum())
    for owner, part, bound, own in summed.sort("owner", "part", "bound").iter_rows():
        _add(known, owner, part, bound, own)
    called = dict(calls.select("module", "calls").iter_rows())
    found: list[tuple[object, ...]] = []

    def walk(names: list[str], depth: int) -> None:
        for name in sorted(names, key=lambda name: (-known[name].total, name)):
            node = known[name]
            found.append(
                (
                    *(name, depth, not node.children, called.get(name)),
                    *(node.forward, node.backward, node.optimizer, node.total, node.own, node.inferred),
                    node.total / max(whole_ns, 1),
                )
            )
            walk(node.children, depth + 1)

    walk([name for name in known if "." not in name], 0)
    return pl.DataFrame(found, schema=ROWS, orient="row")


def _add(known: dict[str, _Node], owner: str, part: int, bound: int, own: int) -> None:
    """Add the time of a module to the module and to all modules around it."""
    path, inner = owner, ""
    while True:
        node = known.get(path)
        if node is None:
            node = known[path] = _Node()
        if inner and inner not in node.children:
            node.children.append(inner)
        if part == Part.OPTIMIZER:
            node.optimizer += own
        elif part in (Part.BACKWARD, Part.RECOMPUTE):
            node.backward += own
        else:
            node.forward += own
        if not inner:
            node.own += own
        if bound in INFERRED:
            node.inferred += own
        if "." not in path:
            return
        path, inner = path.rpartition(".")[0], path


def with_host(tree: pl.DataFrame, on_host: pl.DataFrame | None) -> pl.DataFrame:
    """Return the tree of modules by kernels with the columns of `ON_HOST`, and with rows for modules without kernels.

    Args:
        tree: the tree of modules, from `rows`, with the times of kernels.
        on_host: the tree with the times of a step on the stepping thread; None if they are unknown.
    """
    if on_host is None:
        return tree.with_columns(pl.lit(None, kind).alias(name) for name, kind in ON_HOST.items())
    times = on_host.select("module", "depth", host_ns="total_ns", host_self_ns="self_ns")
    joined = tree.join(times, on="module", how="full", coalesce=True, maintain_order="left_right")
    joined = joined.with_columns(pl.col("depth").fill_null(pl.col("depth_right"))).drop("depth_right")
    joined = joined.with_columns(pl.exclude("module", "depth", "leaf", "calls").fill_null(0))
    known = {
        module: (row, total) for row, (module, total) in enumerate(joined.select("module", "total_ns").iter_rows())
    }
    around = {module.rpartition(".")[0] for module in known}

    def place(module: str) -> list[tuple[int, int]]:
        parts = module.split(".")
        outer = (known[".".join(parts[: depth + 1])] for depth in range(len(parts)))
        return [(-total, row) for row, total in outer]

    order = [row for _, row in sorted((place(module), row) for module, (row, _) in known.items())]
    leaf = pl.Series("leaf", [module not in around for module in known], dtype=pl.Boolean)
    return joined.with_columns(leaf)[order].select(*ROWS, *ON_HOST).cast(pl.Schema({**ROWS, **ON_HOST}))


def heaviest(tree: pl.DataFrame, whole_ns: int, optimizes: bool) -> tuple[str, float] | None:
    """Return the module with most self time, and its share of the whole; None without modules.

    Args:
        tree: the tree of modules, from `rows`.
        whole_ns: the time of which the share is computed.
        optimizes: whether only optimizers and schedulers of learning rates count; otherwise, they do not count.
    """
    modules = tree.filter(~COMPUTES if optimizes else COMPUTES, pl.col("self_ns") > 0)
    if modules.is_empty():
        return None
    module, own = modules.sort("self_ns", "module", descending=[True, False]).select("module", "self_ns").row(0)
    return module, own / max(whole_ns, 1)


def within(sums: pl.DataFrame) -> pl.DataFrame:
    """Return the time of each module in each step.

    The columns are `step`, `module`, `forward_ns`, `backward_ns`, `optimizer_ns`, `total_ns` and `self_ns`. All times
    except `self_ns` include inner modules.

    Args:
        sums: the time of each owner in each step, from `owners.sums`.
    """
    known = sums.drop_nulls("owner")
    parts = known["owner"].unique().sort()
    around = pl.DataFrame(
        [(path, ".".join(path.split(".")[: depth + 1])) for path in parts for depth in range(path.count(".") + 1)],
        schema={"owner": pl.String, "module": pl.String},
        orient="row",
    )
    part, own = pl.col("part"), pl.col("self_ns")
    backward = part.is_in([int(Part.BACKWARD), int(Part.RECOMPUTE)])
    return (
        known.join(around, on="owner")
        .group_by("step", "module")
        .agg(
            own.filter(~backward & (part != int(Part.OPTIMIZER))).sum().alias("forward_ns"),
            own.filter(backward).sum().alias("backward_ns"),
            own.filter(part == int(Part.OPTIMIZER)).sum().alias("optimizer_ns"),
            own.sum().alias("total_ns"),
            own.filter(pl.col("owner") == pl.col("module")).sum().alias("own_ns"),
        )
        .rename({"own_ns": "self_ns"})
        .sort("step", "module")
    )
