"""Measure the cost of profiling for a whole MindSpore process, beside the cost of MindSpore's own profiler."""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pairs

PROGRAM = Path(__file__).parent.parent / "tests" / "programs" / "model_loop.py"
ROUNDS = 7
#: Program that runs another program as `python program` would. With the argument "without", it first removes our import
#: hook. Then MindSpore's own profiler reads MS_PROFILER_OPTIONS, as if ms-profiler were not installed.
LAUNCH = """
import runpy, sys
how, sys.argv = sys.argv[1], sys.argv[2:]
if how == "without":
    sys.meta_path[:] = [finder for finder in sys.meta_path if not type(finder).__module__.startswith("ms_profiler")]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def wall(mode: str, how: str = "with", options: str | None = None) -> float:
    environment = {key: value for key, value in os.environ.items() if key != "MS_PROFILER_OPTIONS"}
    environment["GLOG_v"] = "3"
    with tempfile.TemporaryDirectory() as directory:
        if options is not None:
            environment["MS_PROFILER_OPTIONS"] = options
        start = time.perf_counter()
        subprocess.run(
            [sys.executable, "-c", LAUNCH, how, str(PROGRAM), mode],
            cwd=directory,
            env=environment,
            check=True,
            capture_output=True,
        )
        return time.perf_counter() - start


def main() -> None:
    print(pairs.machine())
    for mode in ("graph", "pynative"):
        times: dict[str, list[float]] = {"bare": [], "again": [], "ours": [], "theirs": []}
        wall(mode)
        for _ in range(ROUNDS):
            times["bare"].append(wall(mode))
            times["ours"].append(wall(mode, options='{"start": true}'))
            times["theirs"].append(wall(mode, "without", '{"start": true}'))
            times["again"].append(wall(mode))
        ours = statistics.median(a - b for a, b in zip(times["ours"], times["bare"], strict=True))
        theirs = statistics.median(a - b for a, b in zip(times["theirs"], times["bare"], strict=True))
        same = statistics.median(a / b for a, b in zip(times["again"], times["bare"], strict=True))
        ratio = statistics.median(a / b for a, b in zip(times["ours"], times["bare"], strict=True))
        pairs.report(
            f"whole process, {mode}",
            ratio,
            same,
            f"ours +{ours:.2f} s, MindSpore's own +{theirs:.2f} s: x{ours / theirs:.2f} of it",
        )


if __name__ == "__main__":
    main()
