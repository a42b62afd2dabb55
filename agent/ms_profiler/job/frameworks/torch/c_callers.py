"""Tell whether PyTorch's C++ code has called the Python code that this thread runs.

Examples of such Python code are operators that are implemented in Python, forward methods of autograd's functions, and
hooks of a backward pass.
"""

import ctypes
from collections.abc import Callable

#: Largest number of C functions to look at, from the innermost function outward.
DEPTH = 1024
_LIBRARIES = b"libtorch"


class _Place(ctypes.Structure):
    """What `dladdr` returns: the name of the file, its begin, and the nearest symbol."""

    _fields_ = (
        ("file", ctypes.c_char_p),
        ("begin", ctypes.c_void_p),
        ("symbol", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    )


def checker() -> Callable[[], bool]:
    """Return a function that returns whether its caller is inside of PyTorch's C++ code.

    The function returns False if the C library cannot list the callers. The first call takes 1 ms, a later one 0.1 ms.
    """
    try:
        libc = ctypes.CDLL(None)
        backtrace, dladdr = libc.backtrace, libc.dladdr
    except (OSError, AttributeError):
        return bool
    backtrace.argtypes = (ctypes.c_void_p, ctypes.c_int)
    dladdr.argtypes = (ctypes.c_void_p, ctypes.c_void_p)

    def inside() -> bool:
        addresses, place = (ctypes.c_void_p * DEPTH)(), _Place()
        count = backtrace(addresses, DEPTH)
        for address in set(addresses[:count]):
            if dladdr(address, ctypes.byref(place)) and _LIBRARIES in (place.file or b"").rpartition(b"/")[2]:
                return True
        return bool(count == DEPTH)

    return inside
