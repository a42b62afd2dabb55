"""Exceptions of the job's signal handlers reach the job, wherever a function of ours was running."""

import signal
import sys
import threading
from types import SimpleNamespace

import pytest
from conftest import PROGRAMS
from ms_profiler.job import guard, recorder
from ms_profiler.job.recorder import interpreter
from ms_profiler.options import Options


class TooLongError(Exception):
    """An exception of the job."""


@pytest.fixture
def raising():
    """Make SIGUSR1 raise a TooLongError."""

    def stop(*_):
        raise TooLongError

    before = signal.signal(signal.SIGUSR1, stop)
    yield
    signal.signal(signal.SIGUSR1, before)


def test_a_handler_that_raises_at_any_moment_interrupts_the_script(job):
    run = job(PROGRAMS / "handler_raises.py", options={"analyse": "off"})
    assert (run.code, run.out) == (0, "[0, 0, 0]\n20 None\n"), run.err
    assert "Exception ignored" not in run.err


@pytest.mark.slow
def test_a_trace_function_that_raises_at_any_event_interrupts_the_script(job):
    run = job(PROGRAMS / "trace_raises.py", options={"analyse": "off"})
    assert (run.code, run.out) == (0, "settrace True []\nsetprofile True []\n"), run.err
    assert "error in" not in run.err


@pytest.mark.slow
@pytest.mark.skipif(sys.version_info < (3, 11), reason="needs the table of handlers of a code object")
def test_a_handler_that_raises_while_the_script_stops_the_profiler_leaves_no_recording_open(job):
    run = job(PROGRAMS / "stop_interrupted.py", "results", profile=False, env={"PYTHONPATH": str(PROGRAMS.parent)})
    assert (run.code, run.out) == (0, "interrupted often\n"), run.err


def test_an_exception_of_the_job_is_delayed_and_the_function_is_called_again():
    calls = []

    def note(*args):
        calls.append(args)
        if len(calls) == 1:
            raise TooLongError

    def failed(reason):
        raise reason

    shielded = recorder.shield(note, failed)
    assert shielded.__module__ == __name__
    with pytest.raises(TooLongError):
        shielded(1, 2)
        for _ in range(1000):
            str(calls)
    assert calls == [(1, 2), (1, 2)]


def test_an_exception_of_another_thread_of_the_job_is_delayed_as_well():
    seen = []

    def work():
        shielded = recorder.shield(lambda: 1 / 0 if len(seen) else seen.append(1) or raise_it(), pass_all)
        try:
            shielded()
            for _ in range(1000):
                str(seen)
        except TooLongError:
            seen.append("raised")

    def raise_it():
        raise TooLongError

    def pass_all(reason):
        if isinstance(reason, TooLongError):
            raise reason

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [1, "raised"]


def test_an_error_of_ours_is_handled():
    errors = []
    assert recorder.shield(lambda: 1 / 0, errors.append)() is None
    assert [type(reason) for reason in errors] == [ZeroDivisionError]
    assert recorder.shield(lambda: 5, guard.pass_on)() == 5
    assert recorder.shield(lambda: 1 / 0, guard.pass_on)() is None


@pytest.mark.usefixtures("raising")
def test_a_handler_that_raises_while_an_exception_is_looked_at_interrupts_the_script(monkeypatch):
    looked, noted = [], []

    def look(number, getsignal=signal.getsignal):
        looked.append(number)
        if len(looked) == 5:
            signal.raise_signal(signal.SIGUSR1)
        return getsignal(number)

    monkeypatch.setattr(signal, "getsignal", look)
    with pytest.raises(TooLongError), guard.Guard(lambda *words: noted.append(words), "a test"):
        raise_error()
    assert noted == []
    with guard.Guard(lambda *words: noted.append(words), "a test"):
        raise_error()
    assert [(what, type(reason)) for what, reason in noted] == [("a test", ValueError)]


def raise_error():
    raise ValueError


@pytest.mark.usefixtures("raising")
def test_a_handler_that_raises_while_tracing_is_switched_interrupts_the_script(monkeypatch):
    """From Python 3.12 on, a function of ours asks `sys.monitoring` for the calls, which the extension calls."""
    from ms_profiler import _native

    switched, asked = [], []

    def set_events(number, events):
        switched.append((number, events))
        if len(switched) == 1:
            signal.raise_signal(signal.SIGUSR1)

    monitoring = SimpleNamespace(
        DISABLE=object(),
        events=SimpleNamespace(PY_START=1, PY_RESUME=2, PY_RETURN=4, PY_YIELD=8, PY_THROW=16, PY_UNWIND=32),
        get_tool=lambda number: None,
        use_tool_id=lambda number, name: None,
        register_callback=lambda number, event, call: None,
        set_events=set_events,
    )
    monkeypatch.setattr(sys, "monitoring", monitoring, raising=False)
    monkeypatch.setattr(_native, "trace_calls", lambda *values: asked.append(values) or True)
    assert interpreter.Interpreter(_native).begin(Options()) == ""
    ((*_, switch, _),) = asked
    with pytest.raises(TooLongError):
        switch(True)
        for _ in range(1000):
            str(asked)
    assert switched == [(4, 63), (4, 63)]
