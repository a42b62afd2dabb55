"""Whether there is a driver at all: asked only where somebody names the device, because that loads it."""

import os


def missing(library: str, remedy: str) -> str:
    """Return why a driver cannot be loaded, in one line; empty when it is, from there on.

    Args:
        library: of the driver.
        remedy: what to do where there is none.
    """
    import ctypes  # a millisecond, and hardly ever needed

    try:
        ctypes.CDLL(library, mode=os.RTLD_LAZY | os.RTLD_LOCAL)
    except OSError as reason:
        return f"there is no driver ({reason}); {remedy}"
    return ""
