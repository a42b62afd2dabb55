"""The interface of a recorder; the native and the pure-Python recorder implement it, and pass the same tests.

A store is a folder with the records of one process, in files called segments. A segment has slots of 32 bytes, and each
record takes a slot. An anchor is a record with readings of two clocks at the same instant.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from ms_profiler.job.detached import Detached
from ms_profiler.job.recorder.shortcut import Shortcut
from ms_profiler.job.recorder.tracing import Tracing
from ms_profiler.options import Options
from ms_profiler.store.device_format import Source

#: value of `RecorderStats.failure` if the records in memory have reached `max_memory`; other values are errnos
NO_MEMORY: Final = -1


@dataclass(frozen=True)
class RecorderStats:
    """Counts of a recorder so far.

    Attributes:
        records: number of committed events. Strings, anchors and thread marks are no events.
        dropped: number of events and strings that were refused for lack of disk space or memory, or because spans were
            nested too deep. Events refused during a pause do not count.
        dropped_limit: the part of `dropped` that was refused because `max_disk` was reached.
        bytes: size on disk of all segments.
        unnamed: number of times that a name was refused because the process had too many names.
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
        peak: largest value of `live` since the last call.
        made: number of allocated blocks.
        freed: number of released blocks.
        lost: number of blocks that were not noted for lack of memory; if it is not 0, the bytes are wrong.
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

    Every method may be called from any thread, at any time. Before `open` and after `close`, methods record nothing and
    raise nothing. The same holds in a fork child until the child calls `open`. The methods that hooks call most take
    positional arguments only, so that hooks can call the native functions directly.
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
        """Start recording into the existing directory `folder`, without a pause and with fine-grained records.

        If a store is open, it is closed first.

        Args:
            folder: the folder that receives the segments.
            first_slots: slots of a thread's first segment; each further segment has twice as many, up to 128 Ki slots
                (4 MiB).
            account: path of the account, the file in which all processes of a result count their disk space; empty for
                an account of this process alone.
            limit: bytes on disk that all processes of the result may take; None means no limit. Only the process that
                makes the account sets the limit. Once half of the limit is taken, fine-grained categories are refused.
                Once seven eighths are taken, everything but steps, anchors and strings is refused.
            memory: bytes of memory that the records of this process may take at a time; None means no limit. While
                three quarters of this memory are taken, fine-grained categories are refused. While all of it is taken,
                everything but anchors and strings is refused.

        Raises:
            OSError: the first segment cannot be made; `EDQUOT` if the account has no room.
        """

    def spend(self, size: int, /) -> None:
        """Count bytes on disk that other code has written; a negative number counts released bytes."""

    def set_aside(self, size: int, /) -> None:
        """Reserve bytes of the limit for other code; a negative number ends the reservation of these bytes."""

    def room(self) -> int:
        """Return the bytes on disk that are left for fine-grained records; 0 while no store is open."""

    def close(self) -> None:
        """Stop recording: end all open spans of the calling thread, write a last anchor, and unmap the files."""

    def connect_operators(
        self, library: bytes, thread: int, scope: int, sequence: int, forward: int, async_: int, /
    ) -> str:
        """Find PyTorch's functions that report operators; return why that is impossible, empty on success.

        Args:
            library: the path of PyTorch's loaded library with these functions.
            thread: offset of the operator's thread in PyTorch's description of an operator, in bytes.
            scope: offset of the operator's kind.
            sequence: offset of autograd's number.
            forward: offset of the thread on which a node's operator ran.
            async_: offset of the flag that says whether the operator may end on another thread.
        """

    def take_operators(self, on: bool, /) -> None:
        """Start or stop recording the operators of all threads; do nothing before `connect_operators` has succeeded."""

    def hand_over_region(self, name: str, /) -> None:
        """End the record of a region of PyTorch, whose end PyTorch will report on any thread or after other operators.

        Does nothing if the innermost operator of this thread is not a region of this name.

        Args:
            name: name of the region.
        """

    def operators_elsewhere(self) -> bool:
        """Return whether other threads have begun operators since the last call on this thread."""

    def call_at_rest(self, call: Callable[[], Any], most_ns: int, /) -> Any:
        """Call a function of C when the other threads that record sleep, and return its result.

        This thread keeps the GIL meanwhile, so threads that run Python code come to rest.

        Args:
            call: the function.
            most_ns: longest wait, after which the function is called anyway, ns.
        """

    def fast_region(self, original: Any, /) -> Any:
        """Return a replacement of PyTorch's class of fast regions; it also records the regions that PyTorch ignores.

        Args:
            original: the class, `torch._C._profiler._RecordFunctionFast`.
        """

    def pause(self, paused: bool, /) -> None:
        """Refuse new spans, instants and counters while `paused`; `record` and `end` still work."""

    def intern(self, text: str, /) -> int:
        """Return the id of `text`; 0 if the text cannot be written, or if 65536 texts or 8 MB of texts are stored.

        An id is valid for the life of the process and in its fork children. When a store is opened, all texts that have
        an id are written to it. Later texts are written at their first use.
        """

    def intern_one_of(self, text: str, most: int, /) -> int:
        """Return the id of a name, as `intern` does; 0 for a new name if `most` names are stored already.

        Args:
            text: the name; the job may use any number of names, for example one for each object.
            most: largest number of names that all calls of this function together store.
        """

    def thread_name(self, text: str, /) -> None:
        """Name the calling thread in the records from now on; without a call, the thread has its name in the system."""

    def begin(self, name: int, category: int, arg: int = 0, /) -> int:
        """Begin a span on this thread and return its token; 0 if the span is not recorded.

        Args:
            name: id from `intern`.
            category: `store.format.Category`.
            arg: any unsigned 64-bit value, stored with the span.
        """

    def end(self, token: int, flags: int = 0, /) -> None:
        """End the span of `token` on this thread; open spans that began after it end, too, with the flag `ABANDONED`.

        The call does nothing if the token is 0, if it belongs to another store, or if the span has ended already.
        """

    def instant(self, name: int, category: int, arg: int = 0, /) -> None:
        """Record an event without duration now."""

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
        idle: bool = False,
        shortcut: Shortcut | None = None,
    ) -> Callable[..., Any]:
        """Return a replacement of a function; the replacement records each call and calls the function.

        The extension's replacement adds no Python frame to the call.

        Args:
            function: the function to call.
            name: id of the name of the spans, if neither `labels` nor `describe` gives one.
            category: category of the spans, also if `describe` fails.
            before: called before the call with the call's arguments; a call for which `before` is called has no span.
            after: called after each call with the result of `before`, the result of the call, and the exception that
                ended the call; not called if `before` returned None.
            labels: id of the first argument -> (name, category, argument of the span). If the value for an argument has
                another form, the call has no span, and `before` and `after` are called around it.
            describe: called with a first argument that `labels` lacks; returns its label. Without `labels`, the label
                of the first call holds for all calls.
            failed: called with an exception of `before`, `after` or `describe`; raises the job's own exceptions again.
            forked: a list, empty except in a fork child that does not record yet; there it holds the session.
            outermost: kind of nested calls, 1 to 3; 0 if nesting does not matter. Among nested calls of one kind on a
                thread, `before` and `after` are called only around the outermost call. Inner calls have spans if they
                have labels.
            idle: whether `before` and `after` need not be called now. The replacement has an attribute of this name,
                which may be changed at any time.
            shortcut: the usual case of the call; the pure-Python recorder ignores it.
        """

    def take_optimizer_step(self) -> tuple[int, int, int] | None:
        """Take the running step of an optimizer that a shortcut has begun on this thread, if there is one.

        Returns:
            Id of the frame that runs the step, token of the step's span, id of the optimizer.
        """

    def leave_optimizers(self, reason: int, on: bool, /) -> None:
        """Allow or forbid shortcuts for the optimizers of this thread.

        Args:
            reason: a power of two; shortcuts are forbidden while this is so for any reason.
            on: whether shortcuts are forbidden for this reason.
        """

    def hook_time(self) -> tuple[int, int]:
        """Return the time that hooks took in some steps that were not sampled, in ns, and the number of these steps.

        Some steps measure it, if shortcuts end them. The numbers grow until the process ends.
        """

    def optimizer_steps(self) -> int:
        """Return the number of optimizer steps of this thread that shortcuts have ended."""

    def nest(self, kind: int, levels: int, /) -> int:
        """Add to this thread's depth of nested calls of a kind, see `wrap`, and return the new depth."""

    def record(self, kind: int, category: int, flags: int, name: int, start_ns: int, end_ns: int, arg: int, /) -> bool:
        """Record one complete slot with given times; return whether it was committed.

        Args:
            kind: SPAN, INSTANT, COUNTER, STEP or OPERANDS; a slot of another kind is not committed.
        """

    def fine(self, on: bool, /) -> None:
        """Accept or refuse fine-grained categories; records refused for this reason do not count as dropped."""

    def now(self) -> int:
        """Return CLOCK_MONOTONIC_RAW in nanoseconds."""

    def anchor(self) -> None:
        """Write an anchor: readings of CLOCK_MONOTONIC_RAW and CLOCK_REALTIME for one instant, with the uncertainty."""

    def answers(self, patience: float) -> bool:
        """Return whether the file system of the store answers; True if the recorder cannot check it.

        Args:
            patience: longest wait, in seconds.
        """

    def exit_wait(self, program: Detached, timeout: float, shows: bool, late: str, failed: str) -> None:
        """Wait for a program before this process ends, and write one line about it; called once, at exit.

        A signal ends the wait. It does not change the exit code of the process, because this code is final by then.

        Args:
            program: the program, which writes one line on success.
            timeout: longest wait, in seconds; the program continues afterwards.
            shows: whether to write a line to stderr. No line is written to a pipe or socket, whose reader waits for
                the job's end.
            late: the line if the program has not ended in time.
            failed: the line if the program ended without writing a line.
        """

    def write_exit_status(self, path: str, /) -> None:
        """Prepare a new file that receives the exit status of this process, if the process ends by `exit`.

        Args:
            path: the path of the file, see `store.exit_status`.

        Raises:
            OSError: memory is short.
        """

    def delay_signals(self, on: bool, /) -> None:
        """Start or stop delaying signals of the job, so that none interrupts the last work of ms-profiler.

        A signal that arrived t seconds after the start of the delay is sent again t seconds after the end of the delay.
        """

    def sample_stacks(self, rate: float, /) -> str:
        """Start sampling the Python stacks of all threads; return why that is impossible, empty on success.

        Args:
            rate: the number of samples per second.
        """

    def sample_no_stacks(self) -> None:
        """Stop sampling."""

    def read_host(self, rows: Sequence[tuple[str, str, str, int, bool, bool]], rate: float, /) -> str:
        """Start reading the system's counters at a rate; return why that is impossible, empty on success.

        Args:
            rows: (name, path, key, number, own, seldom) of each counter, see `native/metrics.h`; an empty list ends the
                reading.
            rate: largest number of samples per second.
        """

    def watch_blocks(self, library: str, least: int, /) -> str:
        """Start counting the memory blocks of a library's allocator; return why that is impossible, empty on success.

        Args:
            library: the file name of the loaded library.
            least: smallest size of a block that is also recorded, in bytes.
        """

    def watch_no_blocks(self) -> None:
        """Stop counting blocks, and forget them."""

    def block_places(self, on: bool, /) -> bool:
        """Start or stop recording the Python lines where this thread allocates blocks; return whether that is possible.

        After the allocation of a block, the thread notes its stack before it runs its next bytecode. This takes 2 us.
        """

    def blocks(self) -> BlockCounts:
        """Return the counts of blocks."""

    def trace_calls(self, asked: Options, /) -> str:
        """Start tracing calls of Python functions; return why that is impossible, empty on success.

        Args:
            asked: the options of the recording; only the options named `stack_*` apply.
        """

    def trace_no_calls(self) -> None:
        """Stop tracing calls."""

    def traces_beside(self) -> str:
        """Return the name of a debugger or profiler that has started during tracing; empty if there is none."""

    def calls_taken(self) -> float:
        """Return the time that the tracing of calls has taken so far, ns, estimated from the number of calls."""

    def stats(self) -> RecorderStats:
        """Return the counts so far; after `close`, the counts of the store that was closed last."""

    def span_cost(self) -> float:
        """Return the measured time of one `begin` and one `end`, ns; measuring takes 5 ms and writes no record."""
