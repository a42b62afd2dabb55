"""Share PyTorch's one profiler slot of a thread with the script's own profilers.

PyTorch allows one profiler on a thread: the start of a second one raises an exception in the job. All profilers start
and stop through functions of `torch._C._autograd`: `torch.profiler` with or without a schedule, `emit_itt`,
`emit_nvtx`, the legacy profiler. ms-profiler wraps these functions, switches our collector off before the script's
profiler starts, and switches it on again after that profiler has stopped. PyTorch's functions that tell whether a
profiler is enabled are wrapped, too: they do not report our collector.
"""

import sys
import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from ms_profiler.job.frameworks.base import Target
from ms_profiler.job.frameworks.torch import c_callers, closures

if TYPE_CHECKING:
    from ms_profiler.job.host import Host

CORE = "torch._C._autograd"
STARTS = ("_enable_profiler", "_enable_profiler_legacy")
STOPS = ("_disable_profiler", "_disable_profiler_legacy")


class Collector(Protocol):
    """A collector of ours that occupies the profiler slot."""

    def release(self) -> None:
        """Stop recording on the calling thread, before a profiler of the script starts there."""

    def release_kineto(self) -> None:
        """Stop Kineto if we use it, before the script prepares a profiler: preparing a second one fails."""

    def resume(self) -> None:
        """Record again on each thread without another profiler; called on the thread whose profiler has stopped."""

    def is_ours(self, kind: Any) -> bool:
        """Return whether the calling thread's profiler, which is of this kind, is ours."""


