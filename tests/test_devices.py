"""ms-profiler records the kernels of a GPU in an unchanged job with PyTorch's operators, and finds their launches.

The GPU is made up: the tests load libraries with the vendor's names and interface, but without a device.
"""

import importlib.util
import json
import signal
import subprocess
import sys
from collections import Counter

import pytest
from conftest import PROGRAMS, environment
from csv_rows import rows
from fakes_built import (
    fakes,  # noqa: F401
    loading,
    runner,
)
from ms_profiler.analysis.metrics import intervals
from ms_profiler.analysis.readers import store

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs PyTorch")

PROGRAM = PROGRAMS / "device_job.py"
NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
#: each launch of a step: name, stream, microseconds
STEP = [
    ("gemm(float*, int)", "7", "100.000"),
    ("relu_kernel", "7", "50.000"),
    ("gemm_backward", "7", "70.000"),
    (NCCL, "20", "120.000"),
]


@pytest.fixture
def device_job(job, fakes, tmp_path):  # noqa: F811
    """Return a function that runs the program in a mode with the fakes; the run's `log` has CUPTI's calls."""
    return runner(job, PROGRAM, fakes, "CUPTI", "libcupti.so.12", tmp_path / "log")


def kernels(result):
    """Return (step, name, stream, microseconds) of each kernel in the table, and check that all ran on a GPU."""
    found = rows(result, "kernel_details")
    assert {row["Accelerator Core"] for row in found} == {"GPU"}
    return [(row["Step ID"], row["Name"], row["Stream ID"], row["Duration(us)"]) for row in found]


def of_steps(steps):
    """Return the launches of some steps in the form and order of `kernels`."""
    launched = [(str(step), *kernel) for step in steps for kernel in STEP]
    return sorted(launched, key=lambda kernel: (int(kernel[2]), int(kernel[0])))


def queried(result, query):
    """Return the rows of a query as dictionaries."""
    command = [sys.executable, "-m", "ms_profiler", "sql", "--format", "json", result, query]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def test_kernels_are_in_the_tables(device_job):
    run = device_job("plain", 3)
    assert run.code == 0, run.err
    assert kernels(run.result) == of_steps(range(3))
    for row in rows(run.result, "step_trace_time"):
        assert (row["Computing"], row["Communication"], row["Overlapped"]) == ("220.000", "120.000", "10.000")
        assert row["Communication(Not Overlapped)"] == "110.000"
    assert ("Enable", "51") not in run.calls
    assert run.summary["not_collected"] == [
        entry for entry in run.summary["not_collected"] if "GPU" not in entry["what"]
    ]


@pytest.mark.parametrize(("count", "budget"), [(200, 0.0005), pytest.param(2500, 0.002, marks=pytest.mark.slow)])
def test_kernels_of_steps_that_are_not_sampled_are_all_there_and_shared_among_modules(device_job, count, budget):
    """Each step launches the same kernels, so the estimate equals the planted times.

    In a long run, hooks rest between bursts of samples. Then not even the passes of a step are known.
    """
    run = device_job("plain", count, options={"overhead_budget": budget})
    assert run.code == 0, run.err
    assert run.summary["sampling"]["sampled"] < count / 2
    assert run.summary["kernels"]["count"] == count * 3, "exchanges are counted apart"
    assert run.summary["device"]["exchanges"] == count
    assert run.summary["not_collected"] == []
    tree = run.summary["module_tree"]
    (block,) = (row for row in tree["rows"] if row["module"] == "Net.block")
    assert block["forward_ms"] == pytest.approx(count * 0.15)
    assert block["backward_ms"] == pytest.approx(count * 0.07)
    assert 0.5 < tree["estimated_share"] < 1 and tree["outside_share"] == pytest.approx(0)
    assert 0 < block["host_self_ms"] == block["host_ms"] < tree["host"]["whole_ms"]
    (named,) = run.summary["kernels"]["by_module"]
    assert (named["name"], named["ratio"], named["scaled"]) == ("Net.block", 1, True)
    assert run.summary["kernels"]["by_part_ms"] == pytest.approx({"forward": count * 0.15, "backward": count * 0.07})
    steps = queried(run.result, "select step, count(*) as n from kernels where name not like 'nccl%' group by step")
    assert {row["n"] for row in steps} == {3} and len(steps) == count


