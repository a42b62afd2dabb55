"""Keep Kineto from printing that it begins and ends, where it is us who begin and end it.

It prints a line each time, on stderr, of a severity that no setting of Kineto's leaves out without what is more severe.
The level lies in a variable of the library, which is put back at once: the script's own profilers print what they did.
"""

import ctypes
import os
import sys
from collections.abc import Callable
from typing import TypeVar

#: `libkineto::Logger::severityLevel_`, and more than any severity
_LEVEL = "_ZN9libkineto6Logger14severityLevel_E"
_NOTHING = 99

Result = TypeVar("Result")


def silently(call: Callable[[], Result]) -> Result:
    """Call what makes Kineto print; where the variable is not found it prints.

    Args:
        call: what to call.
    """
    level = _level()
    if level is None:
        return call()
    before, level.value = level.value, _NOTHING
    try:
        return call()
    finally:
        # Kineto sets it itself, when it is first used
        if level.value == _NOTHING:
            level.value = before


def _level() -> ctypes.c_int | None:
    folder = os.path.dirname(str(sys.modules["torch"].__file__))
    try:
        library = ctypes.CDLL(os.path.join(folder, "lib", "libtorch_cpu.so"), mode=os.RTLD_NOLOAD)
        return ctypes.c_int.in_dll(library, _LEVEL)
    except (OSError, ValueError):
        return None
