"""Slow links between ranks are found, and other links are not named."""

import polars as pl
import pytest
from ms_profiler.analysis.metrics import links

US = 1000


def table(*rows):
    """Return the bandwidths of exchanges (operation, group, bytes, microseconds, step)."""
    calls = pl.DataFrame(
        [(operation, group, size, 0, took * US, step) for operation, group, size, took, step in rows],
        schema={
            "operation": pl.String,
            "group": pl.String,
            "bytes": pl.Int64,
            "start_ns": pl.Int64,
            "end_ns": pl.Int64,
            "step": pl.UInt32,
        },
        orient="row",
    )
    return links.bandwidths(calls)


def test_bandwidth_is_bytes_over_time():
    row = table(("Send", "a", 4000, 2, 0), ("Send", "a", 8000, 4, 1)).row(0, named=True)
    assert (row["count"], row["bytes"], row["duration_ns"], row["step"]) == (2, 12_000, 6 * US, 1)
    assert row["bandwidth"] == pytest.approx(2e9)


def test_a_link_is_slow_beside_a_fast_one_for_the_same_operation():
    rows = [("AllReduce", "fast", 10_000, 10, 0)] * 3 + [("AllReduce", "slow", 10_000, 25, 2)] * 3
    (found,) = links.slow(table(*rows, ("Send", "other", 10_000, 100, 0)))
    assert (found.operation, found.group, found.best_group, found.step) == ("AllReduce", "slow", "fast", 2)
    assert (found.bandwidth, found.best) == pytest.approx((4e8, 1e9))


@pytest.mark.parametrize(
    "slow",
    [
        [("AllReduce", "slow", 10_000, 19, 0)] * 3,
        [("AllReduce", "slow", 10_000, 90, 0)] * 2,
        [("AllReduce", "slow", 4_000, 90, 0)] * 3,
        [("Send", "slow", 10_000, 90, 0)] * 3,
    ],
    ids=["a little", "few", "small packets", "another operation"],
)
def test_no_slow_link_without_evidence(slow):
    assert links.slow(table(*[("AllReduce", "fast", 10_000, 10, 0)] * 3, *slow)) == []