@pytest.mark.slow
def test_a_module_that_launches_more_small_kernels_from_a_step_on_is_named_with_this_step(device_job):
    """The kernels take little time, but launching them takes most of a step. Most steps are not sampled."""
    run = device_job("changing", 6000, options={"overhead_budget": 0.03})
    assert run.code == 0, run.err
    if run.summary["machine"]["queued_share"] > 0.4:
        pytest.skip("other programs take the processors, so the times on the host do not show the change")
    assert 16 < run.summary["sampling"]["sampled"] < 3000
    change = run.summary["work_change"] or run.summary["shift"]
    assert (change["step"], change["earliest"], change["latest"]) == (4000, 4000, 4000)
    (block,) = (module for module in change["modules"] if module["module"] == "Net.block")
    assert change["counted"] == "operators" and block["count_before"] < block["count_after"]
    assert block["after_ms"] > block["before_ms"] + 0.02


def test_a_script_without_a_framework_has_its_kernels(fakes, tmp_path):  # noqa: F811
    env = environment(**loading(fakes, "CUPTI", "libcupti.so.12"), FAKE_CUPTI="new", MS_PROFILER_RAISE="1")
    subprocess.run([sys.executable, PROGRAMS / "driver_only.py", "20"], env=env, cwd=tmp_path, check=True)
    (result,) = (tmp_path / "own").glob("*_ascend_ms")
    assert kernels(result) == [(str(step), "first", "7", "0.500") for step in range(20)]
    calls = queried(result, "select name, count(*) as n from calls group by name")
    assert calls == [{"name": "cuLaunchKernel", "n": 20}]


def test_devices_end_after_a_framework_that_is_imported_later():
    """A framework's queue may still launch work until its own source has ended."""
    program = """
from ms_profiler.job import collection
session = collection.for_script()
import torch
print(*(call.__qualname__ for call in session.sources.end))
"""
    command = [sys.executable, "-c", program]
    ends = subprocess.run(command, env=environment(), check=True, capture_output=True, text=True).stdout.split()
    devices = [place for place, name in enumerate(ends) if name == "DeviceSource.stop"]
    assert devices == list(range(len(ends) - 3, len(ends))) and len(ends) > 6


@pytest.mark.slow
def test_each_cause_of_a_step_has_the_time_that_was_planted(device_job):
    """No cause takes less than its planted time, on a busy machine, too.

    The device's work takes exactly its planted time.
    """
    run = device_job("bound", 4)
    assert run.code == 0, run.err
    found, path = run.summary["bounds"], run.summary["critical_path"]
    steady, total = found["steps"], run.summary["device"]["total"]
    # `bound` ran in three steps of the device, the model in four: the first step begins with the model's kernels
    assert total["computing_ms"] == pytest.approx(3 * (30 + 15) + 4 * 0.22)
    lengths = {step["number"]: step["length_ms"] for step in run.summary["device"]["time"]["steps"]}
    length = sum(lengths[step["number"]] for step in path["steps"])
    spent = {part: share * length / steady for part, share in found["shares"].items()}
    assert spent["computing"] == pytest.approx(45.22, abs=0.01)
    assert spent["copy"] == pytest.approx(10, abs=0.01)
    assert spent["blocked"] >= 19
    assert sum(found["shares"].values()) == pytest.approx(1, abs=1e-4)
    for step in path["steps"]:
        kinds = {kind.removesuffix("_ms"): value for kind, value in step.items() if kind != "number"}
        # the host waits for all work of the device, so that all of it is on the path
        assert kinds["copy"] == pytest.approx(10, abs=0.01)
        assert 45 <= kinds["computing"] <= 45.23
        assert kinds["blocked"] >= 19
        assert kinds["host"] + kinds["launch"] + kinds.get("runnable", 0) >= 9
        assert sum(kinds.values()) == pytest.approx(lengths[step["number"]], abs=0.01)


def test_a_job_without_a_gpu_touches_nothing(device_job):
    run = device_job("unused", 2)
    assert run.code == 0, run.err
    assert run.log == []
    assert {row["Accelerator Core"] for row in rows(run.result, "kernel_details")} == {"HOST_CPU"}
    assert not [line for line in run.lines if "GPU" in line]


def test_events_of_the_timeline(device_job):
    run = device_job("plain", 2, options={"profiler_level": "Level1", "cuda_graphs": "launches"})
    assert {("Enable", "4"), ("Enable", "51")} <= set(run.calls), "calls of the driver, and launches of graphs"
    events = json.loads((run.result / "ASCEND_PROFILER_OUTPUT" / "trace_view.json").read_text())
    lanes = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    shown = [event for event in events if event["ph"] == "X" and lanes.get(event["pid"]) == "GPU"]
    assert Counter((event["tid"], event["name"]) for event in shown) == Counter(
        {(int(stream), name): 2 for name, stream, _ in STEP}
    )


