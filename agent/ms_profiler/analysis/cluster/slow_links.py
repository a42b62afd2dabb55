"""Find links between ranks that are slower than other links of their kind."""

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

#: a link can be called slow only if there are at least this many links of its kind
LEAST: Final = 5
#: a link is slow if its bandwidth is less than this share of the median bandwidth of the links of its kind
SLOW: Final = 0.7
#: transports without a known bandwidth. LOCAL is within a rank. TCP is between CPUs: the duration of a recorded call is
#: not that of the transfer, because the call also waits for the other rank, or only queues the message
_LEFT_OUT: Final = ("LOCAL", "TCP")


@dataclass(frozen=True)
class SlowLink:
    """A link between two ranks that is slower than other links of its kind.

    Attributes:
        source: the sending rank.
        target: the receiving rank.
        transport: kind of the link.
        speed: bandwidth of the link, GB/s.
        usual: bandwidth of the median link of the kind, GB/s.
    """

    source: int
    target: int
    transport: str
    speed: float
    usual: float


def slow(sums: Mapping[tuple[str, str], tuple[float, float]]) -> list[SlowLink]:
    """Return the links with less than 70 % of the bandwidth of the median link of their kind, the slowest first.

    Args:
        sums: ("SOURCE-TARGET", kind of the link) -> (megabytes, milliseconds).
    """
    speeds: dict[str, dict[str, float]] = {}
    for (ends, transport), (megabytes, milliseconds) in sums.items():
        if transport not in _LEFT_OUT and megabytes > 0 and milliseconds > 0:
            speeds.setdefault(transport, {})[ends] = megabytes / milliseconds
    found = []
    for transport, links in speeds.items():
        usual = statistics.median(links.values())
        for ends, speed in links.items():
            if len(links) >= LEAST and speed < SLOW * usual:
                source, _, target = ends.partition("-")
                found.append(SlowLink(int(source), int(target), transport, round(speed, 4), round(usual, 4)))
    return sorted(found, key=lambda link: (link.speed / link.usual, link.source, link.target))
