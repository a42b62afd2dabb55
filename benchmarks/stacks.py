"""Added cost of a traced Python call, beside VizTracer's, in turn in one process.

    PYTHON benchmarks/stacks.py EXTENSION [ROUNDS]

PYTHON is any CPython that has cffi and viztracer, EXTENSION the path of `ms_profiler._native`: so one build of it can
be measured on each version. Quoted are medians of the differences to neighbouring bare runs, for calls of Python alone
and with those of functions in C; A/A is a bare run against its neighbours.
"""

import ast
import glob
import importlib.util
import os
import platform
import statistics
import sys
import tempfile
import textwrap
import time
import types
from pathlib import Path

FIB = 21
SOURCE = Path(textwrap.__file__).read_text()
OWN, OTHER, BARE = "ours", "VizTracer", "A/A"


def load(path):
    """Return the extension."""
    package = types.ModuleType("ms_profiler")
    package.__path__ = []
    sys.modules["ms_profiler"] = package
    spec = importlib.util.spec_from_file_location("ms_profiler._native", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["ms_profiler._native"] = module
    spec.loader.exec_module(module)
    return module


def fib(number):
    return number if number < 2 else fib(number - 1) + fib(number - 2)


def recursion():
    fib(FIB)


def library():
    """Parse a module of the standard library, and write it again."""
    ast.unparse(ast.parse(SOURCE))


class Ours:
    """Our tracer.

    Args:
        native: the extension, with a store open.
        c_calls: functions in C too.
    """

    def __init__(self, native, c_calls):
        self.native, self.c_calls = native, c_calls
        self.monitoring = getattr(sys, "monitoring", None)

    def switch(self, on):
        self.monitoring.set_events(4, self.events * on)

    def start(self):
        switch, disable = None, None
        if self.monitoring:
            self.monitoring.use_tool_id(4, "ms-profiler")
            of, native = self.monitoring.events, self.native
            calls = {
                of.PY_START: native.call_began,
                of.PY_RESUME: native.call_resumed,
                of.PY_THROW: native.call_thrown,
                of.PY_RETURN: native.call_returned,
                of.PY_YIELD: native.call_yielded,
                of.PY_UNWIND: native.call_unwound,
            }
            self.events = sum(calls) + of.CALL * self.c_calls
            calls |= {
                of.CALL: native.c_call_began,
                of.C_RETURN: native.c_call_returned,
                of.C_RAISE: native.c_call_raised,
            }
            for event, call in calls.items():
                self.monitoring.register_callback(4, event, call)
            switch, disable = self.switch, self.monitoring.DISABLE
        assert self.native.trace_calls(0.0, 0, self.c_calls, (), (), switch, disable)

    def stop(self):
        self.native.trace_no_calls()
        if self.monitoring:
            self.monitoring.free_tool_id(4)
        else:
            sys.setprofile(None)


class Theirs:
    """VizTracer; its report is not written."""

    def __init__(self, c_calls):
        from viztracer import VizTracer

        self.tracer = VizTracer(tracer_entries=1_000_000, verbose=0, ignore_c_function=not c_calls)

    def start(self):
        self.tracer.start()

    def stop(self):
        self.tracer.stop()
        self.tracer.clear()


def timed(program):
    program()  # what the interpreter changes in the code is changed then
    start = time.perf_counter_ns()
    program()
    return time.perf_counter_ns() - start


def measure(native, program, c_calls, rounds):
    """Return the added nanoseconds of a call for each tracer, and how many calls there are."""
    tracers = {OWN: Ours(native, c_calls), OTHER: Theirs(c_calls)}
    tracers[OWN].start()
    before = native.calls_seen()
    program()
    calls = native.calls_seen() - before
    tracers[OWN].stop()
    added = {OWN: [], OTHER: [], BARE: []}
    last = timed(program)
    for _ in range(rounds):
        for name, tracer in tracers.items():
            tracer.start()
            traced = timed(program)
            tracer.stop()
            bare = timed(program)
            added[name].append((traced - (last + bare) / 2) / calls)
            last = bare
        bare = timed(program)
        added[BARE].append((bare - last) / calls)
        last = bare
    return {name: statistics.median(values) for name, values in added.items()}, calls


def main():
    native, rounds = load(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 25
    from viztracer import __version__ as version

    with open("/proc/cpuinfo") as file:
        model = next((line.split(":")[1].strip() for line in file if line.startswith("model name")), "")
    print(f"{model}, CPython {platform.python_version()}, VizTracer {version}, {rounds} rounds")
    with tempfile.TemporaryDirectory() as folder:
        assert native.lib.msp_open(os.fsencode(folder), 2048, b"", 2**64 - 1, 0) == 0
        for program in recursion, library:
            for c_calls in False, True:
                found, calls = measure(native, program, c_calls, rounds)
                print(
                    f"{program.__name__:10} {'C too' if c_calls else 'Python':7} {calls:7} calls:",
                    *(f"{name} {value:6.1f} ns" for name, value in found.items()),
                    f"ratio {found[OWN] / found[OTHER]:.2f}",
                )
                for path in sorted(glob.glob(os.path.join(folder, "*.seg")))[1:-3]:
                    os.unlink(path)
        native.lib.msp_close()


if __name__ == "__main__":
    main()
