"""The recorder in pure Python: the same files and methods, for machines where the extension does not load.

An event takes some microseconds; with the extension, it takes a tenth of a microsecond. Signal handlers and finalizers
may run between any two lines, on the thread that is recording. So locks are re-entrant, and a slot is reserved before
it is filled.
"""

import os
import signal
import struct
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Final

from ms_profiler import log
from ms_profiler.job.detached import Detached
from ms_profiler.job.recorder import python_wrapper
from ms_profiler.job.recorder.contract import BlockCounts, RecorderStats
from ms_profiler.job.recorder.cost import pair_cost
from ms_profiler.job.recorder.python_store import MemoryStore, PythonStore, Strings, Worth, utf8
from ms_profiler.job.recorder.python_writer import PythonWriter
from ms_profiler.job.recorder.segment_file import now_ns
from ms_profiler.options import Options
from ms_profiler.store.anonymous import label, word
from ms_profiler.store.device_format import Source
from ms_profiler.store.format import CATEGORY_FINE, Kind

_INSTANT: Final = int(Kind.INSTANT)  # the use of an enumeration's member would take a microsecond more
_COUNTER: Final = int(Kind.COUNTER)
_STEP: Final = int(Kind.STEP)
_EVENTS: Final = frozenset({int(Kind.SPAN), _INSTANT, _COUNTER, _STEP, int(Kind.OPERANDS)})


#: signals that end the wait of `exit_wait`; they do not end the process, which is ending already
_ENDING: Final = frozenset(
    {signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2}
)


