"""Measure the cost of recording PyTorch's operators in a loop of very short operators, beside the cost of Kineto.

Blocks of steps with each recorder alternate in one process. The table has Kineto twice: while it records, and including
the time to stop. When Kineto stops, it processes its records, which adds to the time of the job. ms-profiler has no
such part.

usage: torch_ops.py [ROUNDS]
"""

import json
import os
import statistics
import sys
import tempfile
import time

import pairs

STEPS = 20
#: Number of blocks of each recorder in a round. The blocks are short and alternate, because the speed of a shared
#: machine changes within seconds.
TURNS = 6
LAYERS = 20


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    options = {"start": True, "quiet": True, "analyse": "off", "overhead_budget": 0, "output_path": tempfile.mkdtemp()}
    os.environ["MS_PROFILER_OPTIONS"] = json.dumps(options)
    from ms_profiler.job import bootstrap

    bootstrap.activate()
    import torch
    from ms_profiler.job import collection
    from ms_profiler.job.frameworks.torch import observer, ops
    from ms_profiler.job.frameworks.torch.plugin import CONCERNS

    torch.set_num_threads(1)
    current = collection.current()
    (plugin,) = current.hooks.plugins
    plugin.undo()
    stream = ops.OpStream(current)
    assert not observer.connect(current.recorder)

    model = torch.nn.Sequential(*(torch.nn.Linear(32, 32) for _ in range(LAYERS)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x = torch.randn(8, 32)

    def block() -> list[float]:
        """Run a block and return its step times in seconds."""
        times = []
        before = time.perf_counter()
        for _ in range(STEPS):
            optimizer.zero_grad()
            model(x).sum().backward()
            optimizer.step()
            now = time.perf_counter()
            times.append(now - before)
            before = now
        return times

    def recorder() -> list[float]:
        stream.start()
        try:
            return block()
        finally:
            stream.stop()

    def hook() -> list[float]:
        current.recorder.pause(True)
        try:
            return recorder()
        finally:
            current.recorder.pause(False)

    def everything() -> list[float]:
        for concern in CONCERNS:
            if concern is not ops.targets:
                plugin.add(current, concern)
        try:
            return recorder()
        finally:
            plugin.undo()

    stops: list[float] = []

    def kineto() -> list[float]:
        kept = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
        kept.start()
        steps = block()
        begun = time.perf_counter()
        kept.stop()
        stops.append((time.perf_counter() - begun) / STEPS)
        return steps

    ways = {
        "PyTorch's hook, nothing recorded": hook,
        "operators recorded": recorder,
        "everything recorded": everything,
        "Kineto": kineto,
    }
    for way in (block, *ways.values()):
        way()
    stops.clear()
    times: dict[str, list[float]] = {name: [] for name in ("bare", "again", *ways)}
    stopped = []
    for _ in range(rounds):
        steps: dict[str, list[float]] = {name: [] for name in times}
        for index in range(TURNS):
            turn = [("bare", block), *ways.items(), ("again", block)]
            for name, way in turn if index % 2 else reversed(turn):
                steps[name] += way()
        for name, each in steps.items():
            # the median, because other programs take the processor for a few of the steps
            times[name].append(statistics.median(each))
        stopped.append(times["Kineto"][-1] + statistics.median(stops))
        stops.clear()
    before = current.recorder.stats().records
    recorder()
    count = (current.recorder.stats().records - before) / STEPS
    print(f"{pairs.machine()}, torch {torch.__version__}")
    bare = times["bare"]
    whole = "Kineto, stopped"
    times[whole] = stopped
    same = statistics.median(again / first for again, first in zip(times["again"], bare, strict=True))
    print(f"{count:.0f} operators a step of {statistics.median(bare) * 1e3:.2f} ms, {rounds} rounds")
    added = {name: [b - a for a, b in zip(bare, times[name], strict=True)] for name in (*ways, whole)}
    for name in added:
        ratio = statistics.median(b / a for a, b in zip(bare, times[name], strict=True))
        shares = [
            statistics.median(a / k for a, k in zip(added[name], added[other], strict=True))
            for other in ("Kineto", whole)
        ]
        each = statistics.median(added[name]) / count * 1e9
        extra = f"+{each:.0f} ns an operator, {shares[0]:.2f} of Kineto's, {shares[1]:.2f} with its stop"
        pairs.report(name, ratio, same, extra)


if __name__ == "__main__":
    main()
