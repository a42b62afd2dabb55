"""The recorder in pure Python, for machines where the C extension does not load; it writes the same files.

Recording an event takes some microseconds; with the extension, it takes a tenth of a microsecond. Signal handlers and
finalizers may run between any two lines, on the thread that is recording, and record events, too. So locks are
re-entrant, and the place for a record in a file is reserved before it is filled.
"""

import posix
import signal
import struct
import weakref
from collections.abc import Callable, Sequence
from threading import RLock, local
from typing import Any, Final

from ms_profiler import clock, log, paths
from ms_profiler.job.detached import Detached
from ms_profiler.job.recorder import python_wrapper
from ms_profiler.job.recorder.contract import BlockCounts, RecorderStats
from ms_profiler.job.recorder.cost import pair_cost
from ms_profiler.job.recorder.python_store import MemoryStore, PythonStore, Strings, Worth, utf8
from ms_profiler.job.recorder.python_writer import PythonWriter
from ms_profiler.options import Options
from ms_profiler.store.anonymous import label, word
from ms_profiler.store.device_format import Source
from ms_profiler.store.format import CATEGORY_FINE, Kind

_INSTANT: Final = int(Kind.INSTANT)  # the use of an enumeration's member would take a microsecond more
_COUNTER: Final = int(Kind.COUNTER)
_STEP: Final = int(Kind.STEP)
_EVENTS: Final = frozenset({int(Kind.SPAN), _INSTANT, _COUNTER, _STEP, int(Kind.OPERANDS)})


#: Signals that end the wait of `exit_wait`. They need not end the process, because it is ending already.
_ENDING: Final = frozenset(
    {signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2}
)


