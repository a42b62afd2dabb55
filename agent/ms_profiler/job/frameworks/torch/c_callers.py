"""Tell whether PyTorch's C++ code has called the Python code that this thread runs.

PyTorch's C++ code calls Python code in some cases: for operators that are implemented in Python, for forward methods of
autograd's functions, and for hooks of a backward pass.
"""

import ctypes
from collections.abc import Callable

#: Largest number of C functions on the stack to look at, beginning with the innermost one.
DEPTH = 1024
_LIBRARIES = b"libtorch"


class _Place(ctypes.Structure):
    """The result of the C function `dladdr`: name of the library file, its begin in memory, and the nearest symbol."""

    _fields_ = (
        ("file", ctypes.c_char_p),
        ("begin", ctypes.c_void_p),
        ("symbol", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    )


def checker() -> Callable[[], bool]:
    """Return a function that tells whether PyTorch's C++ code is among the callers of the running Python code.

    The returned function returns False if the C library cannot list the callers. Its first call takes 1 ms, a later one
    0.1 ms.
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
