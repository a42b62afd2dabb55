"""Suppress Kineto's lines about its start and stop when ms-profiler starts and stops it.

Kineto prints a line on stderr at each start and stop. Kineto's settings would suppress these lines, but also more
severe ones. So ms-profiler changes Kineto's log level, a variable in the library, and restores it right after the start
or stop. When the script's own profilers start and stop, Kineto prints its lines as usual.
"""

import ctypes
import posix
import sys
from collections.abc import Callable
from typing import TypeVar

from ms_profiler import paths

#: mangled name of the variable `libkineto::Logger::severityLevel_`, and a level above the severity of every line
_LEVEL = "_ZN9libkineto6Logger14severityLevel_E"
_NOTHING = 99
#: the level that was set before `silently` changed it
_usual = ctypes.c_int()

Result = TypeVar("Result")


def silently(call: Callable[[], Result]) -> Result:
    """Call a function while Kineto's lines are suppressed, and return its result.

    If this module cannot find the variable with Kineto's log level in the library, Kineto prints its lines.

    Args:
        call: the function, which starts or stops Kineto.
    """
    level = _level()
    if level is None:
        return call()
    # An exception of the job's signal handlers may have ended an earlier call before it restored the level.
    if level.value != _NOTHING:
        _usual.value = level.value
    level.value = _NOTHING
    try:
        return call()
    finally:
        # At its first use, Kineto itself sets the level. That level must stay, so restore only our own value.
        if level.value == _NOTHING:
            level.value = _usual.value


def _level() -> ctypes.c_int | None:
    folder = paths.dirname(str(sys.modules["torch"].__file__))
    try:
        library = ctypes.CDLL(paths.join(folder, "lib", "libtorch_cpu.so"), mode=posix.RTLD_NOLOAD)
        return ctypes.c_int.in_dll(library, _LEVEL)
    except (OSError, ValueError):
        return None
