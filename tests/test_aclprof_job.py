"""The NPU of an unchanged MindSpore job is recorded by aclprof and read by msprof, or left to MindSpore's own profiler.

The NPU is made up: the tests load libraries with the vendor's names and interface, but without a device. They use a
made-up msprof as well.
"""

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys

import jsonschema
import pytest
from conftest import PROGRAMS, ROOT
from csv_rows import rows
from fakes_built import FAKES, attached, counter_fakes, loading  # noqa: F401
from ms_profiler.analysis.readers import store

pytestmark = pytest.mark.skipif(importlib.util.find_spec("mindspore") is None, reason="needs MindSpore")

PROGRAM = PROGRAMS / "counters_job.py"
SCHEMA = ROOT / "agent" / "ms_profiler" / "analysis" / "report" / "summary.schema.json"
COUNTED = {"profiler_level": "Level1", "l2_cache": True, "sys_io": True, "host_sys": ["cpu", "mem"]}
COUNTED |= {"max_disk": "600MB", "analyse": "sync"}  # msprof runs in the analysis, with the environment of the job


@pytest.fixture
def counters_job(job, counter_fakes, tmp_path):  # noqa: F811
    """Return a function that runs the program in a mode with the fakes; the run's `calls` are those of aclprof."""

    if shutil.disk_usage(tmp_path).free < 10 * 600_000_000:
        pytest.skip("needs 6 GB of free disk space: ms-profiler uses at most a tenth of it, and the tests use 600 MB")
    machine = attached(tmp_path)

    def run(mode, *arguments, options=COUNTED, words="", **extra):
        log = tmp_path / "log"
        env = {
            **loading(counter_fakes, "ACLPROF", "libmsprofiler.so"),
            "FAKE_ACLPROF": words,
            "FAKE_ACLPROF_LOG": str(log),
            "FAKE_ACL_DEVICE": "5",
            "MS_PROFILER_RAISE": "1",
            **machine,
            "PATH": os.pathsep.join([str(FAKES), os.environ["PATH"]]),
        } | extra.pop("env", {})
        finished = job(PROGRAM, mode, *arguments, env=env, options=options, **extra)
        lines = log.read_text().splitlines() if log.exists() else []
        finished.calls = [line.split(" ", 1)[1] for line in lines]
        return finished

    return run


def run_info(result):
    return json.loads((result / "FRAMEWORK" / "run_info.json").read_text())


def folders(result):
    return [path.name for path in result.glob("PROF_*")]


CALLS = [
    "aclprofSetConfig 1 225MB 0",
    "aclprofSetConfig 5 100 0",
    "aclprofSetConfig 8 cpu,mem 0",
    "aclprofCreateConfig 5 1 0x37 0",
    "aclprofStart 0",
    "aclprofStop 0",
    "aclprofDestroyConfig 0",
    "aclprofFinalize 0",
]
WHY = "msPTI does not serve these options: aic_metrics PipeUtilization, l2_cache, sys_io, host_sys"
KERNELS = [
    ("Add1", "Add", "2", "AI_CORE", "50.000"),
    ("MatMul1", "MatMul", "2", "AI_CORE", "100.000"),
    ("hcom_allReduce__001_0_1", "hcom_allReduce_", "7", "HCCL", "80.000"),
]
#: msprof's column -> its value, for each computing task
DETAILS = {
    "OP State": "static",
    "Block Num": "24",
    "Mix Block Num": "0",
    "HF32 Eligible": "NO",
    "Input Data Types": "FLOAT;FLOAT",
    "Context ID": "N/A",
    "aicore_time(us)": "40.500",
    "total_cycles": "74520",
    "mac_ratio": "0.125",
    "mte2_ratio": "0.500",
    "metric_39_ratio": "0.49",
    "Input Shapes": '"8,8;8,8"',
    "Module": "Net.block",
}


def kernels(result):
    """Return (step, name, type, stream, core, microseconds) of each kernel, sorted."""
    names = ("Step ID", "Name", "Type", "Stream ID", "Accelerator Core", "Duration(us)")
    return sorted(tuple(row[name] for name in names) for row in rows(result, "kernel_details"))