def stored(result):
    """Return (step, name) of each stored kernel of a result without an analysis, in the order of time."""
    recording = store.read(str(result))
    launched = recording.steps["number"].gather(intervals.locate(recording.device.tasks["launch_ns"], recording.steps))
    return list(zip(launched, recording.device.tasks["name"], strict=True))


def not_collected(result):
    """Return {what is missing: why} from the run's notes about the GPU."""
    entries = json.loads((result / "FRAMEWORK" / "run_info.json").read_text())["not_collected"]
    return {entry["what"]: entry["why"] for entry in entries if "GPU" in entry["what"]}


NAMES = [name for name, _, _ in STEP]


@pytest.mark.slow
def test_a_window_has_every_kernel_that_was_launched_in_its_steps(device_job):
    """The kernels run 20 ms after their launch, when the steps of the window have ended on the host long ago."""
    run = device_job("lagging", 9, options={"schedule": {"wait": 3, "active": 2, "repeat": 1}})
    assert run.code == 0, run.err
    assert kernels(run.result) == of_steps([3, 4])
    assert [row["Step"] for row in rows(run.result, "step_trace_time")] == ["3", "4"]
    assert sum(float(row["Computing"]) for row in rows(run.result, "step_trace_time")) == 440
    calls = {row["API Name"]: row["Count"] for row in rows(run.result, "api_statistic")}
    assert calls["cudaLaunchKernel"] == "8"
    # CUPTI is enabled from the step before the window to the step after it
    assert (run.log.count("Enable"), run.log.count("Disable")) == (9, 9)
    assert not_collected(run.result) == {}


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "first"), [("late", 2), ("lazy", 0)])
def test_cuda_that_is_initialised_later_is_found(device_job, mode, first):
    """The device is attached between steps, or before the first kernel if PyTorch initialises CUDA."""
    run = device_job(mode, 4, options={"analyse": "off"})
    assert run.code == 0, run.err
    assert sorted(stored(run.result)) == sorted((step, name) for step in range(first, 4) for name in NAMES)
    assert list(not_collected(run.result)) == ([f"kernels of the GPU before step {first}"] if first else [])


def test_a_killed_job_leaves_the_kernels_that_had_ended(device_job):
    run = device_job("killed", 3)
    assert run.code == -signal.SIGKILL, run.err
    command = [sys.executable, "-m", "ms_profiler", "analyse", run.result]
    subprocess.run(command, check=True, capture_output=True)
    summary = json.loads((run.result / "summary.json").read_text())
    (missing,) = (entry for entry in summary["not_collected"] if "GPU" in entry["what"])
    assert missing["what"] == "kernels of the GPU in the last second"
    assert summary["cost"]["beside"] == ["CUPTI"]
    assert Counter(stored(run.result)) == Counter((step, name) for step in range(3) for name in NAMES)


@pytest.mark.slow
def test_a_recording_of_the_script_has_the_kernels_launched_in_it(device_job, tmp_path):
    run = device_job("captured", 6, options={"analyse": "off"})
    assert run.code == 0, run.err
    assert sorted(stored(run.result)) == sorted((step, name) for step in range(6) for name in NAMES)
    (own,) = (tmp_path / "own").iterdir()
    assert sorted(stored(own)) == sorted((step, name) for step in (2, 3) for name in NAMES)


@pytest.mark.slow
def test_the_owner_of_cupti_is_named_and_left_alone(device_job):
    env = {"CUDA_INJECTION64_PATH": "/opt/tool/libinjected.so"}
    run = device_job("plain", 2, words="owned", env=env, options={"analyse": "off"})
    assert run.code == 0, run.err
    why = "CUPTI belongs to libinjected.so (CUDA_INJECTION64_PATH)"
    assert not_collected(run.result) == {"kernels of the GPU": why}
    assert run.lines.count(f"kernels of the GPU are not recorded: {why}") == 1
    assert run.log == ["GetVersion", "Subscribe"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "why"),
    [
        (
            "fails",
            "CUPTI cannot be used: cuptiGetVersion answered 999; see that the driver is as new as the library",
        ),
        ("no-kernels", "CUPTI does not record: cuptiActivityEnable answered 15, CUPTI_ERROR_OF_THE_FAKE"),
    ],
)
def test_a_cupti_that_fails_costs_a_line(device_job, words, why):
    run = device_job("plain", 2, words=words, options={"analyse": "off"})
    assert run.code == 0, run.err
    assert not_collected(run.result) == {"kernels of the GPU": why}
    assert [line for line in run.lines if "GPU" in line] == [f"kernels of the GPU are not recorded: {why}"]


