"""Watch a long job under a budget, from the first step to the last: memory, files, threads and the time of a step.

A training loop whose time consists mostly of launches runs for minutes with `overhead_budget` 0.05. This program
watches the job's process from outside. To show growth, it compares the last third of the run with the second third. The
first third does not count: the job warms up, and ms-profiler adapts its recording to the budget.

usage: soak.py [MINUTES] [BUDGET]
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pairs
import psutil

#: seconds between two readings of the job's resources
EVERY: Final = 2.0
#: number of rows in the printed table
ROWS: Final = 10
#: number of steps in a block; the job prints the median step time of each block
STEPS: Final = 200
LAYERS: Final = 20
LOOP: Final = f"""
import statistics, sys, time, torch
torch.set_num_threads(1)
model = torch.nn.Sequential(*(torch.nn.Linear(32, 32) for _ in range({LAYERS})))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x, until = torch.randn(8, 32), time.monotonic() + float(sys.argv[1])
times, before = [], time.perf_counter()
while time.monotonic() < until:
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.step()
    now = time.perf_counter()
    times.append(now - before)
    before = now
    if len(times) == {STEPS}:
        print(statistics.median(times), flush=True)
        times.clear()
"""
#: name of a measured value -> its unit
COLUMNS: Final = {
    "step": "us",
    "resident": "MB",
    "private": "MB",
    "files open": "",
    "threads": "",
    "files of the result": "",
    "result": "MB",
}


def look(process: psutil.Process, folder: Path) -> dict[str, float]:
    """Return the resources that the job uses now, and the size of its result; the keys are those of `COLUMNS`."""
    memory = process.memory_full_info()
    files = [path.stat() for path in folder.rglob("*") if path.is_file()]
    return {
        "resident": memory.rss / 1e6,
        "private": memory.uss / 1e6,
        "files open": float(process.num_fds()),
        "threads": float(process.num_threads()),
        "files of the result": float(len(files)),
        "result": sum(file.st_blocks * 512 for file in files) / 1e6,
    }


def looks(seconds: float, budget: float, folder: Path) -> Iterator[dict[str, float]]:
    """Run a job and yield its measurements one by one; the key `time` has the seconds since the start of the job."""
    options = {"start": True, "analyse": "off", "quiet": True, "overhead_budget": budget, "output_path": str(folder)}
    environment = {**os.environ, "MS_PROFILER_OPTIONS": json.dumps(options)}
    command = [sys.executable, "-c", LOOP, str(seconds)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as job:
        assert job.stdout is not None
        printed: list[float] = []
        lines = job.stdout
        reader = threading.Thread(target=lambda: printed.extend(float(line) for line in lines), daemon=True)
        reader.start()
        process, began = psutil.Process(job.pid), time.monotonic()
        while job.poll() is None:
            time.sleep(EVERY)
            try:
                seen = look(process, folder)
            except (psutil.Error, FileNotFoundError):
                continue
            if printed:
                yield {"time": time.monotonic() - began, "step": statistics.median(printed) * 1e6, **seen}
                printed.clear()
    if job.returncode:
        raise SystemExit(f"the job ended with {job.returncode}")


def main() -> None:
    minutes = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0
    budget = float(sys.argv[2]) if len(sys.argv) > 2 else 0.05
    print(pairs.machine())
    with tempfile.TemporaryDirectory() as parent:
        seen = list(looks(minutes * 60, budget, Path(parent)))
    print("  ".join(f"{f'{name} {unit}'.strip():>19}" for name, unit in {"time": "s", **COLUMNS}.items()))
    for row in range(ROWS):
        part = seen[len(seen) * row // ROWS : len(seen) * (row + 1) // ROWS]
        if part:
            values = [statistics.median(each[name] for each in part) for name in ("time", *COLUMNS)]
            print("  ".join(f"{value:19,.1f}" for value in values))
    middle, last = seen[len(seen) // 3 : 2 * len(seen) // 3], seen[2 * len(seen) // 3 :]
    for name in COLUMNS:
        before, after = (statistics.median(each[name] for each in part) for part in (middle, last))
        print(f"{name}: last third against the second x{after / before if before else 1:.3f}")


if __name__ == "__main__":
    main()
