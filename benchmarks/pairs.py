"""Compare two ways of doing the same thing on a machine that others use too.

A benchmark measures both ways alternately in one run, so that a change of the machine's speed affects both. The result
is the median of the ratios of neighbouring measurements. The A/A ratio compares measurements of the first way with each
other. Its distance from 1 shows the effect of chance.
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
    """Return one line that names the processor, the number of cores, and the versions of Python and packages."""
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
    """Analyse a result; return the wall time and the processor time in seconds, and the peak memory in MB."""
    command = [sys.executable, "-m", "ms_profiler", "analyse", folder]
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = status
    if status:
        raise SystemExit(f"{command} ended with {status}")
    return time.perf_counter() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def compare(bare: Callable[[], float], changed: Callable[[], float], rounds: int) -> tuple[float, float, list[float]]:
    """Measure a bare program and a changed one alternately, `rounds` times each, and compare their times.

    Args:
        bare: runs the bare program and returns its time in any unit.
        changed: runs the changed program and returns its time in the same unit.
        rounds: number of pairs to measure.

    Returns:
        The median of changed / bare, the median A/A ratio (the bare time divided by that of the round before), and the
        differences changed - bare.
    """
    ratios, same, differences = [], [], []
    before = None
    for index in range(rounds):
        # alternate the order, so that a drift of the machine's speed within a round favours neither program
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
    """Print one line: the title, the ratio of the times, the A/A ratio, and further figures."""
    print(f"{title:58} x{ratio:.3f}   A/A x{same:.3f}   {extra}".rstrip())
    sys.stdout.flush()
