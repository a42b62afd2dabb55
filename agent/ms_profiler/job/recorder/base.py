"""What a recorder does; the native one and its pure-Python twin both keep to it, under the same tests."""

from dataclasses import dataclass
from typing import Protocol

from ms_profiler.job.recorder.tracing import Tracing
from ms_profiler.store.device_format import Source


@dataclass(frozen=True)
class RecorderStats:
    """What a recorder did so far.

    Attributes:
        records: events committed; strings, anchors and thread marks are not events.
        dropped: events and strings refused for any reason but a pause (no disk, no memory, a budget, nesting too deep).
        dropped_limit: of these, refused because a budget was reached.
        bytes: size on disk of all segments.
        threads: threads that recorded.
        failure: errno of the last segment that could not be made; 0 when none failed.
    """

    records: int
    dropped: int
    dropped_limit: int
    bytes: int
    threads: int
    failure: int


class Recorder(Protocol):
    """Append events of the calling thread to a store folder.

    Every method may be called from any thread, at any time, also before `open` and after `close`: then nothing is
    recorded and nothing is raised. In a fork child nothing is recorded until the child calls `open` itself. What hooks
    call often takes its arguments by position only, so that the native functions can be called without a detour.
    """

    @property
    def kind(self) -> str:
        """Return "native" or "python"."""

    def tracing(self, source: Source) -> Tracing | None:
        """Return what traces devices by a vendor's interface; None where that cannot be."""

    def open(self, folder: str, *, first_slots: int = 2048, limit_fine: int = 0, limit_all: int = 0) -> None:
        """Start recording into the existing directory `folder`, closing what was open; pauses and `fine` are reset.

        Args:
            folder: where the segments go.
            first_slots: slots of a thread's first segment; later ones double up to 128 Ki slots (4 MiB).
            limit_fine: bytes on disk from which fine-grained categories are refused; 0 is no limit.
            limit_all: bytes on disk from which everything but steps, anchors and strings is refused; 0 is no limit.

        Raises:
            OSError: the first segment cannot be made.
        """

    def close(self) -> None:
        """End all open spans of the calling thread, write a last anchor, unmap, and record nothing from here on."""

    def take_ops(self) -> bool:
        """Record operators that PyTorch reports from here on; return whether it will report any."""

    def take_ranges(self) -> bool:
        """Record operators that PyTorch reports through NVTX from here on; return whether it will report any."""

    def annotate(self, text: str, /) -> None:
        """Make a region that the user marked of the operator that this thread began last, if it has this name."""

    def pause(self, paused: bool, /) -> None:
        """Refuse new spans, instants and counters while `paused`; `record` and `end` go on."""

    def intern(self, text: str, /) -> int:
        """Return the id of `text`, 0 when it cannot be written.

        An id is good for the life of the process and in its fork children: strings known when a store is opened are
        written to it then, later ones on first sight.
        """

    def thread_name(self, text: str, /) -> None:
        """Name the calling thread in every store from here on; without it the system's name of the thread is used."""

    def begin(self, name: int, category: int, arg: int = 0, /) -> int:
        """Begin a span on this thread and return its token, 0 when nothing was recorded.

        Args:
            name: id from `intern`.
            category: `store.format.Category`.
            arg: any unsigned 64-bit value, stored with the span.
        """

    def end(self, token: int, flags: int = 0, /) -> None:
        """End the span of `token` on this thread, and any that began after it and was not ended (`ABANDONED`).

        A token of 0, of another session, or already ended does nothing.
        """

    def instant(self, name: int, category: int, arg: int = 0, /) -> None:
        """Record that something happened now."""

    def counter(self, name: int, value: float, /) -> None:
        """Record the value of a counter now."""

    def record(self, kind: int, category: int, flags: int, name: int, start_ns: int, end_ns: int, arg: int, /) -> bool:
        """Record one complete slot with given times; return whether it was committed.

        Args:
            kind: SPAN, INSTANT, COUNTER, STEP or OPERANDS; any other is not committed.
        """

    def fine(self, on: bool, /) -> None:
        """Refuse fine-grained categories while not `on`; counted as `dropped_limit`."""

    def now(self) -> int:
        """Return CLOCK_MONOTONIC_RAW in nanoseconds."""

    def anchor(self) -> None:
        """Write a pair of CLOCK_MONOTONIC_RAW and CLOCK_REALTIME readings with its uncertainty."""

    def exit_wait(self, pid: int, timeout: float, late: str, failed: str) -> None:
        """Wait for the child process `pid` before this process is gone; called once, at exit.

        Args:
            pid: the child.
            timeout: seconds after which the child is killed; SIGINT kills it too.
            late: written to stderr when it was killed; may be empty.
            failed: written to stderr when it did not exit with 0; may be empty.
        """

    def stats(self) -> RecorderStats:
        """Return what was recorded and refused so far; after `close`, of the store closed last."""

    def span_cost(self) -> float:
        """Measure what one pair of `begin` and `end` takes here, in nanoseconds, without touching the store (5 ms)."""
