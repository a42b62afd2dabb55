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
        records: written.
        refused: not written, because of a budget or the disk.
        unknown: of a kind that was not asked for.
        unfinished: had no end when they had to be taken.
        unreadable: buffers of which the end made no sense.
        lost: thrown away, because too many waited to be read.
        dropped: by the interface, as it says itself.
        stopped: how often recording was ended, because too many buffers did not come back.
        uncertainty_ns: of the times; 0 where the interface reads our clock.
        version: of the interface, as it says.
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
    """Take the tracing interface of a device, record, and give it back; other threads run meanwhile."""

    def ready(self) -> bool:
        """Return whether the job has the device's driver in use in this process; loads nothing."""

    def attach(self, library: str) -> tuple[Outcome, str]:
        """Attach the interface without recording; return the outcome and its reason.

        Args:
            library: path, or a name for the loader.
        """

    def record(self, kinds: Kinds) -> tuple[Outcome, str]:
        """Record these kinds from now on, or none; return the outcome, and its reason or the kinds that are left
        out."""

    def flush(self) -> Outcome:
        """Have all that has ended written to the store."""

    def detach(self) -> Outcome:
        """Have everything written, and give the interface back."""

    def counts(self) -> TraceCounts:
        """Return the counts so far."""
