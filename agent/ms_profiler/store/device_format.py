"""Mirror of `native/device_format.h`: the fields of the slots of an accelerator's records.

The header file explains every field; `tests/test_device_format.py` compares the two.
"""

from enum import IntEnum


class Device(IntEnum):
    """Kind of a record; the category of its slots."""

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
    """Interface that reported a record; the flags of its slots."""

    CUPTI = 1
    MSPTI = 2
