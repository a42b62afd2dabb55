"""The native recorder behind the `Recorder` protocol; the only importer of `ms_profiler._native`."""

import os

from ms_profiler import _native
from ms_profiler.job.recorder.base import RecorderStats
from ms_profiler.job.recorder.cost import pair_cost
from ms_profiler.job.recorder.tracing import Kinds, Outcome, TraceCounts
from ms_profiler.store.device_format import Source

#: of the extension, without symbolic links: under another name it could be loaded a second time
PATH = os.path.realpath(_native.__file__)


#: bytes of a reason
_ROOM = 256


class NativeTracing:
    """See `Tracing`.

    Args:
        source: whose interface.
    """

    def __init__(self, source: Source) -> None:
        self._source = int(source)

    def ready(self) -> bool:
        """See `Tracing.ready`."""
        return _native.lib.msp_trace_ready(self._source)

    def attach(self, library: str) -> tuple[Outcome, str]:
        """See `Tracing.attach`."""
        why = _native.ffi.new("char[]", _ROOM)
        outcome = _native.lib.msp_trace_attach(self._source, os.fsencode(library), why, _ROOM)
        return Outcome(outcome), _native.ffi.string(why).decode("utf-8", "replace")

    def record(self, kinds: Kinds) -> tuple[Outcome, str]:
        """See `Tracing.record`."""
        why = _native.ffi.new("char[]", _ROOM)
        outcome = _native.lib.msp_trace_record(int(kinds), why, _ROOM)
        return Outcome(outcome), _native.ffi.string(why).decode("utf-8", "replace")

    def flush(self) -> Outcome:
        """See `Tracing.flush`."""
        return Outcome(_native.lib.msp_trace_flush())

    def detach(self) -> Outcome:
        """See `Tracing.detach`."""
        return Outcome(_native.lib.msp_trace_detach())

    def counts(self) -> TraceCounts:
        """See `Tracing.counts`."""
        counts = _native.ffi.new("msp_trace_counts *")
        _native.lib.msp_trace_count(counts)
        return TraceCounts(**{name: getattr(counts, name) for name in TraceCounts.__dataclass_fields__})


class NativeRecorder:
    """Record with the extension. There is one recorder in a process, however many of these.

    What hooks call often is the extension's function itself, so that `begin = recorder.begin` calls C without a
    detour. `open` and `close` go through cffi: they may wait for a disk, and let other threads run meanwhile.
    """

    kind = "native"

    begin = staticmethod(_native.begin)
    end = staticmethod(_native.end)
    instant = staticmethod(_native.instant)
    counter = staticmethod(_native.counter)
    record = staticmethod(_native.record)
    intern = staticmethod(_native.intern)
    thread_name = staticmethod(_native.thread_name)
    take_ops = staticmethod(_native.op_stream)
    take_ranges = staticmethod(_native.range_stream)
    annotate = staticmethod(_native.annotate)
    pause = staticmethod(_native.pause)
    fine = staticmethod(_native.fine)
    now = staticmethod(_native.now)
    anchor = staticmethod(_native.anchor)

    def __init__(self, *, written: bool = False) -> None:
        """Make the recorder.

        Args:
            written: copy to the files with write(2) even where shared mappings can be relied on; a kill then loses
                the last 200 ms.
        """
        self._flags = _native.lib.MSP_OPEN_WRITTEN if written else 0

    def tracing(self, source: Source) -> NativeTracing:
        """See `Recorder.tracing`."""
        return NativeTracing(source)

    def exit_wait(self, pid: int, timeout: float, late: str, failed: str) -> None:
        """See `Recorder.exit_wait`: waited for when the extension is unloaded, after MindSpore's 0.4 s of tear-down."""
        _native.lib.msp_exit_wait(pid, int(timeout * 1000), os.fsencode(late), os.fsencode(failed))

    def open(self, folder: str, *, first_slots: int = 2048, limit_fine: int = 0, limit_all: int = 0) -> None:
        """See `Recorder.open`."""
        error = _native.lib.msp_open(os.fsencode(folder), first_slots, limit_fine, limit_all, self._flags)
        if error:
            raise OSError(error, os.strerror(error), folder)

    def close(self) -> None:
        """See `Recorder.close`."""
        _native.lib.msp_close()

    def stats(self) -> RecorderStats:
        """See `Recorder.stats`."""
        return RecorderStats(*_native.stats())

    def span_cost(self) -> float:
        """See `Recorder.span_cost`."""
        if not _native.scratch(True):
            return 0.0
        try:
            return pair_cost(_native.begin, _native.end, _native.now)
        finally:
            _native.scratch(False)
