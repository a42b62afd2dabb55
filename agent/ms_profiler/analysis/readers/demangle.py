"""Demangle the names of kernels: `gemm(float*, int)` for `_Z4gemmPfi`.

The C++ library of the machine demangles the names. If the machine has no C++ library, names stay mangled. Source: the
Itanium C++ ABI, `abi::__cxa_demangle`.
"""

import ctypes
from collections.abc import Iterable

_LIBRARIES = ("libstdc++.so.6", "libc++abi.so.1")
_PREFIX = "_Z"


def names(mangled: Iterable[str]) -> dict[str, str]:
    """Map each name to its readable form. A name that is not mangled, or is invalid, maps to itself.

    Args:
        mangled: names without duplicates.
    """
    library = _library()
    return {name: _read(library, name) if library and name.startswith(_PREFIX) else name for name in mangled}


def _library() -> ctypes.CDLL | None:
    for name in _LIBRARIES:
        try:
            library = ctypes.CDLL(name)
            function = library.__cxa_demangle
        except (OSError, AttributeError):
            continue
        function.restype = ctypes.c_void_p
        function.argtypes = (ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
        library.free.argtypes = (ctypes.c_void_p,)
        return library
    return None


def _read(library: ctypes.CDLL, name: str) -> str:
    address = library.__cxa_demangle(name.encode("utf-8", "replace"), None, None, None)
    if not address:
        return name
    try:
        return ctypes.string_at(address).decode("utf-8", "replace")
    finally:
        library.free(address)
