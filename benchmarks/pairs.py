"""Compare two ways of doing the same thing on a machine that others use too.

Both are measured in turn, in one run, so that a change of the machine's speed meets both; what is quoted is the median
of the ratios of neighbours. The A/A ratio beside it, the same thing measured against itself, is what chance alone does.
"""

import os
import platform
import statistics
import sys
from collections.abc import Callable
from importlib import metadata


def machine() -> str:
    """Return one line about the machine and the versions."""
    model = ""
    with open("/proc/cpuinfo") as stream:
        for line in stream:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    versions = []
    for package in ("ms-profiler", "mindspore", "wrapt", "polars"):
        try:
            versions.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            pass
    return f"{model}, {os.cpu_count()} cores, CPython {platform.python_version()}, {', '.join(versions)}"


def compare(bare: Callable[[], float], changed: Callable[[], float], rounds: int) -> tuple[float, float, list[float]]:
    """Measure both `rounds` times in alternation.

    Args:
        bare: returns a time, any unit.
        changed: returns the time of the other way, same unit.
        rounds: pairs to measure.

    Returns:
        the median of changed / bare, the median A/A ratio (bare against the bare of the round before), and the
        differences changed - bare.
    """
    ratios, same, differences = [], [], []
    before = None
    for index in range(rounds):
        # the order alternates, so that a drift within a round favours neither
        if index % 2:
            second, first = changed(), bare()
        else:
            first, second = bare(), changed()
        ratios.append(second / first)
        differences.append(second - first)
        if before is not None:
            same.append(first / before)
        before = first
    return statistics.median(ratios), statistics.median(same), differences


def report(title: str, ratio: float, same: float, extra: str = "") -> None:
    """Print one line of results."""
    print(f"{title:58} x{ratio:.3f}   A/A x{same:.3f}   {extra}".rstrip())
    sys.stdout.flush()
