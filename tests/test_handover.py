"""The wait for the analysis, with a stand-in for the interpreter that runs it."""

import signal
import subprocess
import sys

import pytest
from conftest import environment, eventually

STATES = {"native": "", "python": "import sys; sys.modules['ms_profiler._native'] = None\n"}
#: where what tells is the same, and only what waits another
mostly_native = pytest.mark.parametrize(
    "program", ["native", pytest.param("python", marks=pytest.mark.slow)], indirect=True
)


@pytest.fixture(params=STATES)
def program(request, tmp_path):
    """Return a function that makes a job whose analysis is a shell script."""

    def make(script):
        interpreter = tmp_path / "interpreter"
        interpreter.write_text(f"#!/bin/sh\n{script}\n")
        interpreter.chmod(0o755)
        return STATES[request.param] + f"import mindspore, sys\nsys.executable = {str(interpreter)!r}\nprint('trained')"

    return make


def test_analysis_that_does_not_end_is_stopped(job, program):
    run = job(program("exec sleep 100"), options={"exit_timeout": 0.3})
    assert (run.code, run.out) == (0, "trained\n")
    assert "exit_timeout" in run.lines[-1] and f"ms-profiler analyse {run.result}" in run.lines[-1]


def test_analysis_that_fails_is_told(job, program):
    run = job(program("echo broken >&2; exit 3"))
    assert (run.code, run.out) == (0, "trained\n")
    assert "the analysis failed" in run.lines[-1]
    assert (run.result / "logs" / "analysis.log").read_text() == "broken\n"


@mostly_native
def test_quiet_job_does_not_tell(job, program):
    assert job(program("exit 3"), options={"quiet": True}).lines == []


def test_interrupt_ends_the_wait_and_not_the_job(program, tmp_path):
    started = tmp_path / "started"
    options = {"start": True, "output_path": str(tmp_path / "data")}
    job = subprocess.Popen(
        [sys.executable, "-c", program(f"trap '' INT; touch {started}; while :; do sleep 1; done")],
        env=environment(options),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    )
    eventually(started.exists)
    # until the wait itself begins, MindSpore's tear-down still runs, in which a Ctrl-C ends any job
    eventually(lambda: sleeps(job.pid))
    job.send_signal(signal.SIGINT)
    out, err = job.communicate(timeout=60)
    assert (job.returncode, out) == (0, "trained\n")
    assert "ms-profiler analyse" in err.splitlines()[-1]


def sleeps(pid):
    """Return whether the main thread of a process is in nanosleep (x86-64) or clock_nanosleep (x86-64, arm64)."""
    try:
        with open(f"/proc/{pid}/task/{pid}/syscall") as stream:
            return stream.read().split()[0] in ("35", "230", "115")
    except OSError:
        return False


@mostly_native
def test_closed_stderr_stops_nothing(job, program, tmp_path):
    marker = tmp_path / "analysed"
    run = job("import os; os.close(2)\n" + program(f"touch {marker}"))
    assert (run.code, run.out) == (0, "trained\n")
    assert marker.exists()
