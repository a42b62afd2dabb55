"""Kernels of a GPU in an unchanged job: recorded beside PyTorch's operators, and found where they were launched.

The GPU is made up: libraries under the vendor's names, with the vendor's contract and no device.
"""

import csv
import importlib.util
import json
from collections import Counter

import pytest
from conftest import PROGRAMS
from fakes_built import fakes  # noqa: F401

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs PyTorch")

PROGRAM = PROGRAMS / "device_job.py"
NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
#: what a step launches: name, stream, microseconds
STEP = [
    ("gemm(float*, int)", "7", "100.000"),
    ("relu_kernel", "7", "50.000"),
    ("gemm_backward", "7", "70.000"),
    (NCCL, "20", "120.000"),
]


@pytest.fixture
def device_job(job, fakes, tmp_path):  # noqa: F811
    """Return a function that runs the program in a mode with the fakes; it has `log`, the calls of CUPTI."""

    def run(mode, *arguments, words="", **extra):
        log = tmp_path / "log"
        env = {
            "LD_LIBRARY_PATH": str(fakes),
            "MS_PROFILER_LIBCUPTI": str(fakes / "libcupti.so.12"),
            "FAKE_CUPTI": words,
            "FAKE_CUPTI_LOG": str(log),
            "MS_PROFILER_RAISE": "1",
        }
        finished = job(PROGRAM, mode, *map(str, arguments), env=env | extra.pop("env", {}), **extra)
        finished.log = [line.split()[1] for line in log.read_text().splitlines()] if log.exists() else []
        return finished

    return run


def rows(result, name):
    """Return the rows of a table."""
    with open(result / "ASCEND_PROFILER_OUTPUT" / f"{name}.csv", newline="") as stream:
        return list(csv.DictReader(stream))


def kernels(result):
    """Return the kernels as (step, name, stream, microseconds), and check what they have in common."""
    found = rows(result, "kernel_details")
    assert {row["Accelerator Core"] for row in found} == {"GPU"}
    return [(row["Step ID"], row["Name"], row["Stream ID"], row["Duration(us)"]) for row in found]


def of_steps(steps):
    """Return what some steps launch, in the order of the table."""
    launched = [(str(step), *kernel) for step in steps for kernel in STEP]
    return sorted(launched, key=lambda kernel: (int(kernel[2]), int(kernel[0])))


def test_kernels_are_in_the_tables(device_job):
    run = device_job("plain", 3)
    assert run.code == 0, run.err
    assert kernels(run.result) == of_steps(range(3))
    for row in rows(run.result, "step_trace_time"):
        assert (row["Computing"], row["Communication"], row["Overlapped"]) == ("220.000", "120.000", "10.000")
        assert row["Communication(Not Overlapped)"] == "110.000"
    assert run.summary["not_collected"] == [
        entry for entry in run.summary["not_collected"] if "GPU" not in entry["what"]
    ]


def test_a_job_without_a_gpu_touches_nothing(device_job):
    run = device_job("unused", 2)
    assert run.code == 0, run.err
    assert run.log == []
    assert {row["Accelerator Core"] for row in rows(run.result, "kernel_details")} == {"HOST_CPU"}
    assert not [line for line in run.lines if "GPU" in line]


def test_events_of_the_timeline(device_job):
    run = device_job("plain", 2)
    events = json.loads((run.result / "ASCEND_PROFILER_OUTPUT" / "trace_view.json").read_text())
    lanes = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    shown = [event for event in events if event["ph"] == "X" and lanes.get(event["pid"]) == "GPU"]
    assert Counter((event["tid"], event["name"]) for event in shown) == Counter(
        {(int(stream), name): 2 for name, stream, _ in STEP}
    )
