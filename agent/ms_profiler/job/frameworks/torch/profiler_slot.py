"""Share PyTorch's one profiler slot of a thread with the script's own profilers.

PyTorch allows one profiler on a thread: enabling a second one raises in the job. All profilers start and stop through
functions of `torch._C._autograd`: `torch.profiler` with or without a schedule, `emit_itt`, `emit_nvtx`, the legacy one.
These functions are wrapped: our collector is switched off before the script's profiler starts, and on again after it
has stopped. The functions that return whether a profiler is enabled do not report our collector.
"""

import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from ms_profiler.job.frameworks.base import Target
from ms_profiler.job.frameworks.torch import closures

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
        """Record again on every free thread; called on the thread whose profiler has stopped."""

    def is_ours(self, kind: Any) -> bool:
        """Return whether the profiler of this kind, on the calling thread, is ours."""


class ProfilerSlot:
    """Release the slot of a thread while a profiler of the script uses it.

    Args:
        host: notes in its result that operators are missing meanwhile.
        collector: the collector that occupies the slot at other times.
    """

    def __init__(self, host: "Host", collector: Collector) -> None:
        self._host = host
        self._collector = collector
        self._devices = host.devices
        #: thread on which the script started a profiler that still runs -> whether that profiler is for all threads
        self.lent: dict[int, bool] = {}
        #: how many of these profilers are for all threads, or may be, because they are just being started
        self.everywhere = 0
        kinds = sys.modules["torch._C._profiler"].ActiveProfilerType
        self._none = kinds.NONE
        self._kind = sys.modules[CORE]._profiler_type

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
        """Return the replacement of the function that prepares a profiler: there Kineto takes the device's API."""

        def prepare(*args: Any, **kwargs: Any) -> Any:
            with self._host.guard("releasing the profiler slot"):
                self._collector.release_kineto()
                self._devices.release()
            try:
                return original(*args, **kwargs)
            except BaseException:
                with self._host.guard("resuming after the script's own profiler"):
                    self._resume()
                raise

        return closures.replace(original, prepare)

    def stop(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return the replacement of a function that stops the profiler of the calling thread."""

        def disable(*args: Any, **kwargs: Any) -> Any:
            with self._host.guard("releasing the profiler slot"):
                # the script's profiler is one for all threads; or it has none, and PyTorch raises its error
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
        # PyTorch reports no profiler on the thread that starts one for all threads
        self.lent[thread] = everywhere = self._kind() == self._none
        self.everywhere += everywhere
        self._host.not_collected(
            "operators while the script's own profiler runs", "PyTorch allows one profiler on a thread"
        )

    def _stopped(self, stopped: bool) -> None:
        if not self._take_back(threading.get_ident()) and stopped:
            for thread in [thread for thread, everywhere in self.lent.items() if everywhere]:
                self._take_back(thread)  # this thread had started the profiler for all threads
        self._resume()

    def _resume(self) -> None:
        self._collector.resume()
        if not self.lent:
            self._devices.resume()

    def _take_back(self, thread: int) -> bool:
        if thread not in self.lent:
            return False
        self.everywhere -= self.lent.pop(thread)
        return True

    def enabled(self, original: Callable[[], bool]) -> Callable[[], bool]:
        """Return the replacement of the function that returns whether a profiler is on."""
        kind, is_ours = self._kind, self._collector.is_ours

        def _profiler_enabled() -> bool:
            return original() and not is_ours(kind())

        return closures.replace(original, _profiler_enabled)

    def kind(self, original: Callable[[], Any]) -> Callable[[], Any]:
        """Return the replacement of the function that returns which profiler is on."""
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
