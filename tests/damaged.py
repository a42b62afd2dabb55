"""Results of each kind that the readers know, and runs of the analysis over damaged copies of them."""

import gzip
import json
import subprocess
import sys

from ascend_builder import exchanging
from conftest import PROGRAMS, environment
from recorders import TESTS
from store_builder import compiled, write_training


def gpu_events():
    """Yield the events of a trace of three steps on a GPU, in the form of Kineto."""
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
    """Write a small result of each kind below a folder, and return the paths by kind."""
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


def survives(paths, seed, first, count, seconds=20, **extra):
    """Analyse damaged copies; return those that ended otherwise than they may, and how many ended in which way."""
    command = [sys.executable, str(PROGRAMS / "damaged_results.py"), str(seed), str(first), str(count), str(seconds)]
    done = subprocess.run(
        [*command, *map(str, paths)],
        env=environment(PYTHONPATH=str(TESTS), POLARS_MAX_THREADS="2", **extra),
        capture_output=True,
        text=True,
        timeout=count * seconds + 60,
        check=False,
    )
    *wrong, ended = [json.loads(line) for line in done.stdout.splitlines()] or [None]
    assert done.returncode == 0, (done.returncode, wrong, done.stderr[-2000:])
    assert sum(ended.values()) + len(wrong) >= count
    return wrong, ended
