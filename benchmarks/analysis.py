"""Measure the time and memory to analyse a recording, and compare the time with that of Kineto's export.

The program makes a recording with ms-profiler's own recorder. The recording imitates a training loop with 934 operators
a step in 60 modules. It has the main thread and autograd's thread, spans of data, optimizer and synchronisation, and
counters. Kineto records 400 steps of a real PyTorch loop. The program compares two times per event: that of Kineto's
stop and export, and that of the command `ms-profiler analyse`.

usage: analysis.py [MILLIONS OF EVENTS ...]
"""

import os
import random
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

import pairs

#: numbers of operators and of modules in a step of the recording
OPERATORS, MODULES = 934, 60
#: number of training steps that Kineto records
KINETO_STEPS = 400
ROUNDS = 3


def generate(folder: str, events: int, spread: int = 0) -> int:
    """Record about `events` events and return their number; shorten each span at both ends by up to `spread` ns."""
    from ms_profiler.job.recorder.native import NativeRecorder
    from ms_profiler.store import layout, run_info
    from ms_profiler.store.format import Category, Kind, StepSource

    pid = os.getpid()
    process = layout.process_dir(folder, pid)
    os.makedirs(process)
    recorder = NativeRecorder()
    wall, start = time.time(), recorder.now()
    recorder.open(process)
    randrange = random.Random(1).randrange
    names = [recorder.intern(f"aten::operator_{number % 90}") for number in range(OPERATORS)]
    modules = [recorder.intern(f"Linear layers.{number}") for number in range(MODULES)]
    data, forward, backward, update, sync, source, counter = map(
        recorder.intern, ("next", "forward", "backward", "SGD.step", "item", "script", "host memory")
    )
    half = OPERATORS // 2
    bits = int.from_bytes(struct.pack("<d", 1.5e9), "little")
    first = [
        (Kind.SPAN, Category.DATA, data, 0, 40_000, 0),
        (Kind.SPAN, Category.FORWARD, forward, 40_000, 3_000_000, 0),
    ]
    first.append((Kind.SPAN, Category.MODULE, recorder.intern("Net"), 40_500, 2_999_500, 0))
    for number in range(MODULES):
        begin = 41_000 + number * 49_000
        first.append((Kind.SPAN, Category.MODULE, modules[number], begin, begin + 48_000, 0))
    for number in range(half):  # groups of three nested operators
        begin = 42_000 + number // 3 * 18_900 + number % 3 * 1_500
        first.append((Kind.SPAN, Category.OP, names[number], begin, begin + 14_000 - number % 3 * 3_500, 0))
    first.append((Kind.SPAN, Category.BACKWARD, backward, 3_000_000, 6_000_000, 0))
    first.append((Kind.SPAN, Category.OPTIMIZER, update, 6_000_000, 6_900_000, 0))
    first.append((Kind.SPAN, Category.SYNC, sync, 6_900_000, 6_950_000, 0))
    first.append((Kind.COUNTER, 0, counter, 6_960_000, 6_960_000, bits))
    second = []
    for number in range(half, OPERATORS):
        begin = 3_001_000 + (number - half) // 3 * 18_900 + number % 3 * 1_500
        second.append((Kind.SPAN, Category.OP, names[number], begin, begin + 14_000 - number % 3 * 3_500, 0))
    # the recorder writes the record of a span when the span begins, so an outer span comes before its inner spans
    for table in (first, second):
        table.sort(key=lambda row: (row[3], -row[4]))
    record, length = recorder.record, 7_000_000

    def write(table: list[tuple[int, int, int, int, int, int]], moment: int) -> None:
        for kind, category, name, begin, end, arg in table:
            early, late = (randrange(spread), randrange(spread)) if spread and end > begin else (0, 0)
            record(kind, category, 0, name, moment + begin + early, moment + end - late, arg)

    steps = max(events // (len(first) + len(second) + 1), 1)
    with ThreadPoolExecutor(1) as autograd:
        for step in range(steps):
            write(first, start + step * length)
            if step % 50 == 49 or step == steps - 1:
                since = step // 50 * 50
                autograd.submit(
                    lambda since=since, step=step: [write(second, start + n * length) for n in range(since, step + 1)]
                ).result()
            record(Kind.STEP, StepSource.SCRIPT, 0, source, start + step * length, start + (step + 1) * length, step)
    recorder.close()
    info = run_info.RunInfo(pid=pid, started_wall=wall, started_ns=start, framework={"name": "torch", "device": "CPU"})
    run_info.write(layout.run_info_path(folder), info)
    ended = run_info.ProcessInfo(
        pid=pid, recorder="native", state="ended", end="exit", ended_ns=start + (steps + 1) * length
    )
    run_info.write(os.path.join(process, layout.PROCESS_INFO), ended)
    return steps * (len(first) + len(second) + 1)


def analyse(folder: str) -> tuple[float, float, int]:
    """Analyse a recording; return the command's seconds, its peak memory in MB, and the number of bytes written."""
    output = os.path.join(folder, "ASCEND_PROFILER_OUTPUT")
    shutil.rmtree(output, ignore_errors=True)  # not measured: removing gigabytes takes long
    took, _, peak = pairs.analysed(folder)
    return took, peak, sum(item.stat().st_size for item in os.scandir(output))


def kineto() -> float:
    """Train with Kineto; return the seconds per event that Kineto takes to stop and to export."""
    import torch
    from torch import nn

    torch.set_num_threads(1)
    model = nn.Sequential(*(nn.Linear(32, 32) for _ in range(20)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batch = torch.randn(8, 32)
    with tempfile.TemporaryDirectory() as folder:
        profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
        profiler.start()
        for _ in range(KINETO_STEPS):
            optimizer.zero_grad()
            model(batch).sum().backward()
            optimizer.step()
        start = time.perf_counter()
        profiler.stop()
        profiler.export_chrome_trace(os.path.join(folder, "trace.json"))
        took = time.perf_counter() - start
        count = len(profiler.profiler.kineto_results.events())
    return took / count


def apart(*arguments: str) -> float:
    """Run this file in a separate process, and return the number that it prints.

    A child's peak memory includes that of its parent, so this process must stay small.
    """
    command = [sys.executable, os.path.abspath(__file__), *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(done.stdout.splitlines()[-1])


def main() -> None:
    if sys.argv[1:2] == ["generate"]:
        print(generate(sys.argv[2], *map(int, sys.argv[3:])))
        return
    if sys.argv[1:2] == ["kineto"]:
        print(kineto())
        return
    print(pairs.machine())
    for millions in [float(text) for text in sys.argv[1:]] or [1.0, 10.0]:
        with tempfile.TemporaryDirectory(prefix="ms_profiler_analysis_") as parent:
            folder = os.path.join(parent, "host_1_20260101000000000_ascend_ms")
            count = apart("generate", folder, str(int(millions * 1e6)))
            ours, theirs, peaks, size = [], [], [], 0
            for _ in range(ROUNDS):
                theirs.append(apart("kineto"))
                took, peak, size = analyse(folder)
                ours.append(took / count)
                peaks.append(peak)
            again = statistics.median(a / b for a, b in zip(ours[1:], ours, strict=False))
            ratio = statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
            pairs.report(
                f"{count / 1e6:.1f} million events, against Kineto's stop and export",
                ratio,
                again,
                f"{statistics.median(ours) * 1e6:.2f} us an event, Kineto {statistics.median(theirs) * 1e6:.2f}; "
                f"peak {max(peaks):.0f} MB, {size / 2**20:.0f} MB written",
            )


if __name__ == "__main__":
    main()
