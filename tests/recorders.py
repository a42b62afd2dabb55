"""The recorders that every test of the protocol runs on, and helpers for those tests."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

from ms_profiler.job.recorder.python import PythonRecorder
from store_check import read_store

#: kinds of recorders: "mapped" has segments that are the file's pages, "written" copies segments to the file
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
    """Return the targets of the open descriptors of this process."""
    found = []
    for number in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{number}"))
        except FileNotFoundError:
            continue
    return found


def start_program(program, *args):
    path = [str(TESTS), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, path))}
    return subprocess.Popen(
        [sys.executable, TESTS / "programs" / program, *map(str, args)], stdout=subprocess.PIPE, env=environment
    )


def run_program(program, *args):
    """Run a program of ours, which must succeed; return its output."""
    with start_program(program, *args) as process:
        out, _ = process.communicate(timeout=100)
    assert process.returncode == 0
    return out.decode()


def finish(recorder, folder):
    """Close the recorder, read its files, and compare them with its own counts."""
    recorder.close()
    store, stats = read_store(folder), recorder.stats()
    assert stats.records == len(store.records)
    assert (stats.dropped, stats.dropped_limit) == (store.dropped, store.dropped_limit)
    assert stats.bytes == store.bytes
    assert stats.threads == len(store.threads)
    return store


def run_thread(function, *args):
    """Run a thread until the system's thread has ended, because `join` returns earlier."""
    thread = threading.Thread(target=function, args=args)
    thread.start()
    thread.join()
    poll(lambda: not os.path.exists(f"/proc/self/task/{thread.native_id}"))
