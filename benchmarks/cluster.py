"""Measure how `ms-profiler cluster` compares the ranks of jobs that are made of two real results, with known answers.

usage: cluster.py files RESULTS [RANKS [STEPS [ROUNDS]]]   time, alternating with `msprof-analyze cluster -m all`
       cluster.py scale RESULTS [SEEDS [RANKS...]]         time, memory and names for numbers of ranks
       cluster.py traces TRACE.json.gz [TIMES [RANKS...]]  memory of all processes for traces of PyTorch

RESULTS holds `rank0_ascend_pt` and `rank1_ascend_pt`, two real results from Ascend. For `scale`, a tenth of the ranks
computes for three times as long, one link takes four times as long, and one rank of a hundred has no result. The
measured time is that of the command `ms-profiler cluster`, including its files, but without the time to make the ranks.
For `traces`, each rank's file contains the trace TIMES times, one copy after the other. The memory is the sum over all
processes. Memory that processes share counts in each of them.
"""

import gzip
import json
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

import psutil
from made_ranks import make

TOOLS = Path(sys.prefix) / "tools" / "bin"
OURS = Path(sys.executable).parent / "ms-profiler"
STEPS = 10


def took(command: list[Any]) -> tuple[float, str]:
    """Run a command; return its wall time in seconds and its output."""
    begun = time.perf_counter()
    done = subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True)
    return time.perf_counter() - begun, done.stdout


def files(results: Path, ranks: int = 64, steps: int = 40, rounds: int = 5) -> None:
    """Print the median seconds of `ms-profiler cluster` and `msprof-analyze` for one job, and the median ratio."""
    with tempfile.TemporaryDirectory() as folder:
        job, ours, theirs = (Path(folder) / name for name in ("job", "ours", "theirs"))
        make(results, job, ranks, steps)
        commands = {
            "ms-profiler": [OURS, "cluster", job, "--output", ours],
            "msprof-analyze": [TOOLS / "msprof-analyze", "cluster", "-d", job, "-m", "all", "-o", theirs],
        }
        times: dict[str, list[float]] = {name: [] for name in commands}
        for number in range(rounds):
            for name in sorted(commands, reverse=bool(number % 2)):
                times[name].append(took(commands[name])[0])
        ratios = [mine / other for mine, other in zip(*times.values(), strict=True)]
        medians = ", ".join(f"{name} {statistics.median(each):.2f} s" for name, each in times.items())
        print(f"{ranks} ranks of {steps} steps: {medians}, ratio {statistics.median(ratios):.3f}")


def scale(results: Path, seeds: int = 3, sizes: tuple[int, ...] = (8, 128, 1024)) -> None:
    """Print time, peak memory, and how many of the named ranks and links are right, for jobs of several sizes."""
    times: dict[int, list[float]] = {size: [] for size in sizes}
    for seed in range(seeds):
        for size in sizes:
            chosen = random.Random(seed * 10_000 + size)
            slow = set(chosen.sample(range(size), max(size // 10, 1)))
            missing = set(chosen.sample(sorted(set(range(size)) - slow), size // 100))
            source = chosen.choice(sorted(set(range(8, size)) - missing) or [5])
            # each rank is a copy of one of two real ranks, and has no link to the rank of which it is a copy
            link = source, chosen.choice(sorted(set(range(8)) - missing - {source % 2}))
            with tempfile.TemporaryDirectory() as folder:
                make(results, Path(folder) / "job", size, STEPS, slow=slow, factor=3, missing=missing, link=link)
                seconds, out = took([OURS, "cluster", Path(folder) / "job", "--json"])
            found = json.loads(out)
            named = {late["rank"] for late in found["late"]}
            times[size].append(seconds)
            memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
            wrong = len(named - slow)
            print(
                f"seed {seed}, {size} ranks, {len(missing)} missing: {seconds:.2f} s, at most {memory:.0f} MB so far, "
                f"recall {len(named & slow) / len(slow):.3f}, {wrong} false names, "
                f"links {[(each['source'], each['target']) for each in found['slow_links']] == [link]}, "
                f"{sum(late['cause'] == 'computing' for late in found['late'])} of {len(named)} with the right cause",
                flush=True,
            )
    for size, each in times.items():
        print(f"{size} ranks: {statistics.median(each):.2f} s")
    if {128, 1024} <= set(sizes):
        print(f"time(1024) / time(128): {statistics.median(times[1024]) / statistics.median(times[128]):.2f}")


def repeated(trace: dict[str, Any], times: int) -> list[dict[str, Any]]:
    """Return the events of a trace, repeated `times` times; the copies follow one another, with ids of their own."""
    events = trace["traceEvents"]
    stamps = [float(event["ts"]) for event in events if event.get("ph") == "X"]
    length = max(stamps) - min(stamps) + 1e6
    found = list(events)
    for number in range(1, times):
        for event in events:
            if event.get("ph") == "M" or "ts" not in event:
                continue
            copied = {**event, "ts": float(event["ts"]) + number * length}
            if "id" in copied:
                copied["id"] = f"{copied['id']}.{number}"
            arguments = dict(event.get("args") or {})
            for key in ("correlation", "External id"):
                if isinstance(arguments.get(key), int):
                    arguments[key] += number * 10_000_000
            found.append({**copied, "args": arguments})
    return found


def traces(source: Path, times: int = 1, sizes: tuple[int, ...] = (4, 8, 16)) -> None:
    """Print the time and the peak memory to compare ranks from PyTorch traces, for several numbers of ranks."""
    with gzip.open(source, "rt") as stream:
        trace = json.load(stream)
    trace["traceEvents"] = repeated(trace, times)
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            total = 0
            for rank in range(size):
                info = {**trace.get("distributedInfo", {}), "rank": rank, "world_size": size}
                path = Path(folder) / f"rank{rank:04d}.pt.trace.json"
                path.write_text(json.dumps({**trace, "distributedInfo": info}))
                total += path.stat().st_size
            began = time.perf_counter()
            with subprocess.Popen(
                [OURS, "cluster", folder, "--no-files", "--json"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
            ) as running:
                own, most = watched(running)
            seconds = time.perf_counter() - began
            assert running.returncode == 0
            print(
                f"{size} traces, {total / 1e6:.0f} MB: {seconds:.1f} s, coordinator {own / 1e6:.0f} MB, "
                f"all processes {most / 1e6:.0f} MB",
                flush=True,
            )


def watched(running: "subprocess.Popen[bytes]") -> tuple[int, int]:
    """Return the peak memory in bytes of a running process alone, and of the process together with its children."""
    known, own, most = psutil.Process(running.pid), 0, 0
    while running.poll() is None:
        sizes = []
        for process in [known, *known.children(recursive=True)]:
            try:
                sizes.append(process.memory_info().rss)
            except psutil.NoSuchProcess:
                sizes.append(0)
        own, most = max(own, sizes[0]), max(most, sum(sizes))
        time.sleep(0.05)
    return own, most


if __name__ == "__main__":
    kind, place, *numbers = sys.argv[1:]
    values = [int(word) for word in numbers]
    if kind == "files":
        files(Path(place), *values)
    elif kind == "traces":
        traces(Path(place), *values[:1], **({"sizes": tuple(values[1:])} if values[1:] else {}))
    else:
        scale(Path(place), *values[:1], **({"sizes": tuple(values[1:])} if values[1:] else {}))
