"""Measure what recording costs a loop of short kernels on an NVIDIA GPU, and which part of it CUPTI takes.

Each way runs in a process of its own, and the ways alternate: without a profiler, with the default options, with all
steps recorded, with the GPU's records alone, with all calls of the driver and the runtime beside them, with CUPTI
attached but switched off after the first step, and with PyTorch's own profiler. Only the loop is timed. Each figure is
printed as soon as it is known.

usage: torch_gpu.py [STEPS] [ROUNDS]
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import pairs

WARM = 100
ALONE: dict[str, object] = {"overhead_budget": 0, "activities": ["GPU"]}
#: way -> options of ms-profiler; None without it
WAYS: dict[str, dict[str, object] | None] = {
    "bare": None,
    "default options": {},
    "all steps": {"overhead_budget": 0},
    "the GPU alone": ALONE,
    "the GPU and all calls": ALONE | {"profiler_level": "Level1"},
    "CUPTI attached, but off": ALONE | {"schedule": {"wait": 0, "active": 1, "repeat": 1}},
    "Kineto": None,
    "again": None,
}


def job(steps: int, kineto: bool) -> None:
    """Train a model of small layers on the GPU, and print the time of a step in us."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Linear(64, 64) for _ in range(8))).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data = torch.randn(8, 64, device="cuda")

    def train(count: int) -> None:
        for _ in range(count):
            optimizer.zero_grad()
            model(data).sum().backward()
            optimizer.step()
        torch.cuda.synchronize()

    train(WARM)
    if kineto:
        torch.profiler.profile().start()
    begun = time.perf_counter()
    train(steps)
    print((time.perf_counter() - begun) / steps * 1e6, flush=True)
    if kineto:
        os._exit(0)  # the profiler's export is not measured


def measure(way: str, steps: int) -> float:
    """Run the job in one way in a new process, and return the time of a step in us."""
    environment = {key: value for key, value in os.environ.items() if key != "MS_PROFILER_OPTIONS"}
    options = WAYS[way]
    with tempfile.TemporaryDirectory() as directory:
        if options is not None:
            environment["MS_PROFILER_OPTIONS"] = json.dumps(
                {"start": True, "quiet": True, "analyse": "off", "output_path": directory, **options}
            )
        command = [sys.executable, os.path.abspath(__file__), "job", str(steps), way]
        done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return float(done.stdout.split()[-1])


def main() -> None:
    if sys.argv[1:2] == ["job"]:
        job(int(sys.argv[2]), sys.argv[3] == "Kineto")
        return
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 1500
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    print(pairs.machine())
    times: dict[str, list[float]] = {way: [] for way in WAYS}
    for index in range(rounds):
        for way in list(WAYS)[:: 1 if index % 2 else -1]:
            times[way].append(measure(way, steps))
            print(f"{way}: {times[way][-1]:.0f} us a step", flush=True)
    ratios = {
        way: statistics.median(a / b for a, b in zip(own, times["bare"], strict=True)) for way, own in times.items()
    }
    for way in list(WAYS)[1:-1]:
        pairs.report(way, ratios[way], ratios["again"])


if __name__ == "__main__":
    main()
