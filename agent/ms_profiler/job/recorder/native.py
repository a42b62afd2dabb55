"""The recorder that uses the C extension; only this module imports the extension, `ms_profiler._native`."""

import errno
import functools
import os
import posix
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from threading import get_native_id
from typing import Any

from ms_profiler.job import process
from ms_profiler.job.detached import Detached
from ms_profiler.job.recorder.contract import BlockCounts, RecorderStats
from ms_profiler.job.recorder.cost import pair_cost
from ms_profiler.job.recorder.interpreter import Interpreter
from ms_profiler.job.recorder.shortcut import Shortcut
from ms_profiler.job.recorder.tracing import Kinds, Outcome, TraceCounts
from ms_profiler.options import Options
from ms_profiler.store import anonymous
from ms_profiler.store.account import NO_LIMIT
from ms_profiler.store.device_format import Source
from ms_profiler.store.host_metrics import SAMPLE

if process.free_threaded():  # pip can build the extension for such a Python, but the extension's tables rely on the GIL
    raise ImportError("the extension relies on Python's GIL, and this Python is a free-threaded build")
from ms_profiler import _native

#: Base classes of Python classes; their attributes can also be read and written by the extension's hooks.
ListenerBase = _native.ListenerBase
StepsBase = _native.StepsBase
TrackBase = _native.TrackBase

#: size of the buffer for the text with which the extension explains a failure, in bytes
_ROOM = 256


def start_apart(command: Sequence[str], environment: Mapping[str, str], output: int, errors: int) -> int:
    """Start a program that is no child of the job, and return its process id, as `apart.start` does."""

    def array(texts: Iterable[str]) -> tuple[Any, list[Any]]:
        memory = [_native.ffi.new("char[]", os.fsencode(text)) for text in texts]
        return _native.ffi.new("char *[]", [*memory, _native.ffi.NULL]), memory

    words, _words = array(command)
    variables, _variables = array(f"{name}={value}" for name, value in environment.items())
    pid = _native.lib.msp_start_apart(words, variables, output, errors)
    if pid < 0:
        raise OSError(-pid, posix.strerror(-pid), command[0])
    return pid


def shield(call: Callable[..., Any], failed: Callable[[BaseException], Any]) -> Callable[..., Any]:
    """Return a replacement of a callback that does not lose exceptions of the job, as `recorder.shield` does."""
    return _native.shield(call, failed)


@functools.cache
def _pause_at_forks() -> None:
    """Pause the extension's helper thread at forks, because Python 3.12 and later warn of a fork beside threads."""
    if sys.version_info >= (3, 12):
        posix.register_at_fork(before=_native.lib.msp_helper_rest)


@functools.cache
def _interpreter() -> Interpreter:
    """Return the one object of this process that starts and stops the tracing of Python calls."""
    return Interpreter(_native)


class NativeTracing:
    """Attach the tracing interface of a device, record, and detach it: `Tracing` by the extension.

    Args:
        source: the vendor's interface, for example CUPTI.
    """

    def __init__(self, source: Source) -> None:
        self._source = int(source)

    def ready(self) -> bool:
        """Return whether the job already uses the device's driver in this process."""
        return _native.lib.msp_trace_ready(self._source)

    def attach(self, library: str) -> tuple[Outcome, str]:
        """Attach the vendor's interface without recording; return the outcome and its reason."""
        why = _native.ffi.new("char[]", _ROOM)
        outcome = _native.lib.msp_trace_attach(self._source, os.fsencode(library), why, _ROOM)
        return Outcome(outcome), _native.ffi.string(why).decode("utf-8", "replace")

    def record(self, kinds: Kinds) -> tuple[Outcome, str]:
        """Record these kinds of device records from now on; return the outcome and a text, as in `Tracing.record`."""
        why = _native.ffi.new("char[]", _ROOM)
        outcome = _native.lib.msp_trace_record(int(kinds), why, _ROOM)
        return Outcome(outcome), _native.ffi.string(why).decode("utf-8", "replace")

    def flush(self) -> Outcome:
        """Write all finished device records to the result."""
        return Outcome(_native.lib.msp_trace_flush())

    def detach(self) -> Outcome:
        """Write all device records to the result, and detach the vendor's interface."""
        return Outcome(_native.lib.msp_trace_detach())

    def counts(self) -> TraceCounts:
        """Return the counts of device records so far."""
        counts = _native.ffi.new("msp_trace_counts *")
        _native.lib.msp_trace_count(counts)
        return TraceCounts(**{name: getattr(counts, name) for name in TraceCounts.__dataclass_fields__})