class PythonRecorder:
    """Record without the C extension.

    Args:
        written: whether to write the files with write(2) even on a file system where shared mappings are reliable.
        anonymous: whether to replace names of the job.
    """

    kind = "python"

    def __init__(self, *, written: bool = False, anonymous: bool = False) -> None:
        self._written = written
        self._anonymous = anonymous
        self._lock = RLock()  # so that only one thread at a time opens or closes a store
        self._strings = Strings()
        self._store: PythonStore | None = None
        self._last: PythonStore | None = None
        self._paused = False
        self._fine = True
        self._local = local()
        self._watches_forks = False

    def _watch_forks(self) -> None:
        if self._watches_forks:
            return
        self._watches_forks = True
        # Use a weak reference: Python never forgets a registered function, so a strong reference would keep this
        # recorder alive for ever.
        forget = weakref.WeakMethod(self._after_fork)

        def after_fork() -> None:
            method = forget()
            if method is not None:
                method()

        posix.register_at_fork(after_in_child=after_fork)

    def _after_fork(self) -> None:
        self._lock = RLock()
        self._store = self._last = None

    def wrap(self, function: Callable[..., Any], **settings: Any) -> Callable[..., Any]:
        """Return a replacement of a function that records each call, as `Recorder.wrap`; it adds a Python frame."""
        return python_wrapper.wrap(self, function, **settings)

    def take_optimizer_step(self) -> None:
        """Return None: without the C extension, no C code begins the step of an optimizer."""

    def leave_optimizers(self, reason: int, on: bool, /) -> None:
        """Do nothing: without the C extension, no C code handles the steps of optimizers."""

    def optimizer_hook(self, python: Callable[..., None], **settings: Any) -> None:
        """Return None: without the C extension, there is only the hook in Python."""

    def optimizer_steps(self) -> int:
        """Return 0: without the C extension, no C code ends the steps of optimizers."""
        return 0

    def hook_times(self, since: int, /) -> tuple[int, list[int], int]:
        """Return no times: only the hooks of the C extension measure the time that they take."""
        return 0, [], 0

    def nest(self, kind: int, levels: int, /) -> int:
        """Add `levels` to this thread's depth of nested calls of a kind, and return the new depth."""
        return python_wrapper.nest(kind, levels)

    def tracing(self, source: Source) -> None:
        """Return None: devices cannot be traced, because their callbacks run on threads that cannot run Python."""

    def connect_operators(
        self, library: bytes, thread: int, scope: int, sequence: int, forward: int, async_: int, /
    ) -> str:
        """Return why PyTorch's operators cannot be recorded: PyTorch reports them only to functions in C."""
        return "the extension, which records them, does not load"

    def take_operators(self, on: bool, /) -> None:
        """Do nothing: without the C extension, no operators are recorded."""

    def hand_over_region(self, name: str, /) -> None:
        """Do nothing: without the C extension, no regions of PyTorch are recorded."""

    def operators_elsewhere(self) -> bool:
        """Return False: without the C extension, no operators are recorded on any thread."""
        return False

    def call_at_rest(self, most_ns: int, call: Callable[[], Any], /) -> Any:
        """Call a function at once: Python code cannot keep the GIL until the other threads sleep."""
        return call()

    def fast_region(self, original: Any, /) -> Any:
        """Return PyTorch's class itself: without the C extension, no regions of PyTorch are recorded."""
        return original

    def answers(self, patience: float) -> bool:
        """Return True without a check: a Python thread that waits for a disk could block the end of the interpreter."""
        return True

    def exit_wait(self, program: Detached, timeout: float, shows: bool, late: str, failed: str) -> None:
        """Wait for a program before this process ends, and write one line about it, as `Recorder.exit_wait`.

        The wait begins at once, because ms-profiler can run no Python code later.
        """
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
        try:
            line = program.wait(timeout, lambda: signal.sigpending() & _ENDING)
            for number in signal.sigpending() & _ENDING:
                signal.sigtimedwait((number,), 0)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if shows and not log.has_reader():
            log.write(late if line is None else line or failed)

    def write_exit_status(self, path: str, /) -> None:
        """Do nothing: the exit status is not known, because Python does not pass it to functions at exit."""

    def delay_signals(self, on: bool, /) -> None:
        """Do nothing: Python does not know when a signal arrived, so signals cannot be sent again with their delay."""

    def open(
        self,
        folder: str,
        *,
        first_slots: int = 2048,
        account: str = "",
        limit: int | None = None,
        memory: int | None = None,
    ) -> None:
        """Start recording into the existing directory `folder`, as `Recorder.open`."""
        with self._lock:
            self.close()
            self._watch_forks()
            path = paths.realpath(folder, strict=True)
            self._last = PythonStore(path, first_slots, account, limit, memory, self._written, self._strings)
            self._paused, self._fine = False, True
            self._store = self._last

    def spend(self, size: int, /) -> None:
        """Count bytes on disk that other code has written; a negative number counts released bytes."""
        if self._store is not None:
            self._store.account.change(size)

    def set_aside(self, size: int, /) -> None:
        """Reserve bytes of the disk limit for other code; a negative number ends the reservation of these bytes."""
        if self._store is not None:
            self._store.account.change(limit=-size)

    def room(self) -> int:
        """Return the bytes on disk that are left for fine-grained records; 0 while the recorder is closed."""
        return self._store.account.left(Worth.FINE) if self._store is not None else 0

    def close(self) -> None:
        """Stop recording: end the open spans of the calling thread, and write all records to the files."""
        with self._lock:
            store = self._store
            if store is None:
                return
            writer = self._writer()
            if writer is not None:
                writer.end_all()
            self._store = None
            store.close()
            self._local.writer = None

    def _writer(self) -> PythonWriter | None:
        """Return the object that writes the calling thread's records; None while the recorder is closed."""
        store = self._store
        if store is None:
            return None
        writer: PythonWriter | None = getattr(self._local, "writer", None)
        if writer is None or writer.store is not store:
            writer = self._local.writer = PythonWriter(store, self._called())
        return writer

    def _called(self) -> str:
        """Return the name of the calling thread; empty for the name by which Linux knows the thread."""
        called: str = getattr(self._local, "label", "")
        return called or ("thread" if self._anonymous else "")

    def _admitted(self, category: int) -> PythonWriter | None:
        """Return the object that writes the calling thread's records; None if this category must not be recorded now.

        An event for which no disk space is left counts as dropped.
        """
        writer = self._writer()
        if writer is None:
            return None
        store = writer.store
        fine = category & CATEGORY_FINE
        if store.all_limit or (fine and store.fine_limit):
            store.drop(True)
            return None
        if fine and not self._fine:
            return None
        return writer

    def pause(self, paused: bool, /) -> None:
        """Refuse new spans, events without duration and counters while `paused`; `record` and `end` still work."""
        self._paused = bool(paused)

    def rest(self, on: bool, /) -> None:
        """Do nothing: hooks only rest where they measure their time, which needs the extension."""

    def fine(self, on: bool, /) -> None:
        """Accept or refuse fine-grained records, for example of operators, from now on."""
        self._fine = bool(on)

    def intern(self, text: str, /) -> int:
        """Return the id of `text`; 0 if the text cannot be written or there are too many texts."""
        return self._intern(text, None)

    def intern_one_of(self, text: str, most: int, /) -> int:
        """Return the id of a name; 0 for a new name if `most` such names are stored already."""
        return self._intern(text, most)

    def _intern(self, text: str, most: int | None) -> int:
        data = utf8(label(text) if self._anonymous else text)
        store = self._store
        if not data:
            return 0
        if store is not None:
            return store.intern(data, most)
        with self._lock:
            return self._strings.add(data, most)

    def thread_name(self, text: str, /) -> None:
        """Name the calling thread in its records from now on."""
        self._local.label = text = word(text) if self._anonymous else text
        writer = self._writer()
        if writer is not None:
            writer.rename(text)

    def begin(self, name: int, category: int, arg: int = 0, /) -> int:
        """Begin a span on this thread and return its token; 0 if the span is not recorded."""
        writer = None if self._paused else self._admitted(category)
        return writer.begin(name, category, arg, _worth(category)) if writer is not None else 0

    def end(self, token: int, flags: int = 0, /) -> None:
        """End the span of `token` on this thread; open spans that began after it end, too."""
        writer = self._writer() if token else None
        if writer is not None:
            writer.end(token, flags)

    def instant(self, name: int, category: int, arg: int = 0, /) -> None:
        """Record an event without duration now."""
        self._event(_INSTANT, name, category, arg)

    def counter(self, name: int, value: float, /) -> None:
        """Record the value of a counter now."""
        self._event(_COUNTER, name, 0, struct.unpack("=Q", struct.pack("=d", value))[0])

    def _event(self, kind: int, name: int, category: int, arg: int) -> None:
        writer = None if self._paused else self._admitted(category)
        if writer is not None:
            now = clock.raw_ns()
            writer.append(kind, category, 0, name, now, now, arg, _worth(category))
            writer.store.flush(now)

    def record(self, kind: int, category: int, flags: int, name: int, start_ns: int, end_ns: int, arg: int, /) -> bool:
        """Write one complete record with given times; return whether it was written."""
        if kind not in _EVENTS:
            return False
        step = kind == _STEP
        writer = self._writer() if step else self._admitted(category)
        if writer is None:
            return False
        worth = Worth.ALWAYS if step else _worth(category)
        if writer.append(kind, category, flags, name, start_ns, end_ns, arg, worth) is None:
            return False
        if step and not self._paused:
            writer.stepped(clock.raw_ns())
        return True

    def now(self) -> int:
        """Return CLOCK_MONOTONIC_RAW in nanoseconds."""
        return clock.raw_ns()

    def anchor(self) -> None:
        """Record what CLOCK_MONOTONIC_RAW and CLOCK_REALTIME show at one instant, and the uncertainty."""
        store = self._store
        if store is not None:
            store.anchor()

    def sample_stacks(self, rate: float, /) -> str:
        """Return why stacks are not sampled. A Python thread that samples would delay the job by 5 ms a sample."""
        return "only the extension samples stacks, and it does not load here"

    def sample_no_stacks(self) -> None:
        """Do nothing: without the C extension, no stacks are sampled."""

    def read_host(self, rows: Sequence[tuple[str, str, str, int, bool, bool]], rate: float, share: float, /) -> str:
        """Return why the system's counters are not read. A Python thread would wait for the GIL at each file."""
        return "only the extension reads them, and it does not load here"

    def watch_blocks(self, library: str, least: int, /) -> str:
        """Return why memory blocks are not counted: the allocator's library can call only functions in C."""
        return "only the extension counts blocks of memory, and it does not load here"

    def watch_no_blocks(self) -> None:
        """Do nothing: without the C extension, no memory blocks are counted."""

    def block_places(self, on: bool, /) -> bool:
        """Return False: without the C extension, it is not known which Python lines allocate memory blocks."""
        return False

    def blocks(self) -> BlockCounts:
        """Return zeros: without the C extension, no memory blocks are counted."""
        return BlockCounts(0, 0, 0, 0, 0, False)

    def trace_calls(self, asked: Options, /) -> str:
        """Return why calls of functions are not traced. In Python, each call would take some microseconds more."""
        return "only the extension traces calls, and it does not load here"

    def trace_no_calls(self) -> None:
        """Do nothing: without the C extension, no calls of functions are traced."""

    def traces_beside(self) -> str:
        """Return an empty text: no other tool can interfere, because no calls of functions are traced."""
        return ""

    def calls_taken(self) -> float:
        """Return 0: no time is taken, because no calls of functions are traced."""
        return 0.0

    def stats(self) -> RecorderStats:
        """Return the counts of records since `open`; all zeros if `open` was not called in this process."""
        last = self._last
        if last is None:
            return RecorderStats(0, 0, 0, 0, 0, 0, 0, 0)
        refused = last.dropped, last.dropped_limit
        return RecorderStats(last.records(), *refused, last.bytes, last.unnamed(), last.threads, 0, last.failure)

    def span_cost(self) -> float:
        """Return the measured time of one `begin` and one `end`, ns; measuring writes no record."""
        scratch = PythonRecorder()
        scratch._store = MemoryStore()
        return pair_cost(scratch.begin, scratch.end, clock.raw_ns)


def _worth(category: int) -> Worth:
    return Worth.FINE if category & CATEGORY_FINE else Worth.COARSE
