"""The format of the records of accelerators, for example of kernels, as `native/device_format.h` defines it.

The header file explains every field. `tests/test_device_format.py` compares this module with it.
"""

from enum import IntEnum


class Device(IntEnum):
    """The kind of a device's record, for example a kernel; stored in the field `category` of the record's slots."""

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
    """The interface that reported a device's record, for example CUPTI; stored in `flags` of the record's slots."""

    CUPTI = 1
    MSPTI = 2
