"""The account of a result: a small file with the disk space that all processes of the result take together.

`native/account.h` defines the format; `tests/test_account.py` compares it with this module.
"""

import struct
from typing import Final, NamedTuple

MAGIC: Final = 0x3154434341505350
NO_LIMIT: Final = 2**64 - 1
#: the fields of the file: magic, limit, bytes, refused
FORMAT: Final = struct.Struct("=QQQQ")
#: size of the file in bytes: one page, because processes map the file into memory
FILE_SIZE: Final = 4096


class Account(NamedTuple):
    """The content of an account.

    Attributes:
        limit: the number of bytes that may be taken; `NO_LIMIT` for no limit.
        taken: the number of bytes that are taken.
        refused: number of processes that could not begin to record because there was no room.
    """

    limit: int = NO_LIMIT
    taken: int = 0
    refused: int = 0

    @property
    def ceilings(self) -> tuple[int, int, int]:
        """Return three limits in bytes: for fine-grained records, for coarse records, and for steps and names."""
        limit = self.limit
        return (limit, limit, limit) if limit == NO_LIMIT else (limit // 2, limit - limit // 8, limit)

    def packed(self) -> bytes:
        """Return the content of the account's file, up to the last byte that is not zero."""
        return FORMAT.pack(MAGIC, self.limit, self.taken, self.refused)


def parsed(content: bytes) -> Account | None:
    """Parse the content of an account's file; None if the content is no account."""
    if len(content) < FORMAT.size:
        return None
    magic, *values = FORMAT.unpack_from(content)
    return Account(*values) if magic == MAGIC else None


def read(path: str) -> Account | None:
    """Return the account in a file; None if it cannot be read or is no account."""
    try:
        with open(path, "rb") as stream:
            return parsed(stream.read(FORMAT.size))
    except OSError:
        return None
