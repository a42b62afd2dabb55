"""The interface through which ms-profiler uses a vendor's library that traces a device, such as CUPTI."""

from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import Protocol


class Outcome(IntEnum):
    """Result of a call of a vendor's tracing interface, for example CUPTI."""

    DONE = 0
    IDLE = 1  # the job does not use the device's driver in this process
    OWNED = 2  # another tool uses the interface
    FAILED = 3  # the interface cannot be used
    HANGS = 4  # the interface did not answer; it is never called again
    MISSING = 5  # the library cannot be loaded; the caller may try another one


class Kinds(IntFlag):
    """Kinds of device records that can be requested."""

    NOTHING = 0
    BASIC = 1  # kernels, copies, and the calls of the runtime that launch them
    DRIVER = 2  # calls of the driver: compilers launch kernels without the runtime
    GRAPHS = 4  # launches of graphs, in place of the kernels in them
    MEMORY = 8  # memory, copies and sets, where the interface reports them only on demand


@dataclass(frozen=True)
class TraceCounts:
    """Counts of a device's records in this process so far.

    Attributes:
        records: number of written records.
        refused: number of records not written because max_memory or max_disk was reached, or the disk was full.
        unknown: number of records of a kind that was not requested.
        unfinished: number of records that still had no end when they had to be read.
        unreadable: number of buffers with an invalid end.
        lost: number of records that were deleted because too many waited to be read.
        dropped: number of records that the vendor's interface dropped, by its own count.
        stopped: how often recording was stopped because the interface did not return its buffers.
        uncertainty_ns: the uncertainty of the times, ns; 0 if the interface uses ms-profiler's clock.
        version: the version that the interface reports.
    """

    records: int
    refused: int
    unknown: int
    unfinished: int
    unreadable: int
    lost: int
    dropped: int
    stopped: int
    uncertainty_ns: int
    version: int


class Tracing(Protocol):
    """Attach the tracing interface of a device, record, and detach it; other threads run during each call."""

    def ready(self) -> bool:
        """Return whether the job already uses the device's driver in this process; the check loads no library."""

    def attach(self, library: str) -> tuple[Outcome, str]:
        """Attach the interface without recording; return the outcome and its reason.

        Args:
            library: path of the vendor's library, or a name that the system's loader finds.
        """

    def record(self, kinds: Kinds) -> tuple[Outcome, str]:
        """Record these kinds of device records from now on; `NOTHING` stops recording.

        Returns:
            The outcome, and a text: after a failure its reason, after success the kinds that the interface refuses.
        """

    def flush(self) -> Outcome:
        """Write all finished device records to the result."""

    def detach(self) -> Outcome:
        """Write all device records to the result, and detach the interface."""

    def counts(self) -> TraceCounts:
        """Return the counts of device records so far."""
