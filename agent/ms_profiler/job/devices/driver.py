"""Whether there is a driver at all: asked only where somebody names the device, because that loads it."""

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
        OSError: it is in none of them; the error is that of the last.
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
    """Return why a driver cannot be loaded, in one line; empty when it is, from there on.

    Args:
        libraries: of the driver, see `load`.
        remedy: what to do where there is none.
    """
    try:
        load(libraries)
    except OSError as reason:
        return f"there is no driver ({reason}); {remedy}"
    return ""