def test_a_requested_gpu_that_is_absent_costs_a_line(job):
    run = job("import torch", options={"activities": ["CPU", "GPU"], "analyse": "off"})
    assert run.code == 0, run.err
    (line,) = [line for line in run.lines if "GPU" in line]
    assert line.startswith("kernels of the GPU are not recorded: there is no driver (libcuda.so.1")
    assert line.endswith("install NVIDIA's driver, or leave GPU out of activities")


@pytest.mark.slow
def test_the_scripts_own_profiler_gets_cupti_and_gives_it_back(device_job):
    run = device_job("profiler", 5, options={"analyse": "off"})
    assert run.code == 0, run.err
    assert run.out.split() == ["free", "seen", "True"]
    assert sorted(stored(run.result)) == sorted((step, name) for step in range(5) for name in NAMES)
    assert list(not_collected(run.result)) == ["kernels of the GPU while the script's own profiler runs"]


@pytest.mark.slow
def test_a_profiler_that_keeps_cupti_has_it(device_job):
    run = device_job("kept", 5, options={"analyse": "off"})
    assert run.code == 0, run.err
    assert run.out.split() == ["free", "seen", "True"]
    assert {step for step, _ in stored(run.result)} == {0, 1}
    assert not_collected(run.result)["kernels of the GPU"].startswith("CUPTI belongs to PyTorch's own profiler")


@pytest.mark.slow
def test_numbers_that_wrap_and_a_fork_child(device_job):
    run = device_job("wrapping", 3, options={"analyse": "off"})
    assert run.code == 0, run.err
    assert Counter(stored(run.result)) == Counter((step, name) for step in range(3) for name in NAMES)
    run = device_job("fork", 2, options={"analyse": "off"}, env={"FAKE_CUPTI_LOG": ""})
    assert (run.code, run.out.split()) == (0, ["7", "True"])


@pytest.mark.slow
def test_unreadable_records_are_reported(device_job):
    run = device_job("strange", 2, options={"analyse": "off"})
    assert run.code == 0, run.err
    assert not_collected(run.result) == {
        "1 records of the GPU": "they were of an unknown kind",
    } | {what: why for what, why in not_collected(run.result).items() if why.startswith("they were still")}
    assert "(kernel without a name)" in [name for _, name in stored(run.result)]


@pytest.mark.slow
def test_a_gradient_is_of_the_module_that_it_is_the_gradient_of(device_job):
    run = device_job("plain", 2)
    assert run.code == 0, run.err
    own = [row for row in rows(run.result, "kernel_details") if row["Name"] in ("gemm(float*, int)", "gemm_backward")]
    assert {(row["Name"], row["Module"]) for row in own} == {
        ("gemm(float*, int)", "Net.block"),
        ("gemm_backward", "Net.block"),
    }
    assert "Module Binding" not in own[0], "all are exact"


FORKED = """
import ctypes, os, sys
import torch
driver = ctypes.CDLL("libcuda.so.1")
model = torch.nn.Linear(2, 2)
pid = os.fork()
if pid == 0:
    # let PyTorch initialise CUDA as a build with CUDA does
    torch._C._cuda_getDeviceCount = lambda: 1
    torch._C._cuda_init = lambda: driver.cuInit(0)
    torch.cuda._cudart = object()
    torch.cuda._queued_calls.clear()
    torch.cuda.get_device_name = lambda: "a made-up GPU"
    torch.cuda.init()
    sys.exit(0)
assert os.waitpid(pid, 0)[1] == 0
model(torch.ones(1, 2)).sum().backward()
"""


@pytest.mark.slow
def test_a_fork_child_that_uses_a_gpu_is_reported(job, fakes):  # noqa: F811
    run = job(FORKED, env={"LD_LIBRARY_PATH": str(fakes), "MS_PROFILER_RAISE": "1"})
    assert run.code == 0, run.err
    entries = [
        entry for entry in run.summary["not_collected"] if entry["what"].startswith("kernels of the GPU of process")
    ]
    (child,) = [item["pid"] for item in run.summary["run"]["processes"] if item["role"] == "fork"]
    assert [entry["what"] for entry in entries] == [f"kernels of the GPU of process {child}, fork"]
    assert not [line for line in run.lines if "GPU" in line]
