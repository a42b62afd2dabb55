"""Traced calls are exact in each output file, also if the job is killed, and tracing does not change the job."""

import array
import csv
import ctypes
import json
import signal
import sys
import threading

import pytest
from conftest import PROGRAMS
from ms_profiler.analysis.driver import engine
from ms_profiler.analysis.writers import operator_details
from ms_profiler.job.recorder.native import NativeRecorder
from ms_profiler.options import Options

PROGRAM = PROGRAMS / "traced_calls.py"
OPTIONS = {"with_stack": True, "overhead_budget": 0, "analyse": "off", "stack_include": ["traced_calls.py"]}
#: calls of the program's function `leaf`: in the thread, and in each of five steps
LEAVES = 200 + 5 * 2 * 200


@pytest.fixture(scope="module")
def killed(launch):
    """Return the analysed run of a job that kills itself."""
    run = launch(PROGRAM, "kill", options=OPTIONS)
    assert run.code == -9 and run.out.split()[0] == "done", run.err
    engine.analyse([run.result])
    return run


def rows(run):
    """Return the rows of the summary's functions by name."""
    return {row["function"]: row for row in run.summary["functions"]["rows"]}


def line(name):
    """Return the line of the program at which a function begins."""
    return 1 + next(at for at, text in enumerate(PROGRAM.read_text().splitlines()) if text.startswith(f"def {name}("))


def test_each_call_counts_even_if_it_ran_at_the_kill(killed):
    found = rows(killed)
    calls = {name: found[name]["calls"] for name in ("leaf", "inner", "step", "in_thread", "trains", "main")}
    assert calls == {"leaf": LEAVES, "inner": 1000, "step": 5, "in_thread": 1, "trains": 1, "main": 1}
    assert killed.summary["functions"]["threads"] == 2 and killed.summary["functions"]["left_out"] == 0
    assert found["main"]["total_us"] >= found["trains"]["total_us"] >= found["step"]["total_us"]
    assert all(row["file"] == str(PROGRAM) for row in found.values())


def test_the_phases_name_functions(killed):
    (other,) = [part for part in killed.summary["functions"]["phases"] if part["name"] == "other"]
    assert {row["function"] for row in other["rows"]} >= {"leaf", "inner", "step", "trains"}
    assert sum(row["share"] for row in other["rows"]) == pytest.approx(1, abs=1e-3)


def test_the_timeline_and_the_files_for_flames_have_nested_calls(killed):
    output = killed.result / "ASCEND_PROFILER_OUTPUT"
    events = json.loads((output / "trace_view.json").read_text())
    drawn = [event for event in events if event.get("cat") == "python_function"]
    assert sum(event["name"].startswith("leaf (") for event in drawn) == LEAVES
    folded = [line.rpartition(" ") for line in (output / "python_stacks.folded").read_text().splitlines()]
    names = "main", "trains", "step", "inner"
    path = ";".join(f"{name} (traced_calls.py:{line(name)})" for name in names)
    assert any(path in stack for stack, _, _ in folded)
    (main, beside) = sorted(
        json.loads((output / "python_stacks.speedscope.json").read_text())["profiles"], key=lambda p: -len(p["events"])
    )
    for profile in main, beside:
        depth, at = 0, 0
        for event in profile["events"]:
            assert event["at"] >= at
            depth, at = depth + (1 if event["type"] == "O" else -1), event["at"]
            assert depth >= 0
        assert depth == 0
    assert len(beside["events"]) == 2 * 201


def test_operators_have_the_stack_that_they_were_called_from(killed):
    with open(killed.result / "ASCEND_PROFILER_OUTPUT" / "operator_details.csv", newline="") as file:
        found = [row["Call Stack"] for row in csv.DictReader(file) if row["Name"] == "aten::addmm"]
    assert len(found) == 5
    expected = f"{PROGRAM}({line('trains')}): trains;\r\n{PROGRAM}({line('main')}): main;"
    assert all(stack.startswith(expected) for stack in found), found


