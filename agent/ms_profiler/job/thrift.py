"""Reduce recording when little disk space is left, so that the space lasts until the end of even a very long job."""

from typing import Final

#: Recording is not reduced until this part of the disk space for fine-grained records is full.
FREE: Final = 0.25


def factor(left: float) -> float:
    """Return the factor, at most 1, by which recording is reduced.

    The factor is 1 until the part `FREE` of the space is full. The rest is the space that is free at this moment.
    From then on, v = left / (1 - FREE) is the free share of the rest, and the factor is v^4. At the factor 1, recording
    would fill the share r of the rest in a second. Then dv/dt = -r v^4, so v = (1 + 3 r t)^(-1/3). At t = 100 / r,
    15 % of the rest is still free, and recording fills r / 2000 in a second.

    Args:
        left: the free share of the space for fine-grained records, from 0 to 1.
    """
    return min(1.0, max(0.0, left / (1 - FREE))) ** 4
