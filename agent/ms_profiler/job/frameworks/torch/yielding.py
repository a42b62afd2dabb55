"""Make way for a profiler of the script's own.

PyTorch has room for one profiler on a thread: switching a second one on raises in the job. All of them go through two
functions of `torch._C._autograd`: `torch.profiler` with or without a schedule, `emit_itt`, `emit_nvtx`, the legacy one.
There ours is switched off before the script's profiler starts, and on again when it has stopped. The script also finds
what it would have found when it asks whether there is a profiler.
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


class Guest(Protocol):
    """What of ours makes way."""

    def make_way(self) -> None:
        """Stop what would be in the way of a profiler on the calling thread."""

    def make_room(self) -> None:
        """Stop what would be in the way of a profiler that is being prepared."""

    def go_on(self) -> None:
        """Go on where nothing is in our way any more; on the thread whose profiler has stopped."""

    def is_ours(self, kind: Any) -> bool:
        """Return whether the profiler of this kind, on the calling thread, is ours."""


class Yielding:
    """Lend threads to the script's own profilers for as long as they run.

    Args:
        host: whose result says so.
        guest: what makes way.
    """

    def __init__(self, host: "Host", guest: Guest) -> None:
        self._host = host
        self._guest = guest
        self._devices = host.devices
        #: thread that started a profiler of the script's own which runs -> whether it is for all threads
        self.lent: dict[int, bool] = {}
        #: how many of these are for all threads, or may be, because they are just being started
        self.everywhere = 0
        kinds = sys.modules["torch._C._profiler"].ActiveProfilerType
        self._none = kinds.NONE
        self._kind = sys.modules[CORE]._profiler_type

    def start(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return the replacement of a function that starts a profiler on the calling thread."""

        def enable(*args: Any, **kwargs: Any) -> Any:
            with self._host.guard("making way for the script's own profiler"):
                self._guest.make_way()
                self._devices.make_way()
            self.everywhere += 1
            started = False
            try:
                result = original(*args, **kwargs)
                started = True
            finally:
                self.everywhere -= 1
                with self._host.guard("making way for the script's own profiler"):
                    self._started(started)
            return result

        return closures.replace(original, enable)

    def prepare(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return the replacement of a function that prepares a profiler: Kineto takes the device's interface there."""

        def prepare(*args: Any, **kwargs: Any) -> Any:
            with self._host.guard("making way for the script's own profiler"):
                self._guest.make_room()
                self._devices.make_way()
            try:
                return original(*args, **kwargs)
            except BaseException:
                with self._host.guard("going on after the script's own profiler"):
                    self._go_on()
                raise

        return closures.replace(original, prepare)

    def stop(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return the replacement of a function that stops the profiler of the calling thread."""

        def disable(*args: Any, **kwargs: Any) -> Any:
            with self._host.guard("making way for the script's own profiler"):
                # the script's is one for all threads, or there is none and it is to get its error
                self._guest.make_way()
            stopped = False
            try:
                result = original(*args, **kwargs)
                stopped = True
            finally:
                with self._host.guard("going on after the script's own profiler"):
                    self._stopped(stopped)
            return result

        return closures.replace(original, disable)

    def _started(self, started: bool) -> None:
        if not started:
            self._go_on()
            return
        thread = threading.get_ident()
        self._take_back(thread)
        # the thread that starts one for all threads has none of its own
        self.lent[thread] = everywhere = self._kind() == self._none
        self.everywhere += everywhere
        self._host.not_collected(
            "operators while the script's own profiler runs", "PyTorch has room for one profiler on a thread"
        )

    def _stopped(self, stopped: bool) -> None:
        if not self._take_back(threading.get_ident()) and stopped:
            for thread in [thread for thread, everywhere in self.lent.items() if everywhere]:
                self._take_back(thread)  # that one had started it
        self._go_on()

    def _go_on(self) -> None:
        self._guest.go_on()
        if not self.lent:
            self._devices.go_on()

    def _take_back(self, thread: int) -> bool:
        if thread not in self.lent:
            return False
        self.everywhere -= self.lent.pop(thread)
        return True

    def enabled(self, original: Callable[[], bool]) -> Callable[[], bool]:
        """Return the replacement of the function that tells whether a profiler is on."""
        kind, is_ours = self._kind, self._guest.is_ours

        def _profiler_enabled() -> bool:
            return original() and not is_ours(kind())

        return closures.replace(original, _profiler_enabled)

    def kind(self, original: Callable[[], Any]) -> Callable[[], Any]:
        """Return the replacement of the function that tells which profiler is on."""
        is_ours = self._guest.is_ours

        def _profiler_type() -> Any:
            kind = original()
            return self._none if is_ours(kind) else kind

        return closures.replace(original, _profiler_type)

    def targets(self) -> list[Target]:
        """Declare what starts and stops the script's profilers, and what tells of them."""
        return [
            Target(CORE, "_prepare_profiler", closure=self.prepare, copies=True),
            *(Target(CORE, name, closure=self.start, copies=True) for name in STARTS),
            *(Target(CORE, name, closure=self.stop, copies=True) for name in STOPS),
            Target(CORE, "_profiler_enabled", closure=self.enabled, copies=True),
            Target(CORE, "_profiler_type", closure=self.kind, copies=True),
        ]