def test_the_stacks_of_operators_take_a_limited_space(killed, monkeypatch, tmp_path):
    """Each stack is on its first operators, so that millions of operators with one stack do not fill the memory."""
    monkeypatch.setattr(operator_details, "STACKS_MOST", 1)
    engine.analyse([killed.result], output=str(tmp_path))
    (table,) = tmp_path.rglob("operator_details.csv")
    with table.open(newline="") as file:
        found = [row["Call Stack"] for row in csv.DictReader(file)]
    stacks = [stack for stack in found if stack not in ("", "N/A")]
    assert stacks and len(stacks) == len(set(stacks)) and "N/A" in found


@pytest.mark.slow
@pytest.mark.parametrize(("end", "code"), [("leaves", 5), ("raises", 1), ("exit", 3), ("forked", 3)])
def test_a_job_ends_as_without(job, end, code):
    run = job(PROGRAM, end, options=OPTIONS)
    assert run.code == code and run.out.split()[0] == "done", run.err
    engine.analyse([run.result])
    assert rows(run)["leaf"]["calls"] == LEAVES


@pytest.mark.slow
def test_a_profiler_of_the_script_has_the_hook_and_stacks_are_sampled(job):
    run = job(PROGRAM, "profiled", options=OPTIONS | {"analyse": "sync"})
    assert run.code == 3, run.err
    if sys.version_info >= (3, 12):
        return  # Python reports calls to both profilers
    # the script removed its profile function before the first step, and calls are traced again in that step
    found = rows(run)
    assert {name: found[name]["calls"] for name in ("leaf", "step")} == {"leaf": LEAVES, "step": 5}
    # `trains` had begun before, so only the rest of this call was traced
    assert found["trains"]["calls"] == 0 and found["trains"]["total_us"] > found["step"]["total_us"]


@pytest.mark.parametrize("setter", ["settrace", "setprofile"])
def test_beside_another_tool_stacks_are_sampled(tmp_path, setter):
    recorder = NativeRecorder()
    recorder.open(str(tmp_path))
    before = sys.gettrace(), sys.getprofile()
    getattr(sys, setter)(lambda *_: None)
    try:
        why = recorder.trace_calls(Options(with_stack=True))
    finally:
        sys.settrace(before[0])
        sys.setprofile(before[1])
    recorder.close()
    assert "receives calls already" in why


@pytest.mark.skipif(threading.current_thread() is not threading.main_thread(), reason="needs signals")
def test_the_exception_of_a_handler_that_comes_while_a_function_in_c_gets_its_name_is_not_lost(tmp_path):
    """Python calls signal handlers when it makes the name: `array.array.buffer_info` is `str(type)` and more."""

    class Alarm(BaseException):
        pass

    def handler(*_):
        raise Alarm

    class Signal(int):
        # a property in C, so that Python calls no handler between the signal and the call of the next function
        sent = property(ctypes.CDLL(None)["raise"])

    def interrupted(number, values):
        number.sent  # noqa: B018 - sends the signal
        values.buffer_info()
        for _ in range(100):
            pass

    recorder = NativeRecorder()
    recorder.open(str(tmp_path))
    before, usual = sys.getprofile(), signal.signal(signal.SIGUSR1, handler)
    try:
        assert recorder.trace_calls(Options(with_stack=True, stack_c_calls=True)) == ""
        with pytest.raises(Alarm):
            interrupted(Signal(signal.SIGUSR1), array.array("b"))
    finally:
        recorder.trace_no_calls()
        signal.signal(signal.SIGUSR1, usual)
        sys.setprofile(before)
        recorder.close()


def test_a_later_hook_is_reported(tmp_path):
    recorder = NativeRecorder()
    recorder.open(str(tmp_path))
    before = sys.getprofile()
    try:
        assert recorder.trace_calls(Options(with_stack=True)) == ""
        assert recorder.traces_beside() == ""
        ours = sys.getprofile()
        sys.setprofile(lambda *_: None)
        assert "profiler" in recorder.traces_beside()
        sys.setprofile(ours)
        assert recorder.traces_beside() == ""
    finally:
        recorder.trace_no_calls()
        sys.setprofile(before)
        recorder.close()