class PythonRecorder:
    """Record without the extension.

    Args:
        written: whether to write the files with write(2) even on a file system where shared mappings are reliable.
        anonymous: whether to replace names of the job.
    """

    kind = "python"

    def __init__(self, *, written: bool = False, anonymous: bool = False) -> None:
        self._written = written
        self._anonymous = anonymous
        self._lock = threading.RLock()  # so that only one thread at a time opens or closes a store
        self._strings = Strings()
        self._store: PythonStore | None = None
        self._last: PythonStore | None = None
        self._paused = False
        self._fine = True
        self._local = threading.local()
        self._watches_forks = False

    def _watch_forks(self) -> None:
        if self._watches_forks:
            return
        self._watches_forks = True
        # a weak reference: Python never removes a registered function, so a strong one would keep this object alive
        forget = weakref.WeakMethod(self._after_fork)

        def after_fork() -> None:
            method = forget()
            if method is not None:
                method()

        os.register_at_fork(after_in_child=after_fork)

    def _after_fork(self) -> None:
        self._lock = threading.RLock()
        self._store = self._last = None

    def wrap(self, function: Callable[..., Any], **settings: Any) -> Callable[..., Any]:
        """See `Recorder.wrap`; the replacement adds a Python frame."""
        return python_wrapper.wrap(self, function, **settings)

    def take_optimizer_step(self) -> None:
        """See `Recorder.take_optimizer_step`: there are no shortcuts."""

    def leave_optimizers(self, reason: int, on: bool, /) -> None:
        """See `Recorder.leave_optimizers`: there are no shortcuts."""

    def optimizer_steps(self) -> int:
        """See `Recorder.optimizer_steps`: there are no shortcuts."""
        return 0

    def hook_time(self) -> tuple[int, int]:
        """See `Recorder.hook_time`: there are no shortcuts."""
        return 0, 0

    def nest(self, kind: int, levels: int, /) -> int:
        """See `Recorder.nest`."""
        return python_wrapper.nest(kind, levels)

    def tracing(self, source: Source) -> None:
        """See `Recorder.tracing`: impossible, because callbacks of a device run on threads that cannot run Python."""

    def connect_operators(
        self, library: bytes, thread: int, scope: int, sequence: int, forward: int, async_: int, /
    ) -> str:
        """See `Recorder.connect_operators`: impossible, because PyTorch calls only functions of a shared library."""
        return "the extension, which records them, does not load"

    def take_operators(self, on: bool, /) -> None:
        """See `Recorder.take_operators`."""

    def hand_over_region(self, name: str, /) -> None:
        """See `Recorder.hand_over_region`: no operators are recorded."""

    def operators_elsewhere(self) -> bool:
        """See `Recorder.operators_elsewhere`: no operators are recorded."""
        return False

    def call_at_rest(self, call: Callable[[], Any], most_ns: int, /) -> Any:
        """See `Recorder.call_at_rest`: Python code cannot keep the GIL, so the call is made at once."""
        return call()

    def fast_region(self, original: Any, /) -> Any:
        """See `Recorder.fast_region`."""
        return original

    def answers(self, patience: float) -> bool:
        """See `Recorder.answers`: not checked, because a waiting Python thread could block the interpreter's end."""
        return True

    def exit_wait(self, program: Detached, timeout: float, shows: bool, late: str, failed: str) -> None:
        """See `Recorder.exit_wait`: the wait begins at once, because no Python code of ours runs later."""
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
        """See `Recorder.write_exit_status`: impossible, because Python passes no status to functions at exit."""

    def delay_signals(self, on: bool, /) -> None:
        """See `Recorder.delay_signals`: Python does not know when a signal arrived, so no signal is delayed."""

    def open(
        self,
        folder: str,
        *,
        first_slots: int = 2048,
        account: str = "",
        limit: int | None = None,
        memory: int | None = None,
    ) -> None:
        """See `Recorder.open`."""
        with self._lock:
            self.close()
            self._watch_forks()
            path = os.path.realpath(folder, strict=True)
            self._last = PythonStore(path, first_slots, account, limit, memory, self._written, self._strings)
            self._paused, self._fine = False, True
            self._store = self._last

    def spend(self, size: int, /) -> None:
        """See `Recorder.spend`."""
        if self._store is not None:
            self._store.account.change(size)

    def set_aside(self, size: int, /) -> None:
        """See `Recorder.set_aside`."""
        if self._store is not None:
            self._store.account.change(limit=-size)

    def room(self) -> int:
        """See `Recorder.room`."""
        return self._store.account.left(Worth.FINE) if self._store is not None else 0

    def close(self) -> None:
        """See `Recorder.close`."""
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
        """Return the calling thread's writer for the open store; None if no store is open."""
        store = self._store
        if store is None:
            return None
        writer: PythonWriter | None = getattr(self._local, "writer", None)
        if writer is None or writer.store is not store:
            writer = self._local.writer = PythonWriter(store, self._called())
        return writer

    def _called(self) -> str:
        """Return the name of the calling thread; empty for the system's name."""
        called: str = getattr(self._local, "label", "")
        return called or ("thread" if self._anonymous else "")

    def _admitted(self, category: int) -> PythonWriter | None:
        """Return the calling thread's writer; None if an event of this category is not to be recorded.

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
        """See `Recorder.pause`."""
        self._paused = bool(paused)

    def fine(self, on: bool, /) -> None:
        """See `Recorder.fine`."""
        self._fine = bool(on)

    def intern(self, text: str, /) -> int:
        """See `Recorder.intern`."""
        return self._intern(text, None)

    def intern_one_of(self, text: str, most: int, /) -> int:
        """See `Recorder.intern_one_of`."""
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
        """See `Recorder.thread_name`."""
        self._local.label = text = word(text) if self._anonymous else text
        writer = self._writer()
        if writer is not None:
            writer.rename(text)

    def begin(self, name: int, category: int, arg: int = 0, /) -> int:
        """See `Recorder.begin`."""
        writer = None if self._paused else self._admitted(category)
        return writer.begin(name, category, arg, _worth(category)) if writer is not None else 0

    def end(self, token: int, flags: int = 0, /) -> None:
        """See `Recorder.end`."""
        writer = self._writer() if token else None
        if writer is not None:
            writer.end(token, flags)

    def instant(self, name: int, category: int, arg: int = 0, /) -> None:
        """See `Recorder.instant`."""
        self._event(_INSTANT, name, category, arg)

    def counter(self, name: int, value: float, /) -> None:
        """See `Recorder.counter`."""
        self._event(_COUNTER, name, 0, struct.unpack("=Q", struct.pack("=d", value))[0])

    def _event(self, kind: int, name: int, category: int, arg: int) -> None:
        writer = None if self._paused else self._admitted(category)
        if writer is not None:
            now = now_ns()
            writer.append(kind, category, 0, name, now, now, arg, _worth(category))
            writer.store.flush(now)

    def record(self, kind: int, category: int, flags: int, name: int, start_ns: int, end_ns: int, arg: int, /) -> bool:
        """See `Recorder.record`."""
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
            writer.stepped(now_ns())
        return True

    def now(self) -> int:
        """See `Recorder.now`."""
        return now_ns()

    def anchor(self) -> None:
        """See `Recorder.anchor`."""
        store = self._store
        if store is not None:
            store.anchor()

    def sample_stacks(self, rate: float, /) -> str:
        """See `Recorder.sample_stacks`: impossible, because a Python thread would delay the job by 5 ms a sample."""
        return "only the extension samples stacks, and it does not load here"

    def sample_no_stacks(self) -> None:
        """See `Recorder.sample_no_stacks`."""

    def read_host(self, rows: Sequence[tuple[str, str, str, int, bool, bool]], rate: float, /) -> str:
        """See `Recorder.read_host`: impossible, because a Python thread would wait for the GIL at each file."""
        return "only the extension reads them, and it does not load here"

    def watch_blocks(self, library: str, least: int, /) -> str:
        """See `Recorder.watch_blocks`: impossible, because a shared library cannot import Python functions."""
        return "only the extension counts blocks of memory, and it does not load here"

    def watch_no_blocks(self) -> None:
        """See `Recorder.watch_no_blocks`."""

    def block_places(self, on: bool, /) -> bool:
        """See `Recorder.block_places`."""
        return False

    def blocks(self) -> BlockCounts:
        """See `Recorder.blocks`."""
        return BlockCounts(0, 0, 0, 0, 0, False)

    def trace_calls(self, asked: Options, /) -> str:
        """See `Recorder.trace_calls`: not done, because each call would take some microseconds more."""
        return "only the extension traces calls, and it does not load here"

    def trace_no_calls(self) -> None:
        """See `Recorder.trace_no_calls`."""

    def traces_beside(self) -> str:
        """See `Recorder.traces_beside`."""
        return ""

    def calls_taken(self) -> float:
        """See `Recorder.calls_taken`."""
        return 0.0

    def stats(self) -> RecorderStats:
        """See `Recorder.stats`."""
        last = self._last
        if last is None:
            return RecorderStats(0, 0, 0, 0, 0, 0, 0)
        refused = last.dropped, last.dropped_limit
        return RecorderStats(last.records(), *refused, last.bytes, last.unnamed(), last.threads, last.failure)

    def span_cost(self) -> float:
        """See `Recorder.span_cost`."""
        scratch = PythonRecorder()
        scratch._store = MemoryStore()
        return pair_cost(scratch.begin, scratch.end, now_ns)


def _worth(category: int) -> Worth:
    return Worth.FINE if category & CATEGORY_FINE else Worth.COARSE
