"""Find out whether there is a driver, only where an option names the device, because the test loads the driver."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ctypes


def load(libraries: Sequence[str]) -> "ctypes.CDLL":
    """Return a library of the driver, from the first place where it can be loaded.

    Args:
        libraries: paths, or names for the loader.

    Raises:
        OSError: no place has it; the error is that of the last place.
    """
    import ctypes  # a millisecond, and hardly ever needed

    *firsts, last = libraries
    for library in firsts:
        try:
            return ctypes.CDLL(library, mode=os.RTLD_LAZY | os.RTLD_LOCAL)
        except OSError:
            continue
    return ctypes.CDLL(last, mode=os.RTLD_LAZY | os.RTLD_LOCAL)


def missing(libraries: Sequence[str], remedy: str) -> str:
    """Return a line that says why the driver cannot be loaded; empty if it has been loaded.

    Args:
        libraries: the libraries of the driver, see `load`.
        remedy: the action for the user where there is none.
    """
    try:
        load(libraries)
    except OSError as reason:
        return f"there is no driver ({reason}); {remedy}"
    return ""