class NativeRecorder:
    """Record with the C extension. All objects of this class share the one recorder of the process.

    Hooks call some methods often. These are the extension's functions themselves, so no Python code runs for such a
    call. `open` and `close` use cffi, which lets other threads run while they wait for a disk.
    """

    kind = "native"

    begin = staticmethod(_native.begin)
    end = staticmethod(_native.end)
    instant = staticmethod(_native.instant)
    counter = staticmethod(_native.counter)
    record = staticmethod(_native.record)
    intern = staticmethod(_native.intern)
    intern_one_of = staticmethod(_native.intern_one_of)
    thread_name = staticmethod(_native.thread_name)
    connect_operators = staticmethod(_native.connect_operators)
    take_operators = staticmethod(_native.take_operators)
    hand_over_region = staticmethod(_native.hand_over_region)
    operators_elsewhere = staticmethod(_native.operators_elsewhere)
    call_at_rest = staticmethod(_native.call_at_rest)
    rest = staticmethod(_native.rest)
    fast_region = staticmethod(_native.fast_region)
    pause = staticmethod(_native.pause)
    fine = staticmethod(_native.fine)
    now = staticmethod(_native.now)
    anchor = staticmethod(_native.anchor)
    nest = staticmethod(_native.nest)
    take_optimizer_step = staticmethod(_native.take_optimizer_step)
    leave_optimizers = staticmethod(_native.leave_optimizers)
    optimizer_steps = staticmethod(_native.optimizer_steps)
    hook_times = staticmethod(_native.hook_times)

    def __init__(self, *, written: bool = False) -> None:
        """Make the recorder.

        Args:
            written: whether to write the files with write(2), even on a file system where shared memory mappings are
                reliable. With write(2), a kill of the job loses the records of the last 200 ms.
        """
        self._flags = _native.lib.MSP_OPEN_WRITTEN if written else 0

    def optimizer_hook(self, python: Callable[..., None], **settings: Any) -> Any:
        """See `Recorder.optimizer_hook`."""
        return _native.OptimizerHook(python, **settings)

    def wrap(
        self,
        function: Callable[..., Any],
        *,
        before: Callable[..., Any] | None = None,
        after: Callable[[Any, Any, Any], Any] | None = None,
        labels: dict[int, Any] | None = None,
        describe: Callable[[Any], Any] | None = None,
        shortcut: Shortcut | None = None,
        **settings: Any,
    ) -> Callable[..., Any]:
        """Return a replacement that records each call, as `Recorder.wrap`; it adds no frame and no recursion level."""
        given = {"before": before, "after": after, "labels": labels, "describe": describe, "shortcut": shortcut}
        settings |= {name: value for name, value in given.items() if value is not None}
        wrapper: Callable[..., Any] = _native.Wrapper(function, **settings)
        return wrapper

    def tracing(self, source: Source) -> NativeTracing:
        """Return the tracing of a device by a vendor's interface."""
        return NativeTracing(source)

    def exit_wait(self, program: Detached, timeout: float, shows: bool, late: str, failed: str) -> None:
        """Let the process wait for `program` when it ends, as `Recorder.exit_wait`.

        The wait is the last work of the process, after MindSpore's tear-down, which takes 0.4 s.
        """
        texts = os.fsencode(late), os.fsencode(failed)
        error = _native.lib.msp_exit_wait(program.reader, program.pid, int(timeout * 1000), shows, *texts)
        if error:
            raise OSError(error, posix.strerror(error))

    def write_exit_status(self, path: str, /) -> None:
        """Prepare a new file that receives the exit status of this process, if the process ends by `exit`."""
        error = _native.lib.msp_exit_status(os.fsencode(path))
        if error:
            raise OSError(error, posix.strerror(error))

    def delay_signals(self, on: bool, /) -> None:
        """Start or stop delaying signals of the job, so that none interrupts the last work of ms-profiler."""
        (_native.lib.msp_signals_hold if on else _native.lib.msp_signals_release)()

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
        _pause_at_forks()
        disk, most = (NO_LIMIT if size is None else size for size in (limit, memory))
        error = _native.lib.msp_open(os.fsencode(folder), first_slots, os.fsencode(account), disk, most, self._flags)
        if error:
            raise OSError(error, posix.strerror(error), folder)

    def spend(self, size: int, /) -> None:
        """Count bytes on disk that other code has written; a negative number counts released bytes."""
        _native.lib.msp_spend(size)

    def set_aside(self, size: int, /) -> None:
        """Reserve bytes of the disk limit for other code; a negative number ends the reservation of these bytes."""
        _native.lib.msp_set_aside(size)

    def room(self) -> int:
        """Return the bytes on disk that are left for fine-grained records; 0 while nothing is recorded."""
        return int(_native.lib.msp_room())

    def close(self) -> None:
        """Stop recording: end the open spans of the calling thread, and unmap the files."""
        error = _native.lib.msp_close()
        if error:
            raise OSError(error, posix.strerror(error))

    def answers(self, patience: float) -> bool:
        """Return whether the file system of the records answers in time; the extension's helper thread checks it."""
        return _native.lib.msp_helper_answers(int(patience * 1000))

    def sample_stacks(self, rate: float, /) -> str:
        """Start sampling the Python stacks of all threads; return why that is impossible, empty on success."""
        import threading  # every framework has imported it

        known = getattr(threading, "_active", None)
        look = getattr(sys, "_current_frames", None)
        if not isinstance(known, dict) or look is None:
            return f"{sys.implementation.name} {sys.version.split()[0]} does not show the stacks of threads"
        while get_native_id() == posix.getpid() and not _native.find_pending():
            pass  # finding out how the helper thread can call Python takes up to 1000 calls, with bytecodes between
        return "" if _native.sample_stacks(rate, look, known) else "no thread for sampling can be started"

    def sample_no_stacks(self) -> None:
        """Stop sampling the Python stacks."""
        _native.sample_no_stacks()

    def read_host(self, rows: Sequence[tuple[str, str, str, int, bool, bool]], rate: float, share: float, /) -> str:
        """Start reading the system's counters at a rate; return why that is impossible, empty on success."""
        new, keep = _native.ffi.new, list[Any]()
        table = new("msp_metric[]", len(rows))
        for entry, (name, path, key, number, own, seldom) in zip(table, rows, strict=True):
            keep += [new("char[]", os.fsencode(path)), new("char[]", os.fsencode(key))]
            entry.path, entry.key = keep[-2:]
            entry.number, entry.own, entry.seldom = number, own, seldom
            entry.name = self.intern(name)
        period, rest = max(int(1000 / rate), 1), min(int(1 / share), 1 << 31)
        read = _native.lib.msp_metrics_read(table, len(rows), self.intern(SAMPLE), period, rest)
        return "" if read else posix.strerror(errno.ENOMEM)

    def watch_blocks(self, library: str, least: int, /) -> str:
        """Start counting the memory blocks of an allocator; return why that is impossible, empty on success."""
        why = _native.lib.msp_blocks_watch(os.fsencode(library), least)
        return "" if why == _native.ffi.NULL else f"{library} {_native.ffi.string(why).decode()}"

    def watch_no_blocks(self) -> None:
        """Stop counting memory blocks, and forget them."""
        _native.lib.msp_blocks_leave()

    def block_places(self, on: bool, /) -> bool:
        """Start or stop recording the Python lines that allocate blocks on this thread; return whether it works."""

        if get_native_id() != posix.getpid():
            return False  # before Python 3.12 only the main thread runs calls that other threads request
        while on and not _native.find_pending():
            pass  # this takes several calls, as in `sample_stacks`
        return _native.block_places(on)

    def blocks(self) -> BlockCounts:
        """Return the counts of the allocator's memory blocks."""
        return BlockCounts(*_native.blocks())

    def trace_calls(self, asked: Options, /) -> str:
        """Start tracing calls of Python functions; return why that is impossible, empty on success."""
        return _interpreter().begin(asked)

    def trace_no_calls(self) -> None:
        """Stop tracing calls of Python functions."""
        _interpreter().end()

    def traces_beside(self) -> str:
        """Return the name of a debugger or profiler that has started during the tracing of calls; empty if none has."""
        return _interpreter().beside()

    def calls_taken(self) -> float:
        """Return the time that the tracing of calls has taken so far, ns, estimated from the number of calls."""
        return _interpreter().spent()

    def stats(self) -> RecorderStats:
        """Return the counts of records so far."""
        return RecorderStats(*_native.stats())

    def span_cost(self) -> float:
        """Return the measured time of one `begin` and one `end`, ns; measuring writes no record."""
        try:
            if not _native.scratch(True):
                return 0.0
            return pair_cost(_native.begin, _native.end, _native.now)
        finally:
            _native.scratch(False)


class AnonymousRecorder(NativeRecorder):
    """Record with the C extension, and replace names of the job, for the option `anonymize`."""

    def __init__(self) -> None:
        super().__init__()
        _native.anonymize(anonymous.key())

    @staticmethod
    def intern(text: str, /) -> int:
        """Return the id of the text that replaces `text`."""
        return _native.intern(anonymous.label(text))

    @staticmethod
    def intern_one_of(text: str, most: int, /) -> int:
        """Return the id of the name that replaces `text`; 0 for a new name if `most` names are stored already."""
        return _native.intern_one_of(anonymous.label(text), most)
