"""The account of a result: a small file that counts the disk space of all processes that write into the result.

`native/account.h` defines the format. `tests/test_account.py` compares this file with the format in this module.
"""

import struct
from _io import open
from typing import Final, NamedTuple

MAGIC: Final = 0x3154434341505350
NO_LIMIT: Final = 2**64 - 1
#: the fields of the file: magic number, limit in bytes, bytes that are taken, number of refused processes
FORMAT: Final = struct.Struct("=QQQQ")
#: size of the file, bytes: one page of memory, because processes map the file into memory
FILE_SIZE: Final = 4096


class Account(NamedTuple):
    """The disk space of a result: how many bytes its records may take and how many they take.

    Attributes:
        limit: the number of bytes that the records may take; `NO_LIMIT` for no limit.
        taken: the number of bytes that the records take.
        refused: number of processes that could not begin to record because no space was left.
    """

    limit: int = NO_LIMIT
    taken: int = 0
    refused: int = 0

    @property
    def ceilings(self) -> tuple[int, int, int]:
        """Return the limits in bytes up to which three kinds of records are accepted.

        The kinds are fine-grained records (operators and modules), coarse records, and steps with names. When disk
        space becomes short, fine-grained records are refused first, and steps and names last.
        """
        limit = self.limit
        return (limit, limit, limit) if limit == NO_LIMIT else (limit // 2, limit - limit // 8, limit)

    def packed(self) -> bytes:
        """Return the content of the account's file, up to the last byte that is not zero."""
        return FORMAT.pack(MAGIC, self.limit, self.taken, self.refused)


def parsed(content: bytes) -> Account | None:
    """Parse the content of an account's file; return None if the content is no account."""
    if len(content) < FORMAT.size:
        return None
    magic, *values = FORMAT.unpack_from(content)
    return Account(*values) if magic == MAGIC else None


def read(path: str) -> Account | None:
    """Return the account in a file; None if the file cannot be read or holds no account."""
    try:
        with open(path, "rb") as stream:
            return parsed(stream.read(FORMAT.size))
    except OSError:
        return None
