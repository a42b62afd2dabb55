"""Write results of each kind that the readers know, and run the analysis over damaged copies of them."""

import gzip
import json
import random
import shutil
import subprocess
import sys
from pathlib import Path

from ascend_builder import exchanging
from conftest import PROGRAMS, environment
from ms_profiler.analysis.driver import engine
from ms_profiler.gate import baseline, history, made_runs, sides
from ms_profiler.job.control.dynamic_file import DEFAULTS
from ms_profiler.options import OPTIONS
from recorders import TESTS
from store_builder import compiled, write_training
from test_cluster import made


def gpu_events():
    """Yield the events of Kineto's trace of three steps on a GPU."""
    for step in range(3):
        at = 1000 * step

        def span(name, category, start, end, tid=11, at=at, **args):
            place = {"name": name, "cat": category, "ph": "X", "pid": 4242, "tid": tid, "args": args}
            return place | {"ts": at + start, "dur": end - start}

        yield span(f"ProfilerStep#{step}", "user_annotation", 0, 990)
        yield span(
            "nn.Module: Linear_0", "python_function", 5, 400, **{"Python id": step + 1, "Python parent id": None}
        )
        for number in range(8):
            start, link = 10 + 40 * number, 100 * step + number
            yield span("aten::mm", "cpu_op", start, start + 20, **{"External id": link, "Input Dims": [[4, 4], [4, 4]]})
            yield span("cudaLaunchKernel", "cuda_runtime", start + 5, start + 8, correlation=link)
            yield {"ph": "s", "id": link, "pid": 4242, "tid": 11, "ts": at + start + 5, "cat": "ac2g", "name": "ac2g"}
            yield span("gemm", "kernel", start + 30, start + 60, tid=7, stream=7, correlation=link, device=0)
            yield {
                "ph": "f",
                "id": link,
                "pid": 0,
                "tid": 7,
                "ts": at + start + 30,
                "cat": "ac2g",
                "name": "ac2g",
                "bp": "e",
            }
        yield span(
            "ncclDevKernel_AllReduce", "kernel", 500, 600, tid=13, stream=13, **{"Group size": 2, "In msg nelems": 9}
        )
        yield span("Memcpy HtoD", "gpu_memcpy", 700, 750, tid=7, stream=7, bytes=4096)
        memory = {"Addr": 140000, "Bytes": 512, "Device Type": 1, "Device Id": 0, "Total Allocated": 512}
        yield {"ph": "i", "name": "[memory]", "pid": 4242, "tid": 11, "ts": at + 20, "s": "t", "args": memory}
    yield {"ph": "M", "name": "process_name", "pid": 4242, "tid": 0, "args": {"name": "python"}}


def sources(folder):
    """Write a small result of each kind below a folder, and return the path by its kind."""
    trace = {
        "schemaVersion": 1,
        "baseTimeNanoseconds": 1_700_000_000_000_000_000,
        "distributedInfo": {"rank": 1, "world_size": 2, "backend": "nccl", "pg_config": []},
        "deviceProperties": [{"id": 0, "name": "GPU", "totalGlobalMem": 1 << 34, "numSms": 80}],
        "traceEvents": list(gpu_events()),
    }
    content = json.dumps(trace).encode()
    for name in ("store", "text", "database"):
        (folder / name).mkdir()
    plain, packed = folder / "rank1.pt.trace.json", folder / "rank2.pt.trace.json.gz"
    plain.write_bytes(content)
    packed.write_bytes(gzip.compress(content))
    exchanging(folder / "text").text()
    exchanging(folder / "database").database()
    return {
        "store": [
            write_training(folder / "store", steps=6),
            compiled(folder / "store", steps=6, name="c_1_20260101000000123_ascend_ms").write(),
        ],
        "kineto": [plain, packed],
        "ascend": [*(folder / "text").glob("*_ascend_pt"), *(folder / "database").glob("*_ascend_pt")],
    }


def small_files(folder):
    """Write files that the job and the gate read, and whole results; return the paths by the reader's name."""
    chance = random.Random(1)
    steps = [made_runs.durations(made_runs.Noise(0.01), chance)[:20] for _ in range(4)]
    runs = [made_runs.write(str(folder), number, each) for number, each in enumerate(steps)]
    digests = sides.read(runs)
    stored, grown = folder / "baseline.json", folder / "history.jsonl"
    baseline.write(str(stored), baseline.of(digests))
    with open(grown, "w") as stream:
        for number in range(30):
            line = history.entry(digests[number % 4], f"commit {number}") | {"started_ns": number}
            line["figures"]["step time"] *= 1.0 if number < 15 else 1.2
            stream.write(json.dumps(line) + "\n")
    given = {name: option.default for name, option in OPTIONS.items()}
    chosen = {"start": True, "schedule": {"wait": 1, "active": 2}, "max_disk": "2GB", "ranks": "0-3,7", "collect": "/x"}
    (folder / "options.json").write_text(json.dumps(given | chosen))
    (folder / "dynamic.json").write_text(json.dumps(DEFAULTS | {"start_step": 3, "stop_step": 5}))
    engine.analyse([runs[0]])
    made(folder / "ranks", data_ms=11)
    return {
        "baseline": [stored],
        "history": [grown],
        "options": [folder / "options.json"],
        "dynamic": [folder / "dynamic.json"],
        "summary": [Path(runs[0])],
        "ranks": [folder / "ranks"],
    }


def survives(paths, seed, first, count, seconds=20, reader="result", **extra):
    """Run a program that reads damaged copies.

    Args:
        paths: the files or results whose copies are damaged.
        seed: the seed of the random damage.
        first: the number of the first copy.
        count: the number of copies.
        seconds: the seconds that reading one copy may take.
        reader: the name of the reader in `programs/damaged_results.py`.

    Returns:
        The copies whose reading ended in a forbidden way, and the number of copies for each allowed ending.
    """
    words = ["damaged_results.py", reader, seed, first, count, seconds, *paths]
    wrong, ended = _told(words, count * seconds + 60, POLARS_MAX_THREADS="2", **extra)
    assert sum(ended.values()) + len(wrong) >= count
    return wrong, ended


def parses(paths, pattern, folder, parser, seed, first, count):
    """Run a program that parses damaged copies of single files.

    Args:
        paths: the files or results to copy.
        pattern: the files of the copies to damage, as for `Path.glob`.
        folder: the folder that gets the copies.
        parser: the name of the parser in `programs/damaged_parts.py`.
        seed: the seed of the random damage.
        first: the number of the first damage.
        count: the number of damages.

    Returns:
        The damages after which the parser ended in a forbidden way, and the number of damages for each allowed ending.
    """
    for number, path in enumerate(paths):
        target = folder / str(number) / path.name
        target.parent.mkdir()
        (shutil.copytree if path.is_dir() else shutil.copyfile)(path, target)
    words = ["damaged_parts.py", parser, seed, first, count, *sorted(folder.glob(pattern))]
    return _told(words, count + 60, POLARS_MAX_THREADS="1")


def _told(words, seconds, **extra):
    """Run one of the programs, and return the lines about forbidden endings, and its last line about the others."""
    name, *others = words
    done = subprocess.run(
        [sys.executable, str(PROGRAMS / name), *map(str, others)],
        env=environment(PYTHONPATH=str(TESTS), **extra),
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    *wrong, ended = [json.loads(line) for line in done.stdout.splitlines()] or [None]
    assert done.returncode == 0, (done.returncode, wrong, done.stderr[-2000:])
    return wrong, ended
