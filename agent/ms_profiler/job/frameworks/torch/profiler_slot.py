"""Leave Kineto, PyTorch's recorder, to the script's own profilers.

A process has only one Kineto. If ms-profiler recorded with it, the start of a profiler of the script would raise an
exception in the job. All profilers start and stop through functions of `torch._C._autograd`: `torch.profiler` with or
without a schedule, `emit_itt`, `emit_nvtx`, the legacy profiler. ms-profiler wraps these functions. It stops its own
use of Kineto before the script's profiler starts, and detaches from devices until the script's profiler has stopped.

While Kineto runs, a `record_function` region may begin that ends after Kineto has stopped. If Kineto has been started
again by then, PyTorch takes the new recording for the old one, and writes into memory that is already free. So
ms-profiler does not start Kineto while a region from an earlier recording is open. The region may be one of the script,
or one that PyTorch's C++ code makes around a call, for example of the forward method of an autograd function.
"""

import sys
import weakref
from collections.abc import Callable
from threading import get_ident
from typing import TYPE_CHECKING, Any

from ms_profiler.job.frameworks import base
from ms_profiler.job.frameworks.base import Target
from ms_profiler.job.frameworks.torch import c_callers, closures
from ms_profiler.job.guard import pass_on
from ms_profiler.job.recorder import shield

if TYPE_CHECKING:
    from ms_profiler.job.host import Host

CORE = "torch._C._autograd"
PROFILER = "torch.autograd.profiler"
STARTS = ("_enable_profiler", "_enable_profiler_legacy")
STOPS = ("_disable_profiler", "_disable_profiler_legacy")


