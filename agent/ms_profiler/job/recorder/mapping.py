"""Map a file into memory without a copy of its descriptor.

Up to Python 3.12, the module `mmap` keeps a copy of the descriptor, and closes the copy when the mapping is deleted. A
job may close all descriptors that it does not know, and then open a file that gets the number of the copy. Then `mmap`
would close the job's file. So this module calls the function `mmap` of libc, which needs no copy.
"""

import ctypes
import mmap
import posix
from typing import Final

_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_LIBC.mmap.restype = ctypes.c_void_p
_LIBC.mmap.argtypes = (
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_ssize_t,
)
_LIBC.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_FAILED: Final = ctypes.c_void_p(-1).value


class Mapping:
    """Map a file from its start, until this object is deleted.

    Args:
        descriptor: the descriptor of the file; may be closed afterwards.
        size: number of bytes to map.
        writable: whether writes reach the file.

    Attributes:
        memory: the memory of the mapping, valid as long as this object exists.

    Raises:
        OSError: the file cannot be mapped.
    """

    def __init__(self, descriptor: int, size: int, writable: bool = True) -> None:
        self._size = size
        self._address: int | None = None
        if writable:
            rights, kind = mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED
        else:
            rights, kind = mmap.PROT_READ, mmap.MAP_PRIVATE  # every file system supports such a mapping
        address = _LIBC.mmap(None, size, rights, kind, descriptor, 0)
        if address == _FAILED:
            error = ctypes.get_errno()
            raise OSError(error, posix.strerror(error))
        self._address = address
        self.memory = memoryview((ctypes.c_ubyte * size).from_address(address)).cast("B")

    def __del__(self, munmap=_LIBC.munmap) -> None:  # type: ignore[no-untyped-def] # modules may be gone by then
        """Unmap the file."""
        if self._address is not None:
            munmap(self._address, self._size)
