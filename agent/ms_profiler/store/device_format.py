"""The fields of slots with an accelerator's records, as in `native/device_format.h`.

The header file explains every field; `tests/test_device_format.py` compares the two.
"""

from enum import IntEnum


class Device(IntEnum):
    """The kind of a device's record; the category of the record's slots has this value."""

    KERNEL = 1
    COPY = 2
    SET = 3
    API = 4
    COMMUNICATION = 5
    MEMORY = 6
    SYNC = 7
    MARKER = 8
    OVERHEAD = 9
    GRAPH = 10


class Source(IntEnum):
    """The interface that reported a record; the flags of the record's slots have this value."""

    CUPTI = 1
    MSPTI = 2
