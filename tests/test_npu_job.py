"""ms-profiler records the kernels of an NPU in an unchanged MindSpore job with its cells, and finds their launches.

The NPU is made up: the tests load libraries with the vendor's names and interface, but without a device. MindSpore
itself runs on the processor.
"""

import importlib.util
import json
import signal

import pytest
from conftest import PROGRAMS
from csv_rows import rows
from fakes_built import ASCEND, ascend_fakes, build, runner  # noqa: F401
from ms_profiler.analysis.metrics import intervals
from ms_profiler.analysis.readers import store

pytestmark = pytest.mark.skipif(importlib.util.find_spec("mindspore") is None, reason="needs MindSpore")

PROGRAM = PROGRAMS / "npu_job.py"
WHAT = "kernels of the NPU"
#: each kernel of a step: name, stream, core, microseconds
STEP = [
    ("MatMulV2", "7", "AI_CORE", 100),
    ("ReLU", "7", "AI_VECTOR_CORE", 50),
    ("MatMulGrad", "7", "AI_CORE", 70),
    ("hcom_allReduce__868", "20", "HCCL", 120),
]
#: Tolerance of a duration in us. Between two readings, the device's and the host's clock drift apart by a few parts in
#: 10^5.
OFF = 0.1


@pytest.fixture
def npu_job(job, ascend_fakes, tmp_path):  # noqa: F811
    """Return a function that runs the program in a mode with the fakes; the run's `log` has msPTI's calls."""
    return runner(job, PROGRAM, ascend_fakes, "MSPTI", "libmspti.so", tmp_path / "log")


def of_steps(steps):
    """Return the launches of some steps in the form and order of `kernels`."""
    launched = [(str(step), *kernel[:3]) for step in steps for kernel in STEP]
    return sorted(launched, key=lambda kernel: (int(kernel[2]), int(kernel[0])))


def kernels(result):
    """Return (step, name, stream, core) of each kernel in the table, and check its duration."""
    found, lengths = rows(result, "kernel_details"), {name: length for name, _, _, length in STEP}
    for row in found:
        assert float(row["Duration(us)"]) == pytest.approx(lengths[row["Name"]], abs=OFF)
    return [(row["Step ID"], row["Name"], row["Stream ID"], row["Accelerator Core"]) for row in found]


def stored(result):
    """Return (step, name) of each stored kernel of a result without an analysis, in the order of time."""
    recording = store.read(str(result))
    tasks = recording.device.tasks
    launched = recording.steps["number"].gather(intervals.locate(tasks["launch_ns"], recording.steps))
    return list(zip(launched, tasks["name"], strict=True))


def not_collected(result):
    """Return {what is missing: why} from the run's notes about the NPU, except for notes about its clock."""
    entries = json.loads((result / "FRAMEWORK" / "run_info.json").read_text())["not_collected"]
    return {entry["what"]: entry["why"] for entry in entries if "NPU" in entry["what"] and "times" not in entry["what"]}


EVERY = [(step, name) for step in range(3) for name, *_ in STEP]


@pytest.fixture(scope="module")
def losses(tmp_path_factory, ascend_fakes):  # noqa: F811
    """Return the output of the program without a profiler."""
    from conftest import launcher

    run = launcher(tmp_path_factory.mktemp("bare"))
    return run(PROGRAM, "plain", "3", profile=False, env={"LD_LIBRARY_PATH": str(ascend_fakes)}).out


def test_kernels_are_in_the_tables(npu_job, losses):
    run = npu_job("plain", 3)
    assert run.code == 0, run.err
    assert run.out == losses != ""
    assert kernels(run.result) == of_steps(range(3))
    for row in rows(run.result, "step_trace_time"):
        for column, expected in (
            ("Computing", 220),
            ("Communication", 120),
            ("Overlapped", 10),
            ("Communication(Not Overlapped)", 110),
        ):
            assert float(row[column]) == pytest.approx(expected, abs=3 * OFF), column
    assert [(row["OP Type"], row["Core Type"], row["Count"]) for row in rows(run.result, "op_statistic")] == [
        ("MatMulV2", "AI_CORE", "3"),
        ("MatMulGrad", "AI_CORE", "3"),
        ("ReLU", "AI_VECTOR_CORE", "3"),
    ]
    calls = {row["API Name"]: row["Count"] for row in rows(run.result, "api_statistic") if row["Level"] == "cann"}
    assert calls == {"LaunchKernel": "9", "HcclAllReduce": "3"}
    modules = {(row["Name"], row["Module"].rpartition(".")[2]) for row in rows(run.result, "kernel_details")}
    assert {("MatMulV2", "block"), ("ReLU", "block")} <= modules
    communication = json.loads((run.result / "ASCEND_PROFILER_OUTPUT" / "communication.json").read_text())
    for step in range(3):
        names = [name for name in communication[f"step{step}"]["collective"] if not name.startswith("Total")]
        assert [name.partition("@")[2] for name in names] == ["hccl_world_group"]
    device = run.summary["device"]
    assert (device["form"], device["tasks"], device["exchanges"], device["streams"]) == ("mspti", 12, 3, 2)
    assert [step["number"] for step in device["steps"]] == [0, 1, 2]
    assert run.summary["sources"]["kernel_details"] == "msPTI"
    assert not_collected(run.result) == {}
    assert [line for line in run.lines if "NPU" in line] == []
    assert run.log.count("Subscribe") == run.log.count("Unsubscribe") == 1


