"""Find out whether the driver of a device is installed, by loading it.

ms-profiler does so only if an option names the device.
"""

import posix
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ctypes


def load(libraries: Sequence[str]) -> "ctypes.CDLL":
    """Return the driver's library, loaded from the first place that has it.

    Args:
        libraries: paths of the library, or names that the system's loader finds.

    Raises:
        OSError: no place has the library; the error is that of the last place.
    """
    import ctypes  # takes a millisecond, and few jobs need it

    *firsts, last = libraries
    for library in firsts:
        try:
            return ctypes.CDLL(library, mode=posix.RTLD_LAZY | posix.RTLD_LOCAL)
        except OSError:
            continue
    return ctypes.CDLL(last, mode=posix.RTLD_LAZY | posix.RTLD_LOCAL)


def missing(libraries: Sequence[str], remedy: str) -> str:
    """Return a line that says why the driver cannot be loaded; empty if it can.

    Args:
        libraries: paths of the driver's library, or names that the system's loader finds.
        remedy: advice for the user if there is no driver.
    """
    try:
        load(libraries)
    except OSError as reason:
        return f"there is no driver ({reason}); {remedy}"
    return ""