class ProfilerSlot:
    """Keep Kineto free for the script's profilers, and know when ms-profiler may use it.

    Args:
        host: the session, which knows the devices.
        end: a function that stops Kineto if ms-profiler uses it now.
    """

    def __init__(self, host: "Host", end: Callable[[], None]) -> None:
        self._host = host
        self._end = end
        self._devices = host.devices
        self._used = False
        #: Replacements of the functions that begin and end a `record_function` region. They do nothing until a profiler
        #: runs for the first time, because regions before that need not be known.
        self._region_hooks: list[Any] = []
        #: for each running profiler of the script: thread that started it -> whether this profiler records all threads
        self._lent: dict[int, bool] = {}
        #: whether the script has prepared Kineto but not started it: with a schedule, some steps lie between the two
        self._prepared = False
        #: open regions that began while Kineto or a profiler of the script ran: id of the region -> the region
        self._regions: dict[int, weakref.ref[Any]] = {}
        #: Threads on which a profiler of the script ended while PyTorch's C++ code was among the callers. This code may
        #: have open regions.
        self._inside: set[int] = set()
        self._is_inside = c_callers.checker()
        kinds = sys.modules["torch._C._profiler"].ActiveProfilerType
        self._none = kinds.NONE
        self._by_kineto = (kinds.KINETO, kinds.NONE)
        self._kind = sys.modules[CORE]._profiler_type
        self._backward_pass = getattr(sys.modules["torch._C"], "_current_graph_task_id", lambda: -1)

    @property
    def used(self) -> bool:
        """Return whether ms-profiler uses Kineto now; the code that starts and stops Kineto sets this."""
        return self._used

    @used.setter
    def used(self, used: bool) -> None:
        self._used = used
        self._note_regions()

    def _note_regions(self) -> None:
        while self._region_hooks:
            self._region_hooks.pop().idle = False

    @property
    def free(self) -> bool:
        """Return whether ms-profiler may start Kineto now, on the calling thread.

        ms-profiler may not start Kineto in three cases:

        - A profiler of the script runs or is prepared.
        - A `record_function` region that began while a profiler ran is still open, or may be.
        - The thread runs a backward pass. After each node of the graph, PyTorch restores the profiler that the thread
          had at the begin of the pass.
        """
        thread = get_ident()
        if thread in self._inside and not self._is_inside():
            self._inside.discard(thread)
        busy = self._lent or self._prepared or self._regions or thread in self._inside
        return not busy and bool(self._backward_pass() == -1)

    def start(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return the replacement of a function that starts a profiler on the calling thread."""

        def enable(*args: Any, **kwargs: Any) -> Any:
            started = False
            try:
                self._leave()
                result = original(*args, **kwargs)
                started = True
            finally:
                with self._host.guard("leaving Kineto to the script's own profiler"):
                    self._started(started)
            return result

        return closures.replace(original, enable)

    def prepare(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return the replacement of the function that prepares a profiler; in it, Kineto attaches to the device."""

        def prepare(*args: Any, **kwargs: Any) -> Any:
            try:
                self._leave()
                result = original(*args, **kwargs)
            except BaseException:
                with self._host.guard("resuming after the script's own profiler"):
                    self._resume()
                raise
            self._prepared = True
            return result

        return closures.replace(original, prepare)

    def stop(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return the replacement of a function that stops the profiler of the calling thread."""

        def disable(*args: Any, **kwargs: Any) -> Any:
            with self._host.guard("leaving Kineto to the script's own profiler"):
                self._end()  # if the script runs no profiler, `original` must raise its usual error, not stop ours
            stopped = False
            try:
                result = original(*args, **kwargs)
                stopped = True
            finally:
                with self._host.guard("resuming after the script's own profiler"):
                    self._stopped(stopped)
            return result

        return closures.replace(original, disable)

    def _leave(self) -> None:
        with self._host.guard("leaving Kineto to the script's own profiler"):
            self._host.sources.rest.stop()  # from now on, regions must be known
            self._end()
            self._devices.release()

    def _started(self, started: bool) -> None:
        if not started:
            self._resume()
            return
        self._note_regions()
        kind = self._kind()
        self._prepared = self._prepared and kind not in self._by_kineto
        self._lent[get_ident()] = kind == self._none

    def _stopped(self, stopped: bool) -> None:
        thread = get_ident()
        if self._lent.pop(thread, None) is None and stopped:
            # the stopped profiler records all threads, and another thread had started it
            self._lent = {thread: everywhere for thread, everywhere in self._lent.items() if not everywhere}
        if self._is_inside():
            self._inside.add(thread)
        self._resume()

    def _resume(self) -> None:
        if not (self._lent or self._prepared):
            self._devices.resume()

    def region(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return the replacement of `record_function.__enter__`, where a region of the script begins."""

        def before(region: Any) -> Any:
            return region if self._lent or self.used else None

        def after(region: Any, result: Any, reason: BaseException | None) -> None:
            key, regions = id(region), self._regions
            regions[key] = weakref.ref(region, shield(lambda _: regions.pop(key, None), pass_on))

        return self._region_hook(original, "noting an open region", before, after)

    def region_end(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return the replacement of `record_function.__exit__`, where a region of the script ends."""

        def before(region: Any, *_: Any) -> Any:
            return self._regions.get(id(region))

        def after(held: Any, result: Any, reason: BaseException | None) -> None:
            self._regions.pop(id(held()), None)

        return self._region_hook(original, "noting the end of a region", before, after)

    def _region_hook(self, original: Callable[..., Any], what: str, *notes: Callable[..., Any]) -> Callable[..., Any]:
        replacement = base.around(self._host, what, *notes, idle=True, rests=True)(original)
        self._region_hooks.append(replacement)
        return replacement

    def targets(self) -> list[Target]:
        """Return the functions to wrap: they prepare, start and stop a profiler, or begin and end a region."""
        return [
            Target(CORE, "_prepare_profiler", closure=self.prepare, copies=True),
            *(Target(CORE, name, closure=self.start, copies=True) for name in STARTS),
            *(Target(CORE, name, closure=self.stop, copies=True) for name in STOPS),
            Target(PROFILER, "record_function.__enter__", closure=self.region),
            Target(PROFILER, "record_function.__exit__", closure=self.region_end),
        ]
