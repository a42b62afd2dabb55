"""`ms-profiler cluster` writes the same bytes with processes and with Dask's workers, even if it loses a worker."""

import errno
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from conftest import environment
from launches import TOOLS, free_port
from made_ranks import make
from ms_profiler.analysis.cluster.engines import Local, Lost, Task

RANKS, STEPS = 40, 4
PATIENCE_S = 60
data = os.environ.get("MS_PROFILER_TEST_DATA")
needs_data = pytest.mark.skipif(not data, reason="MS_PROFILER_TEST_DATA names no real results")


@pytest.fixture
def job(tmp_path):
    make(Path(data) / "level1", tmp_path / "job", RANKS, STEPS, slow=[3, 17], factor=3)
    return tmp_path / "job"


def command(job, name, *words):
    """Return the command line that compares the ranks of a job, and writes its files below a directory."""
    return [TOOLS / "ms-profiler", "cluster", job, "--json", "--output", job.parent / name, *words]


def output_of(job, name, *words):
    """Run the command; return its output and the bytes of its files."""
    done = subprocess.run(command(job, name, *words), capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    return done.stdout, files(job, name)


def files(job, name):
    return {path.name: path.read_bytes() for path in (job.parent / name / "cluster_analysis_output").iterdir()}


def lost_in_the_middle(job, name, *words):
    """Run the command and kill the process that reads the steps of rank 33; return the same as `output_of`."""
    (place,) = job.glob("host_33_*/ASCEND_PROFILER_OUTPUT/step_trace_time.csv")
    real = place.with_suffix(".real")
    place.rename(real)
    os.mkfifo(place)
    with subprocess.Popen(
        command(job, name, *words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                # opening the pipe for writing fails until a reader waits for it
                descriptor = os.open(place, os.O_WRONLY | os.O_NONBLOCK)
                break
            except OSError as error:
                assert error.errno == errno.ENXIO and time.monotonic() < deadline and running.poll() is None
                time.sleep(0.02)
        # a reader that still waits in `open` has no descriptor of the pipe yet
        while not (readers := [pid for pid in psutil.pids() if pid != os.getpid() and has_open(pid, place)]):
            assert time.monotonic() < deadline and running.poll() is None
            time.sleep(0.02)
        real.replace(place)
        for pid in readers:
            os.kill(pid, signal.SIGKILL)
        os.close(descriptor)
        out, error = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 0, error
    assert len(readers) == 1 and readers != [running.pid]
    return out, files(job, name)


def has_open(pid, path):
    try:
        return any(os.path.realpath(f"/proc/{pid}/fd/{each}") == str(path) for each in os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return False


@pytest.mark.slow
@needs_data
def test_a_lost_process_changes_no_byte(job):
    alone = output_of(job, "alone", "--max-process-number", "1")
    assert len(alone[1]) == 4
    assert lost_in_the_middle(job, "two", "--max-process-number", "2") == alone


@pytest.mark.slow
def test_a_task_that_ends_its_process_is_lost_and_the_others_are_not():
    tasks = [Task("two", abs, -2), Task("the end", os._exit, 3), Task("four", abs, -4)]
    with Local(2) as engine:
        first, lost, last = engine.each(tasks)
    assert (first, last) == (2, 4)
    assert isinstance(lost, Lost) and lost.name == "the end" and "killed 4 times" in lost.why


def test_options_of_an_engine_that_contradict_each_other(tmp_path):
    for words, line in (
        (["--engine", "dask"], "--engine dask needs --scheduler ADDRESS."),
        (["--scheduler", "tcp://127.0.0.1:1"], "--scheduler needs --engine dask."),
    ):
        done = subprocess.run(command(tmp_path, "out", *words), capture_output=True, text=True, timeout=PATIENCE_S)
        assert done.returncode == 2 and line in done.stderr


@contextmanager
def scheduler(workers):
    """Start a Dask scheduler with workers, and yield the scheduler's address."""
    address = f"tcp://127.0.0.1:{free_port()}"
    lines = [
        ["scheduler", "--host", "127.0.0.1", "--port", address.rpartition(":")[2], "--no-dashboard", "--no-show"],
        *[["worker", address, "--nthreads", "1", "--no-nanny", "--no-dashboard"]] * workers,
    ]
    started = []
    try:
        for words in lines:
            program = [sys.executable, "-m", "distributed.cli.dask_" + words[0], *words[1:]]
            started.append(subprocess.Popen(program, env=environment(None), stderr=subprocess.DEVNULL))
            deadline = time.monotonic() + PATIENCE_S
            while len(started) == 1 and time.monotonic() < deadline:
                try:
                    socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2])), 1).close()
                    break
                except OSError:
                    time.sleep(0.05)
        import distributed

        with distributed.Client(address, timeout=PATIENCE_S, set_as_default=False) as client:
            client.wait_for_workers(workers, timeout=PATIENCE_S)
        yield address
    finally:
        for each in started:
            each.kill()
            each.wait()


@needs_data
@pytest.mark.slow
def test_a_lost_worker_of_dask_changes_no_byte(job):
    pytest.importorskip("distributed")
    alone = output_of(job, "alone", "--max-process-number", "1")
    with scheduler(2) as address:
        words = ["--engine", "dask", "--scheduler", address]
        assert output_of(job, "dask", *words) == alone
        assert lost_in_the_middle(job, "killed", *words) == alone
        damaged = next(job.glob("host_5_*/ASCEND_PROFILER_OUTPUT"))
        for path in damaged.iterdir():
            path.write_bytes(b"{")
        out, _ = output_of(job, "damaged", *words)
        assert (out, files(job, "damaged")) == output_of(job, "again", "--max-process-number", "1")
        assert "host_5_" in out


@pytest.mark.slow
def test_no_scheduler_is_one_line(tmp_path):
    pytest.importorskip("distributed")
    words = ["--engine", "dask", "--scheduler", f"tcp://127.0.0.1:{free_port()}"]
    done = subprocess.run(command(tmp_path, "out", *words), capture_output=True, text=True, timeout=2 * PATIENCE_S)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("ms-profiler: No Dask scheduler answers at tcp://127.0.0.1:")
