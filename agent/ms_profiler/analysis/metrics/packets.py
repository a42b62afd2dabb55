"""Exchanges that are too small for their link: most of their time is latency, not transfer."""

from dataclasses import dataclass
from typing import Final

import polars as pl

from ms_profiler.analysis.metrics import communication

#: smallest number of exchanges from which latency and bandwidth are estimated
ENOUGH: Final = 4
_SECONDS: Final = 1e9


@dataclass(frozen=True)
class Packets:
    """Figures of the small exchanges, which spend most of their time on latency.

    Attributes:
        count: the number of exchanges whose bytes are known.
        small: how many of these exchanges are smaller than `half_bytes`.
        time_share: time of the small exchanges / time of all exchanges with known bytes.
        bytes_share: bytes of the small exchanges / bytes of all exchanges with known bytes.
        half_bytes: the size of an exchange that spends half of its time on transfer, in bytes.
        latency_ns: the duration of the shortest exchange.
        bandwidth: the bandwidth of the fastest exchange, bytes per second.
    """

    count: int
    small: int
    time_share: float
    bytes_share: float
    half_bytes: int
    latency_ns: int
    bandwidth: float

    @property
    def small_share(self) -> float:
        """Return small / count."""
        return self.small / self.count


def packets(calls: pl.DataFrame) -> Packets | None:
    """Return figures of the small exchanges; None if too few exchanges have known bytes, or if all have one size.

        time of s bytes = latency + s / bandwidth
        half_bytes      = latency * bandwidth      (half-performance length of Hockney, 1994)

    Estimates: latency = duration of the shortest exchange, bandwidth = max(bytes / duration).

    Args:
        calls: the calls of `communication.calls`.
    """
    known = communication.timed(calls)
    if known.height < ENOUGH or known["bytes"].n_unique() < 2:
        return None
    timed = known.select("bytes", took="duration_ns", rate=pl.col("bytes") / pl.col("duration_ns"))
    latency, rate = int(timed.select(pl.col("took").min()).item()), float(timed.select(pl.col("rate").max()).item())
    half = round(latency * rate)
    small = timed.filter(pl.col("bytes") < half)
    return Packets(
        timed.height,
        small.height,
        int(small["took"].sum()) / int(timed["took"].sum()),
        int(small["bytes"].sum()) / int(timed["bytes"].sum()),
        half,
        latency,
        rate * _SECONDS,
    )
