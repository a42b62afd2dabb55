"""Measure the cost of assigning backward passes to modules, in the job and in the analysis.

To find the modules of backward work, ms-profiler reads autograd's graph in three of the 300 steps of a job. The program
alternates two whole jobs, each in a process of its own: one reads the graph, the other does not. It then compares two
analyses of a job that reads the graph: the usual one, and one that assigns no backward work to modules. Both analyses
make the tables and lanes of modules.

usage: ownership.py [mindspore|torch] [ROUNDS]
"""

import glob
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import pairs
import training

STEPS = 300
KINDS = ("mindspore", "torch")


def torch_step() -> Callable[[], Any]:
    import torch
    from torch import nn

    torch.set_num_threads(1)
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batch = torch.randn(8, 16, 32)

    def step() -> None:
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()

    return step


def mindspore_step() -> Callable[[], Any]:
    def forever() -> Any:
        epoch, _ = training.epoch_of("pynative")
        while True:
            yield from epoch()

    return forever().__next__


def job(kind: str, folder: str, reads: bool) -> None:
    """Train; print the seconds of the loop, and the mean extra seconds of a step in which autograd's graph is read."""
    from ms_profiler.job.frameworks import autograd

    looked = [autograd.FIRST, autograd.FIRST * autograd.FACTOR, autograd.FIRST * autograd.FACTOR**2]
    if not reads:
        autograd.FIRST = 10**9
    training.profiled(kind, output_path=folder, overhead_budget=1.0)
    step = {"mindspore": mindspore_step, "torch": torch_step}[kind]()
    step()
    times = []
    for _ in range(STEPS):
        before = time.perf_counter()
        step()
        times.append(time.perf_counter() - before)
    more = sum(times[at - 1] - statistics.median(times[at : at + 6]) for at in looked[1:])
    print(sum(times), more / len(looked[1:]))


def analysed(folder: str, binds: bool) -> float:
    """Analyse a result; return the processor seconds. If `binds` is false, no backward work is assigned to modules."""
    import polars as pl
    from ms_profiler.analysis.driver import engine
    from ms_profiler.analysis.metrics import backward_operators, node_owners, passes

    if not binds:
        times = pl.Schema({"place": pl.UInt32, "after": pl.Int64, "before": pl.Int64})
        for name, schema in (("owned", times), ("by_nodes", node_owners.OWNED), ("trailing", node_owners.TRAILING)):
            setattr(passes.Passes, name, lambda *_, schema=schema: pl.DataFrame(schema=schema))
        backward_operators.nodes = lambda *_: pl.DataFrame(schema=backward_operators.NODES)
    before = time.process_time()
    engine.analyse([folder])
    return time.process_time() - before


def apart(*arguments: str) -> list[float]:
    """Run this file in a separate process, and return the numbers that it prints."""
    command = [sys.executable, os.path.abspath(__file__), *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return [float(text) for text in done.stdout.splitlines()[-1].split()]


def compare(kind: str, rounds: int) -> None:
    with tempfile.TemporaryDirectory(prefix="ms_profiler_ownership_") as parent:
        more: list[float] = []

        def run(reads: str) -> float:
            folder = os.path.join(parent, reads)
            shutil.rmtree(folder, ignore_errors=True)
            loop, longer = apart("job", kind, folder, reads)
            if reads == "reads":
                more.append(longer)
            return loop

        ratio, same, _ = pairs.compare(lambda: run("skips"), lambda: run("reads"), rounds)
        extra = f"a step in which the graph is read takes {statistics.median(more) * 1e3:+.2f} ms"
        pairs.report(f"{kind}, loop of {STEPS} steps that reads autograd's graph", ratio, same, extra)
        (result,) = glob.glob(os.path.join(parent, "reads", "*_ascend_ms"))
        bare = [0.0]

        def analyse(binds: str) -> float:
            (took,) = apart("analysis", result, binds)
            bare[0] = took if binds == "bare" else bare[0]
            return took

        ratio, same, _ = pairs.compare(lambda: analyse("bare"), lambda: analyse("binds"), rounds)
        pairs.report(f"{kind}, its analysis, that binds", ratio, same, f"{bare[0]:.2f} s of a processor without")


def main() -> None:
    if sys.argv[1:2] == ["job"]:
        job(sys.argv[2], sys.argv[3], sys.argv[4] == "reads")
        return
    if sys.argv[1:2] == ["analysis"]:
        print(analysed(sys.argv[2], sys.argv[3] == "binds"))
        return
    chosen = [name for name in KINDS if name in sys.argv[1:]] or KINDS
    rounds = next((int(text) for text in sys.argv[1:] if text.isdigit()), 7)
    print(pairs.machine())
    for kind in chosen:
        compare(kind, rounds)


if __name__ == "__main__":
    main()
