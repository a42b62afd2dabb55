"""Suppress Kineto's lines about its start and stop when ms-profiler starts and stops it.

Kineto prints a line on stderr at each start and stop. Kineto's settings can suppress these lines only together with
more severe lines. So we change Kineto's log level, a variable of the library, and restore it at once. Kineto still
prints the lines when the script's own profilers start and stop.
"""

import ctypes
import os
import sys
from collections.abc import Callable
from typing import TypeVar

#: mangled name of the variable `libkineto::Logger::severityLevel_`, and a level above the severity of every line
_LEVEL = "_ZN9libkineto6Logger14severityLevel_E"
_NOTHING = 99

Result = TypeVar("Result")


def silently(call: Callable[[], Result]) -> Result:
    """Call a function while Kineto's lines are suppressed, and return its result.

    If the variable with the log level is not found, Kineto prints its lines.

    Args:
        call: the function.
    """
    level = _level()
    if level is None:
        return call()
    before, level.value = level.value, _NOTHING
    try:
        return call()
    finally:
        # at its first use, Kineto itself sets the level; then that level must stay
        if level.value == _NOTHING:
            level.value = before


def _level() -> ctypes.c_int | None:
    folder = os.path.dirname(str(sys.modules["torch"].__file__))
    try:
        library = ctypes.CDLL(os.path.join(folder, "lib", "libtorch_cpu.so"), mode=os.RTLD_NOLOAD)
        return ctypes.c_int.in_dll(library, _LEVEL)
    except (OSError, ValueError):
        return None
