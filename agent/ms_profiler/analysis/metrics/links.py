"""Find groups of ranks whose exchanges are slower than the exchanges of other groups with the same operation."""

from dataclasses import dataclass
from typing import Final

import polars as pl

from ms_profiler.analysis.metrics import communication

#: fewest exchanges of a group for an estimate of its bandwidth
ENOUGH: Final = 3
#: a link is slow below this part of the best bandwidth that the same operation reaches
SLOW: Final = 0.5


@dataclass(frozen=True)
class Slow:
    """A slow link: one operation in one group of ranks.

    Attributes:
        operation: the kind of exchange.
        group: the group of ranks.
        bandwidth: bytes per second.
        best: the bandwidth of the fastest group, bytes per second.
        best_group: the fastest group.
        duration_ns: the duration of all its exchanges.
        step: row of the step with its longest exchange.
    """

    operation: str
    group: str
    bandwidth: float
    best: float
    best_group: str
    duration_ns: int
    step: int


def bandwidths(calls: pl.DataFrame) -> pl.DataFrame:
    """Return `operation`, `group`, `count`, `bytes`, `duration_ns`, `bandwidth` (bytes/s), `step` (see `Slow`).

    bandwidth = sum of the bytes / sum of the durations, over the exchanges whose bytes are known.

    Args:
        calls: the calls of `communication.calls`.
    """
    size, took = pl.col("bytes").sum(), pl.col("duration_ns").sum()
    return (
        communication.timed(calls)
        .group_by("operation", "group")
        .agg(
            pl.len().alias("count"),
            size,
            took,
            (size / took * 1e9).alias("bandwidth"),
            pl.col("step").sort_by("duration_ns").last(),
        )
        .sort("operation", "group")
    )


def slow(table: pl.DataFrame) -> list[Slow]:
    """Return the links that reach less than `SLOW` of the best link for the same operation, most time first.

    Small exchanges are slow because of their latency. So a link is compared with the best link only if its exchanges
    are, on average, at least half as large.

    Args:
        table: the table of `bandwidths`.
    """
    found = []
    for _, links in table.filter(pl.col("count") >= ENOUGH).group_by("operation", maintain_order=True):
        best = links.row(links["bandwidth"].arg_max() or 0, named=True)
        for link in links.iter_rows(named=True):
            as_large = link["bytes"] / link["count"] >= best["bytes"] / best["count"] / 2
            if as_large and link["bandwidth"] < SLOW * best["bandwidth"]:
                found.append(
                    Slow(
                        link["operation"],
                        link["group"],
                        link["bandwidth"],
                        best["bandwidth"],
                        best["group"],
                        link["duration_ns"],
                        link["step"],
                    )
                )
    return sorted(found, key=lambda link: -link.duration_ns)
