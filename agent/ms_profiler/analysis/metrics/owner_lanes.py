"""Whose the time is, as a timeline draws it: passes in the first lane, below them the modules, a lane a depth."""

from typing import Final

import polars as pl

from ms_profiler.analysis.metrics.ownership import Ownership
from ms_profiler.analysis.metrics.scopes import Part

LANES: Final = pl.Schema(
    {
        "depth": pl.UInt32,  # 0 for passes
        "name": pl.String,  # of the pass, or the part of the module's path at that depth
        "module": pl.String,  # its path; null for passes
        "start_ns": pl.Int64,
        "end_ns": pl.Int64,
    }
)
#: as the table of modules counts them
_PASSES: Final = {
    int(Part.UNKNOWN): "forward",
    int(Part.FORWARD): "forward",
    int(Part.BACKWARD): "backward",
    int(Part.RECOMPUTE): "backward",
    int(Part.OPTIMIZER): "optimizer",
}


def lanes(found: Ownership | None) -> pl.DataFrame:
    """Return what each lane shows, as `LANES`, by depth and start.

    They are the intervals of the table of modules. A stretch ends where the pass, the module or the step changes. One
    of the host ends where its time does; one of kernels lasts from the first of a module to the last before another.

    Args:
        found: of `ownership.ownership`.
    """
    if found is None:
        return pl.DataFrame(schema=LANES)
    queued = found.basis == "kernels"
    # a piece of nobody in no backward pass is one of compiling
    pieces = found.pieces.filter(pl.col("owner").is_not_null() | pl.col("part").is_in([Part.BACKWARD, Part.OPTIMIZER]))
    owners = pieces["owner"].unique().drop_nulls().sort()
    paths = [owner.split(".") for owner in owners]
    row = pieces["owner"].replace_strict(owners, range(owners.len()), default=None, return_dtype=pl.UInt32)
    ordered = pieces.select(
        "step",
        "start_ns",
        "end_ns",
        owner=row,
        part=pl.col("part").replace_strict(_PASSES, return_dtype=pl.String),
    ).sort("start_ns", "end_ns")
    drawn = [_merged(ordered.with_columns(module=pl.lit(None, pl.String), name="part"), 0, queued)]
    for depth in range(max(map(len, paths), default=0)):
        around = pl.Series(
            [".".join(path[: depth + 1]) if len(path) > depth else None for path in paths], dtype=pl.String
        )
        here = ordered.with_columns(module=around.gather(ordered["owner"]))
        own = here.with_columns(name=pl.col("module").str.split(".").list.last())
        drawn.append(_merged(own, depth + 1, queued))
    return pl.concat(drawn)


def _merged(pieces: pl.DataFrame, depth: int, queued: bool) -> pl.DataFrame:
    """Join what follows each other and is of one module, one pass and one step.

    Args:
        pieces: `step`, `part`, `module`, `name` (null where nothing is at this depth) and times, by start.
        depth: of the lane.
        queued: join over gaps.
    """
    change = pl.any_horizontal(
        pl.col(key).ne_missing(pl.col(key).shift(1)) for key in ("module", "name", "part", "step")
    )
    if not queued:
        change = change | (pl.col("start_ns") != pl.col("end_ns").shift(1)).fill_null(False)
    stretches = (
        pieces.with_columns(run=change.cum_sum())
        .drop_nulls("name")
        .group_by("run", maintain_order=True)
        .agg(pl.col("name", "module", "start_ns").first(), pl.col("end_ns").max())
    )
    return stretches.select(
        pl.lit(depth, pl.UInt32).alias("depth"),
        "name",
        "module",
        "start_ns",
        pl.min_horizontal("end_ns", pl.col("start_ns").shift(-1)),
    )
