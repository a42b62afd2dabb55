"""Measure what ms-profiler adds to the start of the interpreter, with its variable unset and set, without a framework.

    python benchmarks/startup.py [ROUNDS]

The program alternately starts an interpreter without ms-profiler and one with it. It prints the median difference
between neighbouring starts, with its 95 % interval (by the binomial distribution of ranks). The first row compares two
equal starts, and so shows the noise.
"""

import functools
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pairs

ROOT = Path(__file__).resolve().parent.parent
ROUNDS = 60


def interpreter(folder: str, installed: bool) -> str:
    """Make a virtual environment, empty or with ms-profiler's installed files, and return the path of its Python."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    if installed:
        (packages,) = Path(folder).glob("lib/python*/site-packages")
        for name in ("ms_profiler.pth", "ms_profiler.start", "ms_profiler_start.py"):
            (packages / name).write_text((ROOT / "sitecustomize" / name).read_text())
        (packages / "ms_profiler").symlink_to(ROOT / "agent" / "ms_profiler")
    return str(Path(folder) / "bin" / "python")


def seconds(python: str, **variables: str) -> float:
    """Start a Python with these environment variables; return the seconds from the fork to the exit of its process."""
    environment = {"PATH": os.environ["PATH"], **variables}
    begun = time.perf_counter()
    subprocess.run([python, "-c", "pass"], env=environment, check=True)
    return time.perf_counter() - begun


def report(name: str, differences: list[float]) -> None:
    """Print the median difference in milliseconds with its 95 % interval.

    Args:
        name: the title of the row.
        differences: the measured differences between neighbouring starts, in seconds.
    """
    ordered = sorted(difference * 1e3 for difference in differences)
    count = len(ordered)
    reach = math.ceil(0.98 * math.sqrt(count))  # 1.96 standard deviations of Binomial(n, 1/2)
    low, high = ordered[max(0, count // 2 - reach)], ordered[min(count - 1, count // 2 + reach)]
    print(f"{name:<28} {statistics.median(ordered):+7.2f} ms   [{low:+.2f}, {high:+.2f}]")


def main() -> None:
    """Measure all rows and print them."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    with tempfile.TemporaryDirectory() as folder:
        bare, ours = interpreter(f"{folder}/bare", False), interpreter(f"{folder}/ours", True)
        site = str(ROOT / "sitecustomize")
        on = '{"start": true}'
        rows = {
            "nothing, twice (noise)": (bare, {}),
            "installed, unset": (ours, {}),
            "installed, set": (ours, {"MS_PROFILER_OPTIONS": on}),
            "PYTHONPATH, unset": (bare, {"PYTHONPATH": site}),
            "PYTHONPATH, set": (bare, {"PYTHONPATH": site, "MS_PROFILER_OPTIONS": on}),
        }
        for python, variables in rows.values():  # not measured: the first starts compile the modules
            seconds(python, **variables)
        base = statistics.median(seconds(bare) for _ in range(20))
        print(pairs.machine())
        print(f"{rounds} pairs each; an empty start takes {base * 1e3:.1f} ms")
        for name, (python, variables) in rows.items():
            start = functools.partial(seconds, python, **variables)
            _, _, differences = pairs.compare(lambda: seconds(bare), start, rounds)
            report(name, differences)


if __name__ == "__main__":
    main()
