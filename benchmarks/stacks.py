"""Measure the time that tracing adds to a Python call: with our tracer, with VizTracer, and with an empty callback.

    PYTHON benchmarks/stacks.py EXTENSION [ROUNDS]

PYTHON is any CPython that has cffi and viztracer, and EXTENSION is the path of `ms_profiler._native`. So one build of
the extension can be measured on each version of Python. The tracers alternate in one process. Each figure is the median
difference between a traced run and the untraced runs before and after it. One row is for calls of Python functions
only, another also for calls of C functions. A/A compares an untraced run with its neighbours. "empty" is the
interpreter's part of the time, from CPython 3.12 on: sys.monitoring calls our callbacks, which return at once because
nothing is traced.
"""

import ast
import glob
import os
import platform
import statistics
import sys
import tempfile
import textwrap
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "programs"))
import extension

FIB = 21
SOURCE = Path(textwrap.__file__).read_text()
OWN, OTHER, EMPTY, BARE = "ours", "VizTracer", "empty", "A/A"


def fib(number):
    return number if number < 2 else fib(number - 1) + fib(number - 2)


def recursion():
    fib(FIB)


def library():
    """Parse the source of a module of the standard library, and generate source from it again."""
    ast.unparse(ast.parse(SOURCE))


class Ours:
    """Our tracer, with the methods by which the benchmark starts and stops a tracer.

    Args:
        native: the extension, with a store open.
        c_calls: whether to trace calls of C functions, too.
    """

    def __init__(self, native, c_calls):
        self.native, self.c_calls = native, c_calls
        self.release = None

    def start(self):
        self.release, switch, disable = extension.register(self.native, self.c_calls)
        assert self.native.trace_calls(0.0, 0, self.c_calls, (), (), switch, disable)

    def stop(self):
        self.native.trace_no_calls()
        if self.release:
            self.release()
        else:
            sys.setprofile(None)


class Empty(Ours):
    """The interpreter's part alone: it calls our callbacks, which return at once because nothing is traced."""

    def start(self):
        self.release, switch, _ = extension.register(self.native, self.c_calls)
        switch(True)

    def stop(self):
        self.release()


class Theirs:
    """VizTracer without writing its report."""

    def __init__(self, c_calls):
        from viztracer import VizTracer

        self.tracer = VizTracer(tracer_entries=1_000_000, verbose=0, ignore_c_function=not c_calls)
        sys.setprofile(None)  # before CPython 3.12, VizTracer's constructor leaves its own profile function installed

    def start(self):
        self.tracer.start()

    def stop(self):
        self.tracer.stop()
        self.tracer.clear()


def timed(program):
    program()  # warm up: after this run, the interpreter has specialised the code
    start = time.perf_counter_ns()
    program()
    return time.perf_counter_ns() - start


def measure(native, program, c_calls, rounds):
    """Return the nanoseconds that each tracer adds to a call, and the number of calls in the program."""
    tracers = {OWN: Ours(native, c_calls), OTHER: Theirs(c_calls)}
    if hasattr(sys, "monitoring"):
        tracers[EMPTY] = Empty(native, c_calls)
    tracers[OWN].start()
    before = native.calls_seen()
    program()
    calls = native.calls_seen() - before
    tracers[OWN].stop()
    added = {name: [] for name in (*tracers, BARE)}
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
    native, rounds = extension.load(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 25
    from viztracer import __version__ as version

    with open("/proc/cpuinfo") as file:
        model = next((line.split(":")[1].strip() for line in file if line.startswith("model name")), "")
    print(f"{model}, CPython {platform.python_version()}, VizTracer {version}, {rounds} rounds")
    with tempfile.TemporaryDirectory() as folder:
        extension.open_store(native, folder, 2048)
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
