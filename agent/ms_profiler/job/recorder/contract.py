"""The interface of a recorder; the recorders in C and in pure Python implement it, and pass the same tests.

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

#: Value of `RecorderStats.failure` if the records in memory have reached `max_memory`. Other values are errno numbers.
NO_MEMORY: Final = -1


@dataclass(frozen=True)
class RecorderStats:
    """Counts of a recorder so far.

    Attributes:
        records: number of written events. Strings, readings of clocks and names of threads are no events.
        dropped: number of events and strings that were refused for lack of disk space or memory, or because spans were
            nested too deep. Events refused during a pause do not count.
        dropped_limit: the part of `dropped` that was refused because `max_disk` was reached.
        bytes: size on disk of all files with records.
        unnamed: number of times that a name was refused because the process had too many names.
        threads: the number of threads that recorded.
        helper_ns: processor time of the recorder's helper thread in this process, ns.
        failure: why the last file that failed could not be made: an errno, or `NO_MEMORY`; 0 if none failed.
    """

    records: int
    dropped: int
    dropped_limit: int
    bytes: int
    unnamed: int
    threads: int
    helper_ns: int
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
        intact: whether the allocator still reports its blocks; false if another tool has replaced ms-profiler's hooks.
    """

    live: int
    peak: int
    made: int
    freed: int
    lost: int
    intact: bool


