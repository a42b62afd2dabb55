"""The recorders that every test of the protocol runs on, and what those tests need."""

import os
import subprocess
import sys
import time
from pathlib import Path

from ms_profiler.job.recorder.python import PythonRecorder

#: mapped and written: segments that are the file's own pages, and segments that are copied to it
KINDS = ("native", "native-written", "python", "python-written")
TESTS = Path(__file__).parent


def make(kind):
    """Return a recorder by its name in `KINDS`."""
    name, _, written = kind.partition("-")
    if name == "python":
        return PythonRecorder(written=bool(written))
    from ms_profiler.job.recorder.native import NativeRecorder

    return NativeRecorder(written=bool(written))


def poll(condition):
    """Wait until a condition holds."""
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def descriptors():
    """Return what the open descriptors of this process are."""
    found = []
    for number in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{number}"))
        except FileNotFoundError:
            continue
    return found


def start_program(program, *args):
    environment = os.environ | {"PYTHONPATH": str(TESTS)}
    return subprocess.Popen(
        [sys.executable, TESTS / "programs" / program, *map(str, args)], stdout=subprocess.PIPE, env=environment
    )


def run_program(program, *args):
    """Run a program of ours to its end, which must be a good one; return what it printed."""
    with start_program(program, *args) as process:
        out, _ = process.communicate(timeout=100)
    assert process.returncode == 0
    return out.decode()
