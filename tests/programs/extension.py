"""Load an extension at a path given, with the modules of this checkout around it, into any CPython that has cffi."""

import importlib.util
import sys
import types
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "agent" / "ms_profiler"


def load(path):
    """Return the extension.

    Args:
        path: of `ms_profiler._native`, built for any CPython.
    """
    package = types.ModuleType("ms_profiler")
    package.__path__ = [str(PACKAGE)]
    sys.modules["ms_profiler"] = package
    spec = importlib.util.spec_from_file_location("ms_profiler._native", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["ms_profiler._native"] = module
    spec.loader.exec_module(module)
    return module


def register(native, c_calls):
    """Have the interpreter tell the extension of calls; return what ends that, and two arguments of `trace_calls`.

    Args:
        native: the extension.
        c_calls: also calls of functions in C.
    """
    from ms_profiler.job.recorder.interpreter import Interpreter

    monitoring = getattr(sys, "monitoring", None)
    if monitoring is None:
        return None, None, None
    interpreter = Interpreter(native)
    assert interpreter.register(c_calls)
    return interpreter.release, interpreter.switch, monitoring.DISABLE