@pytest.mark.slow
def test_each_cause_of_a_step_has_the_time_that_was_planted(npu_job):
    """A sleep of 20 ms counts as blocked. A kernel of 30 ms for which the host waits is on the path, as on a GPU."""
    run = npu_job("bound", 5)
    assert run.code == 0, run.err
    path, lengths = run.summary["critical_path"], run.summary["device"]["time"]["steps"]
    lengths = {step["number"]: step["length_ms"] for step in lengths}
    assert sum(run.summary["bounds"]["shares"].values()) == pytest.approx(1, abs=1e-4)
    assert path["steps"]
    for step in path["steps"]:
        kinds = {kind.removesuffix("_ms"): value for kind, value in step.items() if kind != "number"}
        # one of the model's kernels may still have run then
        assert 30 - OFF <= kinds["computing"] <= 30.5
        assert kinds["blocked"] >= 19
        assert sum(kinds.values()) == pytest.approx(lengths[step["number"]], abs=0.01)


def test_a_job_that_does_not_use_the_npu_touches_nothing(npu_job, losses):
    run = npu_job("unused", 3)
    assert run.code == 0, run.err
    assert (run.out, run.log) == (losses, [])
    assert {row["Accelerator Core"] for row in rows(run.result, "kernel_details")} == {"HOST_CPU"}
    assert not [line for line in run.lines if "NPU" in line]


@pytest.mark.slow
def test_an_npu_that_is_used_later_is_found_between_steps(npu_job):
    run = npu_job("late", 4, options={"analyse": "off"})
    assert run.code == 0, run.err
    # The kernels without a launch ran while ms-profiler found the NPU.
    launched = [kernel for kernel in stored(run.result) if kernel[0] is not None]
    assert sorted(launched) == sorted((step, name) for step in (2, 3) for name, *_ in STEP)
    assert not_collected(run.result) == {
        f"{WHAT} before step 2": "CANN was first found in use there, by a check between two steps"
    }


@pytest.mark.slow
def test_a_schedule_has_every_kernel_that_was_launched_in_its_steps(npu_job):
    run = npu_job("plain", 6, options={"schedule": {"wait": 2, "active": 2, "repeat": 1}})
    assert run.code == 0, run.err
    assert kernels(run.result) == of_steps([2, 3])
    assert (run.log.count("Enable"), run.log.count("Disable")) == (4, 4)


def test_a_killed_job_leaves_the_kernels_that_had_ended(npu_job):
    run = npu_job("killed", 3)
    assert run.code == -signal.SIGKILL, run.err
    assert sorted(stored(run.result)) == sorted(EVERY)


FORK = """
import ctypes, os, signal, sys
ctypes.CDLL("libascendcl.so", mode=ctypes.RTLD_GLOBAL)
import torch
pid = os.fork()
if pid == 0:
    signal.alarm(60)
    print("child")
    sys.exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


@pytest.mark.slow
def test_a_fork_child_ends_as_it_would_alone(job, ascend_fakes, tmp_path):  # noqa: F811
    """The parent's subscription to msPTI would make the child hang at its end.

    The job uses PyTorch, because a child of MindSpore crashes in any case.
    """
    log = tmp_path / "log"
    run = job(FORK, env={"LD_LIBRARY_PATH": str(ascend_fakes), "FAKE_MSPTI_LOG": str(log)}, options={"analyse": "off"})
    assert run.code == 0, run.err
    assert run.out.split() == ["child", "7"]
    assert [line.split()[1] for line in log.read_text().splitlines()].count("Subscribe") == 1


@pytest.mark.slow
def test_numbers_of_more_than_32_bits(npu_job):
    run = npu_job("wide", 3, options={"analyse": "off"})
    assert run.code == 0, run.err
    assert sorted(stored(run.result)) == sorted(EVERY)


def test_unreadable_records_are_reported(npu_job):
    run = npu_job("strange", 3, options={"analyse": "off"})
    assert run.code == 0, run.err
    why = "they have no end: they still ran, or the device had failed"
    assert not_collected(run.result) == {"1 records of the NPU": why}
    entries = json.loads((run.result / "FRAMEWORK" / "run_info.json").read_text())["not_collected"]
    assert {"what": "the rest of 1 buffers of msPTI", "why": "they cannot be read"} in entries
    assert "(kernel without a name)" in [name for _, name in stored(run.result)]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        pytest.param("owned", "msPTI belongs to another profiler or debugger of this process", marks=pytest.mark.slow),
        ("fails", "msPTI cannot be used: msptiSubscribe answered 999"),
        pytest.param(
            "no-kernels", "msPTI does not record: msptiActivityEnable answered 999 for kernels", marks=pytest.mark.slow
        ),
    ],
)
def test_an_mspti_that_fails_costs_a_line(npu_job, losses, words, why):
    run = npu_job("plain", 3, words=words, options={"analyse": "off"})
    assert (run.code, run.out) == (0, losses), run.err
    assert not_collected(run.result) == {WHAT: why}
    assert [line for line in run.lines if "NPU" in line] == [f"{WHAT} are not recorded: {why}"]


@pytest.mark.slow
def test_without_a_companion_the_job_lives(npu_job, tmp_path):
    """A process that loads msPTI without its companion library ends."""
    (tmp_path / "some").mkdir()
    build(tmp_path / "some", {name: made for name, made in ASCEND.items() if name != "libprofapi.so"})
    run = npu_job("bare", 2, folder=tmp_path / "some", options={"analyse": "off"})
    assert run.code == 0, run.err
    (line,) = [line for line in run.lines if "NPU" in line]
    assert line.startswith(f"{WHAT} are not recorded: msPTI cannot be used: libprofapi.so is missing, and msPTI")
    assert run.log == []


@pytest.mark.slow
def test_where_mindspores_own_profiler_runs_it_has_the_npu(npu_job):
    """MindSpore's own profiler keeps the NPU, because a second collector would take its records."""
    run = npu_job("plain", 2, options={"takeover": False, "analyse": "off"})
    assert run.code == 0, run.err
    assert run.log == []
    (ours,) = [result for result in run.results if (result / "FRAMEWORK" / "run_info.json").exists()]
    assert not_collected(ours) == {WHAT: "MindSpore's own profiler keeps running: takeover is false"}


