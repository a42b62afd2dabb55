"""Compare two ways of doing the same thing on a machine that others use too.

Both are measured in turn, in one run, so that a change of the machine's speed meets both. The result is the median of
the ratios of neighbours. The A/A ratio beside it compares the same thing with itself: it shows the effect of chance.
"""

import os
import platform
import statistics
import subprocess
import sys
import time
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


def analysed(folder: str) -> tuple[float, float, float]:
    """Analyse a result; return the seconds that the command takes, those of a processor, and its peak memory in MB."""
    command = [sys.executable, "-m", "ms_profiler", "analyse", folder]
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = status
    if status:
        raise SystemExit(f"{command} ended with {status}")
    return time.perf_counter() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


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
