"""Exchanges that are too small for their link are found."""

import polars as pl
import pytest
from ms_profiler.analysis.metrics.packets import packets

US = 1000


def calls(*rows):
    """Return a table of exchanges (bytes, microseconds)."""
    return pl.DataFrame(
        [(size, 5 * US, 5 * US + took * US) for size, took in rows],
        schema={"bytes": pl.Int64, "start_ns": pl.Int64, "end_ns": pl.Int64},
        orient="row",
    )


def test_half_of_the_time_of_an_exchange_of_that_size_is_latency():
    # The latency is 10 us. 1 MB in 100 us is 10 GB/s. At 100,000 bytes, half of the time is latency.
    found = packets(calls((1_000, 10), (2_000, 10), (3_000, 20), (100_000, 20), (1_000_000, 100)))
    assert (found.count, found.small, found.half_bytes, found.latency_ns) == (5, 3, 100_000, 10 * US)
    assert found.bandwidth == pytest.approx(1e10)
    assert found.small_share == pytest.approx(0.6)
    assert found.time_share == pytest.approx(40 / 160)
    assert found.bytes_share == pytest.approx(6_000 / 1_106_000)


@pytest.mark.parametrize(
    "rows", [[], [(0, 10)] * 9, [(5, 10), (7, 10), (9, 10)], [(4096, 10)] * 9], ids=["none", "unknown", "few", "alike"]
)
def test_packets_of_one_size_have_no_report(rows):
    assert packets(calls(*rows)) is None
