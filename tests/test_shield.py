"""Exceptions of the job's signal handlers reach the job, wherever a function of ours was running."""

import threading

import pytest
from conftest import PROGRAMS
from ms_profiler.job import guard, recorder


class TooLongError(Exception):
    """An exception of the job."""


def test_a_handler_that_raises_at_any_moment_interrupts_the_script(job):
    run = job(PROGRAMS / "handler_raises.py", options={"analyse": "off"})
    assert (run.code, run.out) == (0, "[0, 0, 0]\n20 None\n"), run.err
    assert "Exception ignored" not in run.err


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
