"""The tracing interface of a device, as the extension offers it."""

from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import Protocol


class Outcome(IntEnum):
    """Result of a call; see `native/devices/tracing.h`."""

    DONE = 0
    IDLE = 1
    OWNED = 2
    FAILED = 3
    HANGS = 4
    MISSING = 5


class Kinds(IntFlag):
    """Kinds of records; see `native/devices/tracing.h`."""

    NOTHING = 0
    BASIC = 1
    DRIVER = 2
    GRAPHS = 4
    MEMORY = 8


@dataclass(frozen=True)
class TraceCounts:
    """Counts of a device's records in this process so far.

    Attributes:
        records: the number of written records.
        refused: not written, because of a budget or the disk.
        unknown: records of a kind that was not requested.
        unfinished: had no end yet when they had to be read.
        unreadable: buffers with an invalid end.
        lost: thrown away, because too many waited to be read.
        dropped: dropped by the interface itself, by its own count.
        stopped: how often recording was stopped because too many buffers did not come back.
        uncertainty_ns: the uncertainty of the times; 0 if the interface uses our clock.
        version: the version of the interface, as it reports it.
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
    """Attach the tracing interface of a device, record, and detach it; other threads run meanwhile."""

    def ready(self) -> bool:
        """Return whether the job has the device's driver in use in this process; loads nothing."""

    def attach(self, library: str) -> tuple[Outcome, str]:
        """Attach the interface without recording; return the outcome and its reason.

        Args:
            library: path, or a name for the loader.
        """

    def record(self, kinds: Kinds) -> tuple[Outcome, str]:
        """Record these kinds from now on, or none; return the outcome, and its reason or the kinds that are left
        out.
        """

    def flush(self) -> Outcome:
        """Write all finished records to the store."""

    def detach(self) -> Outcome:
        """Write everything, and detach the interface."""

    def counts(self) -> TraceCounts:
        """Return the counts so far."""
