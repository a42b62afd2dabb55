"""Suppress Kineto's lines about its start and stop when ms-profiler starts and stops it.

Kineto prints a line on stderr each time. Its settings can suppress this line only together with more severe ones. So we
change its log level, a variable of the library, and restore it at once. The script's own profilers still print.
"""

import ctypes
import os
import sys
from collections.abc import Callable
from typing import TypeVar

#: mangled name of `libkineto::Logger::severityLevel_`, and a value above every severity
_LEVEL = "_ZN9libkineto6Logger14severityLevel_E"
_NOTHING = 99

Result = TypeVar("Result")


def silently(call: Callable[[], Result]) -> Result:
    """Call a function during which Kineto is silent; where the variable is not found, Kineto prints.

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
        # Kineto sets the level itself at its first use
        if level.value == _NOTHING:
            level.value = before


def _level() -> ctypes.c_int | None:
    folder = os.path.dirname(str(sys.modules["torch"].__file__))
    try:
        library = ctypes.CDLL(os.path.join(folder, "lib", "libtorch_cpu.so"), mode=os.RTLD_NOLOAD)
        return ctypes.c_int.in_dll(library, _LEVEL)
    except (OSError, ValueError):
        return None
