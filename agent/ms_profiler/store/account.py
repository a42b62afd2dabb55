"""The account of a result: a small file that counts the disk space taken by all its processes.

`native/account.h` has its format, and `tests/test_account.py` compares the two.
"""

import struct
from typing import Final, NamedTuple

MAGIC: Final = 0x3154434341505350
NO_LIMIT: Final = 2**64 - 1
#: magic, limit, bytes, refused
FORMAT: Final = struct.Struct("=QQQQ")
#: bytes of the file: a page that is mapped
FILE_SIZE: Final = 4096


class Account(NamedTuple):
    """The content of an account.

    Attributes:
        limit: bytes that may be taken; `NO_LIMIT` is any number.
        taken: bytes that are taken.
        refused: processes that found no room to begin.
    """

    limit: int = NO_LIMIT
    taken: int = 0
    refused: int = 0

    @property
    def ceilings(self) -> tuple[int, int, int]:
        """Return the bytes that fine-grained records, all records but steps, and everything may reach."""
        limit = self.limit
        return (limit, limit, limit) if limit == NO_LIMIT else (limit // 2, limit - limit // 8, limit)

    def packed(self) -> bytes:
        """Return the content of its file, up to the last byte that is not zero."""
        return FORMAT.pack(MAGIC, self.limit, self.taken, self.refused)


def parsed(content: bytes) -> Account | None:
    """Return the account that a file holds; None when it holds none."""
    if len(content) < FORMAT.size:
        return None
    magic, *values = FORMAT.unpack_from(content)
    return Account(*values) if magic == MAGIC else None


def read(path: str) -> Account | None:
    """Return the account in a file; None where there is none."""
    try:
        with open(path, "rb") as stream:
            return parsed(stream.read(FORMAT.size))
    except OSError:
        return None
