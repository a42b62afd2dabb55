"""The kinds of recorders on which every test of the file format runs, and helpers for those tests."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

from ms_profiler.job.recorder.python import PythonRecorder
from store_check import read_store

#: kinds of recorders: a plain one maps the pages of its segments' files; "...-written" copies its segments to the files
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
    """Wait until a condition holds; fail after 30 s."""
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
    """Run a program of `programs/`, which must succeed, and return its output."""
    with start_program(program, *args) as process:
        out, _ = process.communicate(timeout=100)
    assert process.returncode == 0
    return out.decode()


def finish(recorder, folder):
    """Close the recorder, read its files, compare the records with the recorder's counts, and return the store."""
    recorder.close()
    store, stats = read_store(folder), recorder.stats()
    assert stats.records == len(store.records)
    assert (stats.dropped, stats.dropped_limit) == (store.dropped, store.dropped_limit)
    assert stats.bytes == store.bytes
    assert stats.threads == len(store.threads)
    return store


def run_thread(function, *args):
    """Run a function in a thread, and wait until the system has removed the thread; `join` returns earlier."""
    thread = threading.Thread(target=function, args=args)
    thread.start()
    thread.join()
    poll(lambda: not os.path.exists(f"/proc/self/task/{thread.native_id}"))