def test_records_of_aclprof_are_in_the_tables(counters_job):
    run = counters_job("plain")
    assert run.code == 0, run.err
    result, summary = run.result, run.summary
    assert run.calls == [f"aclprofInit {result} 0", *CALLS]
    assert kernels(result) == [(step, *kernel) for step in "012" for kernel in KERNELS]
    for row in rows(result, "kernel_details"):
        known = row["Accelerator Core"] == "AI_CORE"
        assert not known or {name: row[name] for name in DETAILS} == DETAILS
    for row in rows(result, "step_trace_time"):
        assert (row["Computing"], row["Communication"]) == ("150.000", "80.000")
    caches = [(row["Op Name"], row["Victim Rate"], row["Hit Rate"]) for row in rows(result, "l2_cache")]
    assert caches == [("MatMul1", "0.25", "N/A"), ("Add1", "0.25", "N/A")] * 3
    assert [(row["Component"], row["Total Reserved(MB)"]) for row in rows(result, "npu_module_mem")] == [
        ("RUNTIME", "2.0")
    ]
    assert [row["Count"] for row in rows(result, "api_statistic") if row["API Name"] == "launch"] == ["9"]
    assert summary["device"]["form"] == "aclprof"
    assert summary["device_sources"] == {"NPU": {"interface": "aclprof", "why": WHY}}
    assert summary["framework"]["device"] == "Ascend"
    assert summary["not_collected"] == []
    assert f"the NPU is recorded by aclprof: {WHY}" in run.lines
    jsonschema.validate(summary, json.loads(SCHEMA.read_text()))


@pytest.mark.slow
def test_a_schedule_is_followed_a_step_ahead_and_a_step_behind(counters_job):
    run = counters_job("plain", "8", options=COUNTED | {"schedule": {"wait": 3, "active": 2, "repeat": 1}})
    assert run.code == 0, run.err
    assert (run.calls.count("aclprofInit"), run.calls.count("aclprofStart 0"), run.calls.count("aclprofStop 0")) == (
        0,
        1,
        1,
    )
    assert kernels(run.result) == [(step, *kernel) for step in "34" for kernel in KERNELS]


@pytest.mark.slow
def test_an_npu_that_other_threads_use_is_found_after_a_step(counters_job):
    """MindSpore reports that it computes on Ascend, while the thread that trains uses no device."""
    run = counters_job("plain", env={"FAKE_ACL_DEVICE": "-1"})
    assert run.code == 0, run.err
    assert "aclprofCreateConfig 0 1 0x37 0" in run.calls
    assert kernels(run.result) == [(step, *kernel) for step in "12" for kernel in KERNELS]
    (entry,) = run.summary["not_collected"]
    assert entry["what"] == "kernels and counters of the NPU before step 1"


def test_a_job_without_the_npu_touches_nothing(counters_job):
    run = counters_job("unused", options=COUNTED | {"analyse": "off"})
    assert run.code == 0, run.err
    assert (run.calls, folders(run.result)) == ([], [])


@pytest.mark.slow
def test_raw_data_that_msprof_cannot_read_stay_and_are_reported(counters_job):
    run = counters_job("plain", env={"FAKE_MSPROF": "fails"})
    assert run.code == 0, run.err
    (name,) = folders(run.result)
    folder = run.result / name
    (entry,) = run.summary["not_collected"]
    assert entry["what"] == f"records of aclprof in {name}"
    assert entry["why"] == (
        "msprof ended with 1 ([ERROR] The data of this folder is incomplete); the raw data are kept; "
        f"on a machine with CANN, run: msprof --export=on --output={folder}, then: ms-profiler analyse {run.result}"
    )
    assert (folder / "device_0" / "data" / "tasks").exists()
    assert run.summary["device"] is None


@pytest.mark.slow
def test_a_job_waits_no_longer_for_msprof_than_for_the_analysis(counters_job):
    """If msprof takes too long, the result has only the host's tables, and keeps the raw data for a later analysis."""
    run = counters_job("plain", options=COUNTED | {"exit_timeout": 20}, env={"FAKE_MSPROF": "hangs"})
    assert run.code == 0, run.err
    (entry,) = run.summary["not_collected"]
    assert entry["why"].startswith(
        "msprof did not end within 12 s; the raw data are kept; on a machine with CANN, run: msprof"
    )
    assert run.summary["steps"]["count"] == 3
    assert [path.name for path in run.result.iterdir() if path.name.startswith(".")] == []


