"""The interface of a recorder, which the native and the pure-Python one both implement, under the same tests."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from ms_profiler.job.detached import Detached
from ms_profiler.job.recorder.tracing import Tracing
from ms_profiler.options import Options
from ms_profiler.store.device_format import Source

#: in place of an errno: the records have taken `max_memory`
NO_MEMORY: Final = -1


@dataclass(frozen=True)
class RecorderStats:
    """Counts of a recorder so far.

    Attributes:
        records: events committed; strings, anchors and thread marks are not events.
        dropped: events and strings refused for any reason but a pause (no disk, no memory, nesting too deep).
        dropped_limit: the number of these that were refused because `max_disk` was reached.
        bytes: size on disk of all segments.
        unnamed: times that a name was refused, because the process had too many names.
        threads: the number of threads that recorded.
        failure: errno of the last segment that could not be made, or `NO_MEMORY`; 0 when none failed.
    """

    records: int
    dropped: int
    dropped_limit: int
    bytes: int
    unnamed: int
    threads: int
    failure: int


@dataclass(frozen=True)
class BlockCounts:
    """Counts of the memory blocks of an allocator since `watch_blocks`.

    Attributes:
        live: bytes of the blocks in use.
        peak: largest number of these since the last call.
        made: number of blocks.
        freed: number of them that were released.
        lost: number of blocks that were not noted for lack of memory, so that the bytes are wrong.
        intact: whether the allocator still reports its blocks; false when another tool has replaced our functions.
    """

    live: int
    peak: int
    made: int
    freed: int
    lost: int
    intact: bool


class Recorder(Protocol):
    """Append events of the calling thread to a store folder.

    Every method may be called from any thread, at any time, also before `open` and after `close`: then nothing is
    recorded and nothing is raised. In a fork child nothing is recorded until the child calls `open` itself. Methods
    that hooks call often take positional arguments only, so that hooks can call the native functions directly.
    """

    @property
    def kind(self) -> str:
        """Return "native" or "python"."""

    def tracing(self, source: Source) -> Tracing | None:
        """Return the tracing of devices by a vendor's interface; None where it is not possible."""

    def open(
        self,
        folder: str,
        *,
        first_slots: int = 2048,
        account: str = "",
        limit: int | None = None,
        memory: int | None = None,
    ) -> None:
        """Start recording into the existing directory `folder`, after closing an open store; pauses and `fine` are
        reset.

        Args:
            folder: the folder that receives the segments.
            first_slots: slots of a thread's first segment; later ones double up to 128 Ki slots (4 MiB).
            account: path of the file in which all processes of a result count their disk space; empty for an account of
                this process alone.
            limit: bytes that they may take, where this process makes that file; None is no limit. Fine-grained
                categories are refused from half of it on, everything but steps, anchors and strings from seven eighths.
            memory: bytes of memory that the records of this process may take at a time; None is no limit. Fine-grained
                categories are refused while three quarters of it are taken, all but anchors and strings while all is.

        Raises:
            OSError: the first segment cannot be made; `EDQUOT` where the account has no room.
        """

    def spend(self, size: int, /) -> None:
        """Add to the account bytes on disk that other code took; a negative number was released."""

    def set_aside(self, size: int, /) -> None:
        """Reserve bytes of the limit for other code; a negative number returns them."""

    def room(self) -> int:
        """Return the bytes left for fine-grained records; 0 while no store is open."""

    def close(self) -> None:
        """End all open spans of the calling thread, write a last anchor, unmap, and stop recording."""

    def take_ops(self) -> bool:
        """Start recording operators that PyTorch reports; return whether it will report any."""

    def take_ranges(self) -> bool:
        """Begin to record operators that PyTorch reports through NVTX; return whether it will report any."""

    def annotate(self, text: str, /) -> None:
        """Turn the operator that this thread began last into a region of the user, if it has this name."""

    def pause(self, paused: bool, /) -> None:
        """Refuse new spans, instants and counters while `paused`; `record` and `end` still work."""

    def intern(self, text: str, /) -> int:
        """Return the id of `text`; 0 when it cannot be written, or when 65536 texts or 8 MB are stored.

        An id is valid for the life of the process and in its fork children. A new store receives all known strings, and
        later strings at their first use.
        """

    def intern_one_of(self, text: str, most: int, /) -> int:
        """Return the id of a name that belongs to one of unlimited objects of the job; 0 for a new name beyond the
        limit.

        Args:
            text: the name.
            most: largest number of names that this function interns.
        """

    def thread_name(self, text: str, /) -> None:
        """Name the calling thread in every later store; by default the thread has the system's name."""

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

    def wrap(
        self,
        function: Callable[..., Any],
        *,
        name: int = 0,
        category: int = 0,
        before: Callable[..., Any] | None = None,
        after: Callable[[Any, Any, Any], Any] | None = None,
        labels: dict[int, Any] | None = None,
        describe: Callable[[Any], Any] | None = None,
        failed: Callable[[BaseException], Any],
        forked: list[Any],
        outermost: int = 0,
    ) -> Callable[..., Any]:
        """Return a replacement of a function that records its calls, with the extension without a Python frame.

        Args:
            function: the function to call.
            name: name of the spans, unless a parameter below decides.
            category: category of the spans, also where `describe` fails.
            before: called with the arguments before each call, in place of a span.
            after: called after each call with the result of `before`, the result of the call, and the exception that
                ended it; not called where `before` returned None.
            labels: id of the first argument -> (name, category, argument of the span), or any other value if `before`
                and `after` are to be called around the call.
            describe: called with a first argument without a label; returns the label. Without `labels`, the label of
                the first call holds for all calls.
            failed: called with an exception of `before`, `after` or `describe`; raises the job's own exceptions.
            forked: in a fork child that does not record yet, its session.
            outermost: the kind of calls, 1 to 3, of which only the outermost on a thread count; inner ones are recorded
                if they have a label. 0 for all calls.
        """

    def nest(self, kind: int, levels: int, /) -> int:
        """Change this thread's depth of nested calls of a kind whose outermost call counts; return the new depth."""

    def record(self, kind: int, category: int, flags: int, name: int, start_ns: int, end_ns: int, arg: int, /) -> bool:
        """Record one complete slot with given times; return whether it was committed.

        Args:
            kind: SPAN, INSTANT, COUNTER, STEP or OPERANDS; any other is not committed.
        """

    def fine(self, on: bool, /) -> None:
        """Refuse fine-grained categories unless `on`: the step is not sampled, and nothing counts as lost."""

    def now(self) -> int:
        """Return CLOCK_MONOTONIC_RAW in nanoseconds."""

    def anchor(self) -> None:
        """Write a pair of CLOCK_MONOTONIC_RAW and CLOCK_REALTIME readings with its uncertainty."""

    def answers(self, patience: float) -> bool:
        """Return whether the file system of the store answers; also true where that cannot be found out.

        Args:
            patience: seconds.
        """

    def exit_wait(self, program: Detached, timeout: float, shows: bool, late: str, failed: str) -> None:
        """Wait for a program before this process ends; called once, at exit.

        A signal ends the wait but not the process, whose exit code is final.

        Args:
            program: the program, whose one line of output says that it succeeded.
            timeout: seconds after which the job stops waiting, as it does after a signal; the program then continues
                alone.
            shows: write that line to stderr, unless stderr is a pipe or socket, whose reader waits for the job's end.
            late: written instead when the program has not ended by then.
            failed: written instead when the program wrote no line.
        """

    def tell_exit_status(self, path: str, /) -> None:
        """Write the exit status of this process to a new file at its very end, where it ends by `exit`.

        Args:
            path: the path of the file, see `store.exit_status`.

        Raises:
            OSError: there is no memory.
        """

    def put_off_signals(self, on: bool, /) -> None:
        """Start or stop delaying signals of the job, so that none meets the process while ms-profiler does its last
        work.

        A signal that arrives meanwhile is sent again after the end, with the same delay as it had from the begin.
        """

    def sample_stacks(self, rate: float, /) -> str:
        """Start sampling the Python stacks of all threads; return why that is impossible, empty on success.

        Args:
            rate: the number of samples per second.
        """

    def sample_no_stacks(self) -> None:
        """Stop sampling."""

    def read_host(self, rows: Sequence[tuple[str, str, str, int, bool, bool]], rate: float, /) -> str:
        """Begin to read the system's counters at a rate; return why that is impossible, empty on success.

        Args:
            rows: name, path, key, number, own, seldom; see `native/metrics.h`; none ends it.
            rate: samples per second, at most.
        """

    def watch_blocks(self, library: str, least: int, /) -> str:
        """Begin to count the memory blocks of a library's allocator; return why that is impossible, empty on success.

        Args:
            library: the file name of the loaded library.
            least: bytes from which on a block is recorded, not only counted.
        """

    def watch_no_blocks(self) -> None:
        """Stop counting blocks, and forget them."""

    def block_places(self, on: bool, /) -> bool:
        """Start or stop recording the Python lines in which the calling thread allocates blocks; return whether that is
        possible.

        The thread notes its frames before its next bytecode, in 2 us a block.
        """

    def blocks(self) -> BlockCounts:
        """Return the counts of blocks."""

    def trace_calls(self, asked: Options, /) -> str:
        """Start tracing calls of Python functions; return why that is impossible, empty on success.

        Args:
            asked: the requested counters.
        """

    def trace_no_calls(self) -> None:
        """Stop tracing calls."""

    def traces_beside(self) -> str:
        """Return the name of a debugger or profiler that has started during tracing; empty if there is none."""

    def calls_taken(self) -> float:
        """Return the time that the tracing of calls has taken so far, ns, estimated from the number of calls."""

    def stats(self) -> RecorderStats:
        """Return the counts so far; after `close`, those of the store that was closed last."""

    def span_cost(self) -> float:
        """Measure the nanoseconds of a pair of `begin` and `end`, without touching the store, in 5 ms."""
