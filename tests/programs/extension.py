"""Load a built extension with the modules of this checkout around it, into any CPython that has cffi."""

import importlib.util
import os
import sys
import types
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "agent" / "ms_profiler"


def load(path):
    """Import the extension and return its module.

    Args:
        path: the path of a build of `ms_profiler._native`; every CPython can load the same build (abi3).
    """
    package = types.ModuleType("ms_profiler")
    package.__path__ = [str(PACKAGE)]
    sys.modules["ms_profiler"] = package
    spec = importlib.util.spec_from_file_location("ms_profiler._native", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["ms_profiler._native"] = module
    spec.loader.exec_module(module)
    return module


def open_store(native, folder, slots):
    """Make the extension record into a folder, without limits of disk and memory.

    Args:
        native: the extension.
        folder: the folder of the segments.
        slots: the number of slots of the first segment.
    """
    limit = memory = 2**64 - 1
    assert native.lib.msp_open(os.fsencode(folder), slots, b"", limit, memory, 0) == 0


def register(native, c_calls):
    """Make the interpreter report calls to the extension.

    Args:
        native: the extension.
        c_calls: whether the interpreter also reports calls of C functions.

    Returns:
        A function that ends the reports, and two arguments of `trace_calls`. All three are None before CPython 3.12.
    """
    from ms_profiler.job.recorder.interpreter import Interpreter

    monitoring = getattr(sys, "monitoring", None)
    if monitoring is None:
        return None, None, None
    interpreter = Interpreter(native)
    assert interpreter.register(c_calls)
    return interpreter.release, interpreter.switch, monitoring.DISABLE
