"""Find slow links. A link is one operation in one group of ranks, such as all-reduce between ranks 0 and 1."""

from dataclasses import dataclass
from typing import Final

import polars as pl

from ms_profiler.analysis.metrics import communication

#: the bandwidth of a link is estimated only from at least this number of exchanges
ENOUGH: Final = 3
#: a link is slow if bandwidth < SLOW * (best bandwidth of the same operation in any group)
SLOW: Final = 0.5


@dataclass(frozen=True)
class Slow:
    """A slow link: an operation in one group of ranks that is much slower than in the fastest group.

    Attributes:
        operation: the kind of exchange.
        group: the group of ranks.
        bandwidth: bandwidth of the link, in bytes per second.
        best: the bandwidth of the fastest group for this operation, in bytes per second.
        best_group: the fastest group.
        duration_ns: the total duration of the link's exchanges.
        step: row of the step with the link's longest exchange.
    """

    operation: str
    group: str
    bandwidth: float
    best: float
    best_group: str
    duration_ns: int
    step: int


def bandwidths(calls: pl.DataFrame) -> pl.DataFrame:
    """Return the bandwidth of each link, that is, of each operation in each group of ranks.

    bandwidth = sum of the bytes / sum of the durations, over the exchanges whose bytes are known.

    The columns are `operation`, `group`, `count`, `bytes`, `duration_ns`, `bandwidth` and `step` (see `Slow`).

    Args:
        calls: the exchanges with other ranks, from `communication.calls`.
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
    """Return the slow links, the one with the most time first.

    Small exchanges are slow because of latency, so they prove no slow link. A link counts only if its exchanges are
    large enough:

        bytes / exchanges of the link >= (bytes / exchanges of the best link) / 2

    Args:
        table: the bandwidth of each link, from `bandwidths`.
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
