"""Whether there is a driver at all: asked only where somebody names the device, because that loads it."""

import os

LIBRARY = "libcuda.so.1"


def missing() -> str:
    """Return why there is no driver of NVIDIA's, in one line; empty when there is one."""
    import ctypes  # a millisecond, and hardly ever needed

    try:
        ctypes.CDLL(LIBRARY, mode=os.RTLD_LAZY | os.RTLD_LOCAL)
    except OSError as reason:
        return f"there is no driver ({reason}); install NVIDIA's driver"
    return ""