def test_a_machine_without_devices_loads_nothing_of_any_vendor(job):
    program = """
import torch
torch.ones(2).sum()
mapped = open("/proc/self/maps").read()
print([name for name in ("libcuda.so", "libcupti", "libascend", "libmspti", "libprofapi") if name in mapped])
"""
    run = job(program, options={"analyse": "off"})
    assert (run.code, run.out.strip()) == (0, "[]"), run.err


def test_a_requested_npu_that_is_absent_costs_a_line(job):
    run = job("import mindspore", options={"activities": ["CPU", "NPU"], "analyse": "off"})
    assert run.code == 0, run.err
    (line,) = [line for line in run.lines if "NPU" in line]
    assert line.startswith(f"{WHAT} are not recorded: there is no driver (libascend_hal.so")
    assert line.endswith("source CANN's set_env.sh, or leave NPU out of activities")


@pytest.mark.slow
def test_markers_are_annotations_with_their_domain(npu_job):
    run = npu_job("markers", 3)
    assert run.code == 0, run.err
    events = json.loads((run.result / "ASCEND_PROFILER_OUTPUT" / "trace_view.json").read_text())
    named = {}
    for event in events:
        if event["ph"] == "X":
            named.setdefault(event["name"], []).append(event)
    assert [len(named[f"mine: {name}"]) for name in ("tokens", "scripted", "on the stream")] == [1, 1, 1]
    (drawn,) = named["on the stream"]
    assert (drawn["tid"], drawn["args"]) == (7, {"domain": "mine"})


@pytest.mark.slow
def test_copies_are_recorded_when_the_library_is_preloaded(npu_job, ascend_fakes):  # noqa: F811
    library = str(ascend_fakes / "libmspti.so")
    run = npu_job("copies", 3, env={"LD_PRELOAD": library}, options={"profile_memory": True})
    assert run.code == 0, run.err
    assert kernels(run.result) == of_steps(range(3))
    events = json.loads((run.result / "ASCEND_PROFILER_OUTPUT" / "trace_view.json").read_text())
    copied = [event for event in events if event["ph"] == "X" and event["name"] == "Memcpy HtoD"]
    assert [event["args"] for event in copied] == [{"bytes": 4096}] * 3
    assert not_collected(run.result) == {}


def test_copies_are_reported_as_missing_without_preloading(npu_job):
    run = npu_job("copies", 3, options={"profile_memory": True, "analyse": "off"})
    assert run.code == 0, run.err
    why = not_collected(run.result)["some records of the NPU"]
    assert why.startswith("msPTI refuses memory (not preloaded)")
    # aclprof could record copies without preloading, but it is missing as well
    assert not_collected(run.result)["kernels and counters of the NPU"].startswith("there is no aclprof")


@pytest.mark.slow
def test_a_requested_npu_without_the_extension_is_reported(job, ascend_fakes):  # noqa: F811
    program = "import ctypes, sys; sys.modules['ms_profiler._native'] = None; ctypes.CDLL('libascendcl.so')\n"
    run = job(
        f"{program}import mindspore",
        options={"activities": ["CPU", "NPU"], "analyse": "off"},
        env={"LD_LIBRARY_PATH": str(ascend_fakes)},
    )
    assert run.code == 0, run.err
    assert not_collected(run.result)[WHAT].startswith("the extension does not load")