class ProfilerSlot:
    """Release the slot of a thread while a profiler of the script uses it.

    Args:
        host: the session, which notes the missing operators.
        collector: our collector, which occupies the slot at other times.
    """

    def __init__(self, host: "Host", collector: Collector) -> None:
        self._host = host
        self._collector = collector
        self._devices = host.devices
        #: thread -> kind of the profiler that the script started there and that still runs. The kind is "none" if this
        #: is a profiler for all threads.
        self.lent: dict[int, Any] = {}
        #: number of the script's profilers for all threads, including those that are just being started, whose kind is
        #: unknown
        self.everywhere = 0
        #: whether the script has prepared Kineto and not started it yet, as its schedule does some steps earlier
        self.prepared = False
        #: id of each open region that the script began while its profiler ran -> the region. When the region ends,
        #: PyTorch takes the profiler in the slot for the script's profiler, and writes into memory that is already
        #: free.
        self.regions: dict[int, weakref.ref[Any]] = {}
        #: threads on which a profiler of the script ended inside of PyTorch's C++ code, where regions may be open
        self._inside: set[int] = set()
        self._is_inside = c_callers.checker()
        kinds = sys.modules["torch._C._profiler"].ActiveProfilerType
        self._none = kinds.NONE
        self._by_kineto = (kinds.KINETO, kinds.NONE)
        self._kind = sys.modules[CORE]._profiler_type
        self._backward_pass = getattr(sys.modules["torch._C"], "_current_graph_task_id", lambda: -1)

    @property
    def free(self) -> bool:
        """Return whether Kineto may be used: no profiler of the script runs, is prepared, or has left a region open."""
        return not (self.lent or self.prepared or self.regions)

    @property
    def in_backward(self) -> bool:
        """Return whether the calling thread executes a backward pass.

        After each node of a pass, PyTorch sets the thread's profiler to the one that it had at the begin of the pass.
        """
        return bool(self._backward_pass() != -1)

    @property
    def referred(self) -> bool:
        """Return whether PyTorch may still refer to a profiler of the script that has ended.

        PyTorch does so as long as regions are open that began while that profiler ran: regions of the script, and
        regions around calls of PyTorch's C++ code.
        """
        thread = threading.get_ident()
        if thread in self._inside and not self._is_inside():
            self._inside.discard(thread)
        return bool(self.regions) or thread in self._inside

    def ours(self, kind: Any) -> bool:
        """Return whether the calling thread's profiler is of this kind and not the script's.

        Args:
            kind: the kind of our collector.
        """
        return bool(self._kind() == kind != self.lent.get(threading.get_ident()))

    def start(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return the replacement of a function that starts a profiler on the calling thread."""

        def enable(*args: Any, **kwargs: Any) -> Any:
            with self._host.guard("releasing the profiler slot"):
                self._collector.release()
                self._devices.release()
            self.everywhere += 1
            started = False
            try:
                result = original(*args, **kwargs)
                started = True
            finally:
                self.everywhere -= 1
                with self._host.guard("releasing the profiler slot"):
                    self._started(started)
            return result

        return closures.replace(original, enable)

    def prepare(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return the replacement of the function that prepares a profiler, where Kineto attaches to the device."""

        def prepare(*args: Any, **kwargs: Any) -> Any:
            with self._host.guard("releasing the profiler slot"):
                self._collector.release_kineto()
                self._devices.release()
            try:
                result = original(*args, **kwargs)
            except BaseException:
                with self._host.guard("resuming after the script's own profiler"):
                    self._resume()
                raise
            self.prepared = True
            return result

        return closures.replace(original, prepare)

    def stop(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return the replacement of a function that stops the profiler of the calling thread."""

        def disable(*args: Any, **kwargs: Any) -> Any:
            with self._host.guard("releasing the profiler slot"):
                # If our collector is on here, the script's profiler was started for all threads. Or the script has no
                # profiler, and PyTorch raises its usual error.
                self._collector.release()
            stopped = False
            try:
                result = original(*args, **kwargs)
                stopped = True
            finally:
                with self._host.guard("resuming after the script's own profiler"):
                    self._stopped(stopped)
            return result

        return closures.replace(original, disable)

    def _started(self, started: bool) -> None:
        if not started:
            self._resume()
            return
        thread = threading.get_ident()
        self._take_back(thread)
        kind = self._kind()
        self.prepared = self.prepared and kind not in self._by_kineto
        self.lent[thread] = kind
        self.everywhere += kind == self._none
        self._host.not_collected(
            "operators while the script's own profiler runs", "PyTorch allows one profiler on a thread"
        )

    def _stopped(self, stopped: bool) -> None:
        if not self._take_back(threading.get_ident()) and stopped:
            for thread in [thread for thread, kind in self.lent.items() if kind == self._none]:
                self._take_back(thread)  # this thread started the profiler for all threads
        if self._is_inside():
            self._inside.add(threading.get_ident())
        self._resume()

    def _resume(self) -> None:
        self._collector.resume()
        if not (self.lent or self.prepared):
            self._devices.resume()

    def _take_back(self, thread: int) -> bool:
        if thread not in self.lent:
            return False
        self.everywhere -= self.lent.pop(thread) == self._none
        return True

    def enabled(self, original: Callable[[], bool]) -> Callable[[], bool]:
        """Return the replacement of the function that returns whether a profiler is on; ours is not reported."""
        kind, is_ours = self._kind, self._collector.is_ours

        def _profiler_enabled() -> bool:
            return original() and not is_ours(kind())

        return closures.replace(original, _profiler_enabled)

    def kind(self, original: Callable[[], Any]) -> Callable[[], Any]:
        """Return the replacement of the function that returns which kind of profiler is on; ours is not reported."""
        is_ours = self._collector.is_ours

        def _profiler_type() -> Any:
            kind = original()
            return self._none if is_ours(kind) else kind

        return closures.replace(original, _profiler_type)

    def targets(self) -> list[Target]:
        """Declare the functions that prepare, start, stop and report a profiler."""
        return [
            Target(CORE, "_prepare_profiler", closure=self.prepare, copies=True),
            *(Target(CORE, name, closure=self.start, copies=True) for name in STARTS),
            *(Target(CORE, name, closure=self.stop, copies=True) for name in STOPS),
            Target(CORE, "_profiler_enabled", closure=self.enabled, copies=True),
            Target(CORE, "_profiler_type", closure=self.kind, copies=True),
        ]
