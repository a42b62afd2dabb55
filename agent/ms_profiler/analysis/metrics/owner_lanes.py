"""Lanes of a timeline that show which pass and which modules ran when.

The first lane has the passes. The lanes below it have the modules, one lane for each depth in the tree of modules.
"""

from typing import Final

import polars as pl

from ms_profiler.analysis.metrics.ownership import Ownership
from ms_profiler.analysis.metrics.scopes import Part

LANES: Final = pl.Schema(
    {
        "depth": pl.UInt32,  # 0 for the lane of passes
        "name": pl.String,  # the name of the pass, or the part of the module's path at that depth
        "module": pl.String,  # path of the module; null for passes
        "start_ns": pl.Int64,
        "end_ns": pl.Int64,
    }
)
_NAMES: Final = pl.Enum(["forward", "backward", "optimizer"])
#: part of a step -> name of the pass to which the table of modules adds it
_PASSES: Final = {
    int(Part.UNKNOWN): "forward",
    int(Part.FORWARD): "forward",
    int(Part.BACKWARD): "backward",
    int(Part.RECOMPUTE): "backward",
    int(Part.OPTIMIZER): "optimizer",
}


def lanes(found: Ownership | None) -> pl.DataFrame:
    """Return the content of the lanes, with the columns of `LANES`, sorted by depth and start.

    The lanes show the same times as the table of modules. An interval ends where the pass, the module or the step
    changes. If the times are those of the host, an interval also ends at a gap. If the times are those of kernels,
    gaps between kernels do not end an interval: it lasts to the module's last kernel before another module.

    Args:
        found: the modules of the run with their times, from `ownership.ownership`; None if no module is known.
    """
    if found is None:
        return pl.DataFrame(schema=LANES)
    queued = found.basis == "kernels"
    # outside of backward passes and optimizers, an interval without an owner is a compilation
    pieces = found.pieces.filter(pl.col("owner").is_not_null() | pl.col("part").is_in([Part.BACKWARD, Part.OPTIMIZER]))
    owners = pieces["owner"].unique().drop_nulls().sort()
    paths = [owner.split(".") for owner in owners]
    ordered = pieces.select(
        "step",
        "start_ns",
        "end_ns",
        part=pl.col("part").replace_strict(_PASSES, return_dtype=pl.String).cast(_NAMES),
        owner=pl.col("owner").replace_strict(owners, range(owners.len()), default=None, return_dtype=pl.UInt32),
    ).sort("start_ns", "end_ns")
    passed = _merged(ordered.with_columns(place="part"), queued)
    drawn = [_labelled(passed, 0, pl.col("place").cast(pl.String), pl.lit(None, pl.String))]
    for depth in range(max(map(len, paths), default=0)):
        around = [".".join(path[: depth + 1]) if len(path) > depth else None for path in paths]
        known = pl.Series(sorted({path for path in around if path is not None}), dtype=pl.String)
        numbers = {path: number for number, path in enumerate(known)}
        place = pl.Series([None if path is None else numbers[path] for path in around], dtype=pl.UInt32)
        here = _merged(ordered.with_columns(place=place.gather(ordered["owner"])), queued)
        names = known.str.split(".").list.last()
        drawn.append(_labelled(here, depth + 1, names.gather(here["place"]), known.gather(here["place"])))
    return pl.concat(drawn)


def _merged(pieces: pl.DataFrame, queued: bool) -> pl.DataFrame:
    """Join consecutive intervals that have the same place, pass and step.

    Args:
        pieces: `step`, `part`, `place` (the pass, or the number of the module; null if no module is at this depth) and
            times, sorted by start.
        queued: whether to join intervals across gaps.
    """
    change = pl.any_horizontal(pl.col(key).ne_missing(pl.col(key).shift(1)) for key in ("place", "part", "step"))
    if queued:
        runs = pieces.with_columns(run=change.cum_sum()).drop_nulls("place").group_by("run", maintain_order=True)
        return runs.agg(pl.col("place", "start_ns").first(), pl.col("end_ns").max())
    change = change | (pl.col("start_ns") != pl.col("end_ns").shift(1)).fill_null(False)
    # pieces of the host do not overlap, so a sequence of joined pieces ends where its last piece ends
    last = (change.shift(-1)).fill_null(True)
    ends = pieces.filter(last)["end_ns"]
    return pieces.filter(change).select("place", "start_ns", ends).drop_nulls("place")


def _labelled(
    stretches: pl.DataFrame, depth: int, name: pl.Expr | pl.Series, module: pl.Expr | pl.Series
) -> pl.DataFrame:
    """Return the intervals of a lane with their names."""
    return stretches.with_columns(name=name, module=module).select(
        pl.lit(depth, pl.UInt32).alias("depth"),
        "name",
        "module",
        "start_ns",
        pl.min_horizontal("end_ns", pl.col("start_ns").shift(-1)),
    )
