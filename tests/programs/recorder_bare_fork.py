"""Fork by the bare system call, past every fork handler, and use the recorder in the children. argv: folder"""

import ctypes
import os
import platform
import signal
import sys

from ms_profiler.store.device_format import Source
from recorders import make

CLONE = {"x86_64": 56, "aarch64": 220}[platform.machine()]

recorder = make("native")
recorder.open(sys.argv[1])
name = recorder.intern("x")
outer = recorder.begin(name, 1, 1)
tracing = recorder.tracing(Source.CUPTI)


def in_child(call):
    """Run a function in a child, as the first call of the recorder there; return the child's exit status."""
    child = ctypes.CDLL(None).syscall(CLONE, signal.SIGCHLD, 0, 0, 0, 0)
    if child == 0:
        os._exit(call() is not None)
    return os.waitpid(child, 0)[1]


def record():
    token = recorder.begin(name, 1, 2)
    recorder.end(outer)
    recorder.instant(name, 1)
    assert token == 0 and recorder.stats().records == 0


def nothing(*_):
    return None


calls = [
    record,
    lambda: nothing(recorder.intern("x")),
    lambda: nothing(recorder.intern("of the child"), recorder.intern("x")),
    lambda: recorder.thread_name("child"),
    lambda: recorder.end(outer),
    lambda: recorder.counter(name, 1.0),
    lambda: nothing(recorder.record(3, 1, 0, name, 1, 2, 3)),
    lambda: nothing(recorder.take_operators(True), recorder.take_operators(False)),
    lambda: nothing(recorder.operators_elsewhere(), recorder.call_at_rest(1, int)),
    lambda: nothing(recorder.span_cost(), recorder.now()),
    lambda: nothing(recorder.spend(1), recorder.set_aside(1), recorder.room()),
    lambda: nothing(tracing.ready(), tracing.flush(), tracing.detach(), tracing.counts()),
    lambda: nothing(recorder.pause(True), recorder.fine(False)),
    recorder.anchor,
    recorder.close,
]
assert [in_child(call) for call in calls] == [0] * len(calls)
recorder.end(outer)
recorder.close()
print(os.getpid())
