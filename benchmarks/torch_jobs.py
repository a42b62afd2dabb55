"""Measure the cost of profiling whole PyTorch jobs beside that of Kineto: in the loop, and until all files exist.

Each job runs in a process of its own. Four ways to run it alternate: without a profiler; with ms-profiler and its
default options; with ms-profiler and `overhead_budget` 0, so that all operators are recorded; and with `torch.profiler`
around the loop, with its usual export. The job `gpu` trains on a GPU, and its kernels are recorded, too. It runs only
on request.

With the argument `memory`, both profilers also record allocations of memory; both have an option `profile_memory`.

usage: torch_jobs.py [mlp|transformer|gpu] [ROUNDS] [memory]
"""

import glob
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

import pairs

STEPS = {"mlp": 400, "transformer": 200, "gpu": 400}
PROCESSOR = ("mlp", "transformer")
WARM = 5


class Took(NamedTuple):
    """Times of a job in seconds, and the number of recorded kernels.

    Attributes:
        loop: seconds of the training loop.
        after: seconds from the end of the loop to the end of Kineto's export; about 0 without Kineto.
        whole: seconds of the whole process.
        kernels: number of kernels on a GPU in ms-profiler's recording; 0 without a recording.
    """

    loop: float
    after: float
    whole: float
    kernels: int


def batches(kind: str) -> object:
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    count = STEPS[kind] + WARM
    if kind != "transformer":
        return [torch.randn(8, 32).to("cuda" if kind == "gpu" else "cpu")] * count
    return DataLoader(TensorDataset(torch.randn(8 * count, 16, 32)), batch_size=8, num_workers=2)


def job(kind: str, kineto: bool, memory: bool) -> None:
    """Train; print the seconds of the loop, and the seconds that Kineto takes to stop and to export."""
    import torch
    from torch import nn

    torch.set_num_threads(1)
    activities = [torch.profiler.ProfilerActivity.CPU]
    model: nn.Module = nn.Sequential(*(nn.Linear(32, 32) for _ in range(20)))
    if kind == "transformer":
        model = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), 2)
    elif kind == "gpu":
        activities.append(torch.profiler.ProfilerActivity.CUDA)
        model.cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    profiler = torch.profiler.profile(activities=activities, profile_memory=memory)
    finish = torch.cuda.synchronize if kind == "gpu" else lambda: None
    begun = 0.0
    for number, batch in enumerate(batches(kind)):  # type: ignore[arg-type]
        if number == WARM:
            finish()
            begun = time.perf_counter()
            if kineto:
                profiler.start()
        optimizer.zero_grad()
        model(batch[0] if isinstance(batch, list) else batch).sum().backward()
        optimizer.step()
    finish()
    trained = time.perf_counter()
    if kineto:
        profiler.stop()
        profiler.export_chrome_trace("trace.json")
    print(json.dumps([trained - begun, time.perf_counter() - trained]))


def kernels(directory: str) -> int:
    """Return the number of kernels in ms-profiler's recording below a directory."""
    (summary,) = glob.glob(os.path.join(directory, "**", "summary.json"), recursive=True)
    with open(summary) as file:
        return int(json.load(file)["kernels"]["count"])


def driver() -> str:
    """Return the names of the GPU, the driver and CUDA."""
    import torch

    asked = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    found = subprocess.run(asked, check=True, capture_output=True, text=True).stdout.splitlines()[0]
    return f"{found}, CUDA {torch.version.cuda}"


def measure(kind: str, way: str, memory: bool) -> Took:
    """Run one job in a new process and return its times; with `memory`, a profiler also records allocations."""
    environment = {key: value for key, value in os.environ.items() if key != "MS_PROFILER_OPTIONS"}
    by_way: dict[str, dict[str, object]] = {"ours": {}, "ours, no budget": {"overhead_budget": 0}}
    options = by_way.get(way)
    with tempfile.TemporaryDirectory() as directory:
        if options is not None:
            options |= {"start": True, "quiet": True, "profile_memory": memory}
            environment["MS_PROFILER_OPTIONS"] = json.dumps(options)
        start = time.perf_counter()
        done = subprocess.run(
            [sys.executable, os.path.abspath(__file__), "job", kind, way, "memory" if memory else ""],
            cwd=directory,
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        )
        whole = time.perf_counter() - start
        recorded = kernels(directory) if kind == "gpu" and options is not None else 0
    loop, after = json.loads(done.stdout.splitlines()[-1])
    return Took(loop, after, whole, recorded)


def main() -> None:
    if sys.argv[1:2] == ["job"]:
        job(sys.argv[2], sys.argv[3] == "Kineto", sys.argv[4] == "memory")
        return
    kinds = sys.argv[1:2] or PROCESSOR
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 9
    memory = sys.argv[3:4] == ["memory"]
    print(pairs.machine())
    ways = ("bare", "ours", "ours, no budget", "Kineto", "again")
    for kind in kinds:
        times: dict[str, list[Took]] = {way: [] for way in ways}
        for index in range(rounds + 1):
            for way in ways if index % 2 else reversed(ways):
                found = measure(kind, way, memory)
                if index:  # the first round does not count: it warms caches up
                    times[way].append(found)
        bare = times["bare"]

        def against(way: str, part: int, bare: list[Took] = bare) -> list[float]:
            return [a[part] - b[part] for a, b in zip(times[way], bare, strict=True)]  # noqa: B023 - used at once

        loops = {way: statistics.median(a.loop / b.loop for a, b in zip(times[way], bare, strict=True)) for way in ways}
        ends = [took.after for took in times["Kineto"]]
        for way in ("ours", "ours, no budget"):
            loop = statistics.median(a / k for a, k in zip(against(way, 0), against("Kineto", 0), strict=True))
            whole = statistics.median(a / end for a, end in zip(against(way, 2), ends, strict=True))
            added = statistics.median(against(way, 2))
            pairs.report(
                f"{kind}: {way}",
                loops[way],
                loops["again"],
                f"loop {loop:.2f} of Kineto's extra time (x{loops['Kineto']:.2f}); process +{added:.2f} s, "
                f"{whole:.2f} of Kineto's stop and export ({statistics.median(ends):.2f} s)",
            )
        if kind == "gpu":
            rate = statistics.median(took.kernels / took.loop for took in times["ours, no budget"])
            print(f"gpu: {rate:.0f} kernels a second, {driver()}")


if __name__ == "__main__":
    main()