@pytest.mark.slow
def test_a_killed_job_leaves_the_raw_data_and_the_analysis_says_so(counters_job, monkeypatch):
    run = counters_job("killed")
    assert run.code == -signal.SIGKILL
    assert run.calls[-1] == "aclprofStart 0"
    (name,) = folders(run.result)
    monkeypatch.setenv("PATH", os.pathsep.join([str(FAKES), os.environ["PATH"]]))
    monkeypatch.setenv("FAKE_MSPROF", "fails")
    command = [sys.executable, "-m", "ms_profiler", "analyse", str(run.result)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert f"{name}: msprof ended with 1" in done.stderr
    assert done.stderr.rstrip().endswith("; the job was killed before aclprof had ended")
    monkeypatch.setenv("FAKE_MSPROF", "")
    subprocess.run(command, capture_output=True, timeout=100, check=True)
    assert kernels(run.result) == [(step, *kernel) for step in "012" for kernel in KERNELS]


@pytest.mark.slow
def test_a_fork_child_calls_nothing(counters_job):
    run = counters_job("fork", options=COUNTED | {"analyse": "off"})
    assert (run.code, run.out.splitlines()[0]) == (0, "0"), run.err
    assert run.calls[1:] == CALLS


@pytest.mark.slow
def test_ctrl_c_has_its_usual_effect(counters_job):
    """MindSpore's own handler ends the process. Nothing calls the handler of aclprof's library."""
    bare = counters_job("interrupted", profile=False)
    run = counters_job("interrupted", options=COUNTED | {"analyse": "off"})
    assert (run.code, run.out) == (bare.code, bare.out), run.err
    assert run.code
    assert run.calls[-1] == "aclprofStart 0"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("aclprofInit=100042", "aclprof cannot be used: aclprofInit answered 100042: profiling runs already"),
        pytest.param(
            "aclprofStart=500005",
            "aclprof does not record: aclprofStart answered 500005: CANN had an internal error",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_failure_is_one_line_and_the_job_continues(counters_job, words, why):
    run = counters_job("plain", words=words, options=COUNTED | {"analyse": "off"})
    assert run.code == 0, run.err
    (line,) = [line for line in run.lines if "are not recorded" in line]
    assert line.startswith(f"kernels and counters of the NPU are not recorded: {why}")
    (entry,) = [entry for entry in run_info(run.result)["not_collected"] if entry["what"].startswith("kernels and")]
    assert entry["why"].startswith(why)
    assert len([call for call in run.calls if call.startswith("aclprofInit")]) == 1


@pytest.mark.slow
def test_a_refused_option_is_reported_and_the_others_are_recorded(counters_job):
    run = counters_job("plain", words="aclprofSetConfig5=100010", options=COUNTED | {"analyse": "off"})
    assert run.code == 0, run.err
    (entry,) = run_info(run.result)["not_collected"]
    assert entry["what"] == "sys_io"
    assert entry["why"].startswith("aclprofSetConfig 5 100 answered 100010: this NPU or this CANN does not take that")


@pytest.mark.slow
def test_where_ours_cannot_be_used_mindspores_own_profiler_runs_with_our_spans_beside_it(counters_job, tmp_path):
    missing = str(tmp_path / "none.so")
    run = counters_job("plain", env={"MS_PROFILER_LIBACLPROF": missing}, options=COUNTED | {"analyse": "off"})
    assert (run.code, run.calls) == (0, []), run.err
    # the variable replaces all places in which ms-profiler looks for the library
    why = "an NPU is here, and aclprof, which would record it, is not usable: there is no aclprof; "
    ours = [result for result in run.results if (result / "FRAMEWORK" / "run_info.json").exists()]
    (theirs,) = [result for result in run.results if result not in ours]
    (result,) = ours
    assert (theirs / "ASCEND_PROFILER_OUTPUT" / "trace_view.json").exists()
    entries = {entry["what"]: entry["why"] for entry in run_info(result)["not_collected"]}
    assert entries["device records"].startswith(f"MindSpore's own profiler keeps running: {why}")
    assert set(entries) == {"device records", "kernels and counters of the NPU"}
    assert run_info(result)["device_sources"] == {}
    recording = store.read(str(result))
    assert recording.steps.height == 3
    assert {"forward", "backward"} <= set(recording.names)