class Recorder(Protocol):
    """Append events of the calling thread to files in a folder, the store.

    Every method may be called from any thread, at any time. Before `open` and after `close`, methods record nothing and
    raise nothing. The same holds in a fork child until the child calls `open`. The methods that hooks call most take
    positional arguments only, so that hooks can call the C functions directly.
    """

    @property
    def kind(self) -> str:
        """Return "native" for the recorder in C, or "python"."""

    def tracing(self, source: Source) -> Tracing | None:
        """Return the object that traces devices by a vendor's interface; None where tracing is not possible."""

    def open(
        self,
        folder: str,
        *,
        first_slots: int = 2048,
        account: str = "",
        limit: int | None = None,
        memory: int | None = None,
    ) -> None:
        """Start recording into the existing directory `folder`, not paused and with fine-grained records.

        If the recorder records into another folder already, it closes that folder first.

        Args:
            folder: the folder that receives the segments, which are the files of records.
            first_slots: number of records for which a thread's first segment has room. Each further segment has twice
                as much, up to 128 Ki records (4 MiB).
            account: path of the account, the file in which all processes of a result count their disk space; empty for
                an account of this process alone.
            limit: bytes on disk that all processes of the result may take; None means no limit. Only the process that
                makes the account sets the limit. Once half of the limit is taken, fine-grained categories are refused.
                Once seven eighths are taken, everything but steps, anchors and strings is refused.
            memory: bytes of memory that the records of this process may take at a time; None means no limit. While
                three quarters of this memory are taken, fine-grained categories are refused. While all of it is taken,
                everything but anchors and strings is refused.

        Raises:
            OSError: the first segment cannot be made; `EDQUOT` if the limit leaves no room for it.
        """

    def spend(self, size: int, /) -> None:
        """Count bytes on disk that other code has written; a negative number counts released bytes."""

    def set_aside(self, size: int, /) -> None:
        """Reserve bytes of the disk limit for other code; a negative number ends the reservation of these bytes."""

    def room(self) -> int:
        """Return the bytes on disk that are left for fine-grained records; 0 while the recorder is closed."""

    def close(self) -> None:
        """Stop recording: end the open spans of the calling thread, record the clocks again, and unmap the files."""

    def connect_operators(
        self, library: bytes, thread: int, scope: int, sequence: int, forward: int, async_: int, /
    ) -> str:
        """Find PyTorch's functions that report operators; return why that is impossible, empty on success.

        PyTorch describes an operator by a C++ object. The recorder reads its fields, whose offsets are in bytes.

        Args:
            library: the path of PyTorch's loaded library with these functions.
            thread: offset of the operator's thread.
            scope: offset of the operator's kind.
            sequence: offset of the sequence number that autograd gives to the operator.
            forward: offset, for an operator of a backward pass, of the thread on which the forward operator ran.
            async_: offset of the flag that says whether the operator may end on another thread.
        """

    def take_operators(self, on: bool, /) -> None:
        """Start or stop recording the operators of all threads; do nothing before `connect_operators` has succeeded."""

    def hand_over_region(self, name: str, /) -> None:
        """End the record of a region of PyTorch now, if this region is the innermost operator of the calling thread.

        PyTorch will report the end of this region only when a future is done, on any thread or after other operators.

        Args:
            name: name of the region.
        """

    def operators_elsewhere(self) -> bool:
        """Return whether other threads have begun operators since the last call on this thread."""

    def call_at_rest(self, most_ns: int, call: Callable[[], Any], /) -> Any:
        """Call a C function at a moment when the other threads that record sleep, and return its result.

        This thread keeps the GIL meanwhile, so threads that run Python code soon sleep, too.

        Args:
            most_ns: longest wait, after which the function is called anyway, ns.
            call: the function.
        """

    def fast_region(self, original: Any, /) -> Any:
        """Return a replacement of PyTorch's class of regions in compiled code.

        PyTorch reports such regions only while a profiler is on. The replacement always records them.

        Args:
            original: the class, `torch._C._profiler._RecordFunctionFast`.
        """

    def pause(self, paused: bool, /) -> None:
        """Refuse new spans, events without duration and counters while `paused`; `record` and `end` still work."""

    def intern(self, text: str, /) -> int:
        """Return the id of `text`; 0 if the text cannot be written, or if 65536 texts or 8 MB of texts are stored.

        An id is valid for the life of the process and in its fork children. When recording into a folder begins, all
        texts that have an id are written there. Later texts are written when they get their id.
        """

    def intern_one_of(self, text: str, most: int, /) -> int:
        """Return the id of a name, as `intern` does; 0 for a new name if `most` names are stored already.

        Args:
            text: the name; the job may use any number of names, for example one for each object.
            most: largest number of names that all calls of this function together store.
        """

    def thread_name(self, text: str, /) -> None:
        """Name the calling thread in its records from now on; until then, it has the name by which Linux knows it."""

    def begin(self, name: int, category: int, arg: int = 0, /) -> int:
        """Begin a span on this thread and return its token; 0 if the span is not recorded.

        Args:
            name: id from `intern`.
            category: `store.format.Category`.
            arg: any unsigned 64-bit value, stored with the span.
        """

    def end(self, token: int, flags: int = 0, /) -> None:
        """End the span of `token` on this thread; open spans that began after it end, too, with the flag `ABANDONED`.

        The call does nothing if the token is 0, if the span has ended, or after another call of `open` or `close`.
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
        rests: bool = False,
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
            labels: id of the first argument -> its label, which is (name, category, argument of the span). If the label
                has another form, the call has no span, and `before` and `after` are called around it.
            describe: called with a first argument that `labels` lacks; returns its label. Without `labels`, the label
                of the first call holds for all calls.
            failed: called with an exception of `before`, `after` or `describe`; raises the job's own exceptions again.
            forked: a list. It holds the session in a fork child that does not record yet, and is empty otherwise.
            outermost: kind of nested calls, 1 to 3; 0 if nesting does not matter. Among nested calls of one kind on a
                thread, `before` and `after` are called only around the outermost call. Inner calls have spans if they
                have labels.
            idle: whether `before` and `after` need not be called now; also an attribute of the replacement.
            shortcut: the usual case of the call, which the extension handles without running Python code; the
                pure-Python recorder ignores it.
            rests: whether the replacement only calls the function while hooks rest (`rest`).
        """

    def rest(self, on: bool, /) -> None:
        """Let hooks rest from now on, or record again; the pure-Python recorder ignores this. See `job/rest.py`."""

    def take_optimizer_step(self) -> tuple[int, int, int] | None:
        """Take over the step that C code began: id of its frame, token of its span, id of its optimizer."""

    def leave_optimizers(self, reason: int, on: bool, /) -> None:
        """Forbid or allow that C code handles the usual steps of optimizers on this thread (`Shortcut`).

        Args:
            reason: a power of two that names the reason. Shortcuts are allowed while no reason forbids them.
            on: whether this reason forbids shortcuts from now on.
        """

    def hook_times(self, since: int, /) -> tuple[int, list[int], int]:
        """Return the number of timed steps, the time of hooks in each, ns, and the number of calls in the last one.

        In a timed step, hooks measure their time. Timed steps are some of those that C code ends (`Shortcut`). The
        times are those without the first `since`, of the newest 1,024. Calls of hooks at rest do not count.
        """

    def optimizer_hook(self, python: Callable[..., None], **settings: Any) -> Any:
        """Return a hook for begins or ends of optimizers' steps that calls the hook `python` in unusual cases only.

        Its method `take` notes a begin or end in the usual case. Its attribute `counted` is the id of the optimizer
        whose steps are noted at their ends only, 0 if there is none. The result is None without the C extension.
        """

    def optimizer_steps(self) -> int:
        """Return the number of optimizer steps of this thread that C code has ended without Python (`Shortcut`)."""

    def nest(self, kind: int, levels: int, /) -> int:
        """Add `levels` to this thread's depth of nested calls of a kind, as in `wrap`, and return the new depth."""

    def record(self, kind: int, category: int, flags: int, name: int, start_ns: int, end_ns: int, arg: int, /) -> bool:
        """Write one complete record with given times; return whether it was written.

        `kind` is SPAN, INSTANT, COUNTER, STEP or OPERANDS; a record of another kind is not written.
        """

    def fine(self, on: bool, /) -> None:
        """Accept or refuse fine-grained categories; records refused for this reason do not count as dropped."""

    def now(self) -> int:
        """Return CLOCK_MONOTONIC_RAW in nanoseconds."""

    def anchor(self) -> None:
        """Record an anchor: what CLOCK_MONOTONIC_RAW and CLOCK_REALTIME show at one instant, and the uncertainty."""

    def answers(self, patience: float) -> bool:
        """Return whether the records' file system answers within `patience` seconds; True if that cannot be checked."""

    def exit_wait(self, program: Detached, timeout: float, shows: bool, late: str, failed: str) -> None:
        """Wait for a program before this process ends, and write one line about it; called once, at exit.

        A signal ends the wait, but does not change the exit code of the process, which is final by then.

        Args:
            program: the program, which writes one line on success.
            timeout: longest wait, in seconds; the program continues afterwards.
            shows: whether to write a line to stderr, unless that is a pipe or socket, whose reader waits for the end.
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
        """Start or stop delaying signals of the job, so that no signal interrupts the last work of ms-profiler.

        A signal that arrives t seconds after the delay began is sent again t seconds after the delay has ended.
        """

    def sample_stacks(self, rate: float, /) -> str:
        """Start sampling the Python stacks of all threads; return why that is impossible, empty on success.

        Args:
            rate: the number of samples per second.
        """

    def sample_no_stacks(self) -> None:
        """Stop sampling the Python stacks."""

    def read_host(self, rows: Sequence[tuple[str, str, str, int, bool, bool]], rate: float, share: float, /) -> str:
        """Start reading the system's counters at a rate; return why that is impossible, empty on success.

        Args:
            rows: (name, path, key, number, own, seldom) of each counter (`native/metrics.h`); stop reading if empty.
            rate: largest number of samples per second.
            share: largest share of one processor that the reading may take.
        """

    def watch_blocks(self, library: str, least: int, /) -> str:
        """Start counting the memory blocks of a library's allocator; return why that is impossible, empty on success.

        Args:
            library: the file name of the loaded library.
            least: smallest size of a block that is also recorded, in bytes.
        """

    def watch_no_blocks(self) -> None:
        """Stop counting memory blocks, and forget those counted so far."""

    def block_places(self, on: bool, /) -> bool:
        """Start or stop recording the Python lines that allocate blocks on this thread; return whether it is possible.

        After it has allocated a block, the thread notes its stack before it runs its next bytecode. This takes 2 us.
        """

    def blocks(self) -> BlockCounts:
        """Return the counts of memory blocks."""

    def trace_calls(self, asked: Options, /) -> str:
        """Start tracing calls of Python functions; return why that is impossible, empty on success.

        Args:
            asked: the options of the recording; only the options named `stack_*` apply.
        """

    def trace_no_calls(self) -> None:
        """Stop tracing calls of Python functions."""

    def traces_beside(self) -> str:
        """Return the name of a debugger or profiler that has started while calls are traced; empty if there is none."""

    def calls_taken(self) -> float:
        """Return the time that the tracing of calls has taken so far, ns, estimated from the number of calls."""

    def stats(self) -> RecorderStats:
        """Return the counts of records since `open`; after `close`, the counts when the recorder was closed."""

    def span_cost(self) -> float:
        """Return the measured time of one `begin` and one `end`, ns; measuring takes 5 ms and writes no record."""
