"""Measure what the C extension saves in the analysis, beside Polars, and in a job, beside the Python recorder.

`columns` analyses each recording alternately with the extension and without it, and sums up the time of each kind of
work on columns. There are three cases: a recording of the host that is held in memory, the same recording read in
sections, and a made-up recording of a GPU. `recorder` runs a job that trains 20 linear layers with PyTorch: profiled
with the native recorder, profiled with the Python recorder, and not profiled. All times are processor times, because
other programs on the machine change them little.

usage: fallbacks.py [columns|recorder]
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile

import analysis
import device_analysis
import pairs

#: number of records in a recording
EVENTS = 100_000
ROUNDS = 3
STEPS = 400

#: program that prints the processor seconds of the whole analysis, and of each function that works on columns
ANALYSE = """
import json, sys, time
if sys.argv[2] == "plain":
    sys.modules["ms_profiler.analysis.columns.native"] = None
from ms_profiler.analysis.columns import COLUMNS
from ms_profiler.analysis.driver import engine
from ms_profiler.analysis.readers import store
if sys.argv[3] == "sections":
    store.MOST_SLOTS = 1
assert COLUMNS.kind == sys.argv[2]
seconds = {}
def timed(name, method):
    def call(*args, **kwargs):
        start = time.process_time()
        try:
            return method(*args, **kwargs)
        finally:
            seconds[name] = seconds.get(name, 0.0) + time.process_time() - start
    return call
for name in dir(type(COLUMNS)):
    if not name.startswith("_") and name != "kind":
        setattr(COLUMNS, name, timed(name, getattr(COLUMNS, name)))
start = time.process_time()
engine.analyse([sys.argv[1]])
print(json.dumps({"whole analysis": time.process_time() - start, **seconds}))
"""

#: program that prints the median processor seconds of a training step
TRAIN = """
import statistics, sys, time
if sys.argv[1] == "python":
    sys.modules["ms_profiler._native"] = None
import torch
from torch import nn
torch.set_num_threads(1)
model = nn.Sequential(*(nn.Linear(32, 32) for _ in range(20)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
batch, times = torch.randn(8, 32), []
for _ in range(int(sys.argv[2])):
    start = time.thread_time()
    optimizer.zero_grad()
    model(batch).sum().backward()
    optimizer.step()
    times.append(time.thread_time() - start)
print(statistics.median(times))
"""


def columns() -> None:
    """Print the cost of each kind of work on columns, with the extension and without it, for each recording."""
    with tempfile.TemporaryDirectory(prefix="ms_profiler_columns_") as parent:
        for name, generate in (("host", analysis.generate), ("gpu", device_analysis.generate)):
            folder = os.path.join(parent, name, "host_1_20260101000000000_ascend_ms")
            count = generate(folder, EVENTS)
            for way in ("held", "sections") if name == "host" else ("held",):
                compare(folder, count, way)


def compare(folder: str, count: int, way: str) -> None:
    """Print the cost of each kind of work on the columns of one recording, with the extension and without it.

    Args:
        folder: the recording.
        count: number of its records.
        way: "held" if the analysis holds the recording in memory, "sections" if it reads it in sections.
    """
    found: dict[str, list[dict[str, float]]] = {"native": [], "plain": []}
    for _ in range(ROUNDS):
        for kind, results in found.items():
            results.append(json.loads(printed(ANALYSE, folder, kind, way)))
    print(f"{count} records, {os.path.basename(os.path.dirname(folder))}, {way}")
    for name in found["native"][0]:
        ours, theirs = ([result.get(name, 0.0) for result in found[kind]] for kind in ("native", "plain"))
        if not all(ours):
            continue  # no ratio: the time is below the clock's resolution
        ratio = statistics.median(b / a for a, b in zip(ours, theirs, strict=True))
        again = statistics.median(a / b for a, b in zip(ours[1:], ours, strict=False))
        each = [statistics.median(times) / count * 1e9 for times in (ours, theirs)]
        pairs.report(name, ratio, again, f"{each[0]:.0f} ns a record, {each[1]:.0f} without the extension")


def recorder() -> None:
    """Print the processor time that each recorder adds to a step of a job that records all operators."""
    times: dict[str, list[float]] = {"off": [], "native": [], "python": []}
    for _ in range(ROUNDS):
        for kind, found in times.items():
            with tempfile.TemporaryDirectory(prefix="ms_profiler_recorder_") as folder:
                options = {"start": True, "output_path": folder, "overhead_budget": 0, "analyse": "off", "quiet": True}
                environ = {} if kind == "off" else {"MS_PROFILER_OPTIONS": json.dumps(options)}
                found.append(float(printed(TRAIN, kind, str(STEPS), **environ)))
    again = statistics.median(a / b for a, b in zip(times["off"][1:], times["off"], strict=False))
    for kind in ("native", "python"):
        ratio = statistics.median(a / b for a, b in zip(times[kind], times["off"], strict=True))
        extra = statistics.median(times[kind]) - statistics.median(times["off"])
        pairs.report(f"a step with the recorder {kind}", ratio, again, f"+{extra * 1e6:.0f} us a step")


def printed(program: str, *arguments: str, **environ: str) -> str:
    """Run a program with extra environment variables, and return the last line that it prints."""
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env={**os.environ, **environ})
    return done.stdout.splitlines()[-1]


def main() -> None:
    print(pairs.machine())
    for part in sys.argv[1:] or ["columns", "recorder"]:
        {"columns": columns, "recorder": recorder}[part]()


if __name__ == "__main__":
    main()
