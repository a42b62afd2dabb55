"""Record PyTorch's operators, which a C++ hook of PyTorch reports on every thread to the collector in our extension.

The hook is that of `torch.autograd.profiler.emit_itt`, or of `emit_nvtx` if PyTorch has no ITT, see `nvtx`. The hook is
a callback of each thread; the threads of a backward pass and a fork child inherit it. Only the thread itself can switch
its callback on and off. Switching takes 40 to 240 us the first time and 2 us later. While the callback is on, an
operator takes 0.2 us more, and recording the operator takes 0.1 us. New threads begin with the callback on. Older
threads switch it on or off at the begin of their next region; PyTorch marks each step of an optimizer and each batch as
a region.

ITT reports names, but neither shapes (see `shapes`) nor numbers that tie an operator to its gradient. The end of an
operator does not name the operator. A region compiled by TorchScript begins inside a call of `__enter__` and ends after
this call. In the records, the two ends are exchanged: the region ends when the call ends, and the call when the region
ends.
"""

import os
import sys
import threading
import weakref
from _thread import get_ident
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ms_profiler.job.frameworks import base, trees
from ms_profiler.job.frameworks.base import Target
from ms_profiler.job.frameworks.torch import closures, gradients, itt, nvtx, windows
from ms_profiler.job.frameworks.torch.operands import OPTION
from ms_profiler.job.frameworks.torch.profiler_slot import CORE, ProfilerSlot
from ms_profiler.job.frameworks.torch.ranks import DISTRIBUTED
from ms_profiler.job.frameworks.torch.shapes import Shapes
from ms_profiler.job.guard import pass_on
from ms_profiler.job.recorder import shield
from ms_profiler.job.sources import NEVER

if TYPE_CHECKING:
    from ms_profiler.job.host import Host

#: Number of steps between two checks whether the disk space still allows operators.
LOOK = 16
PROFILER = "torch.autograd.profiler"
#: The environment variable that lets Kineto begin to record for all threads at any moment, without PyTorch's knowledge.
DAEMON = "KINETO_USE_DAEMON"

#: source of operators in this process: "ITT", "NVTX", "Kineto", or "" for none
source = ""


class Switch:
    """Switch the hook of the calling thread on and off, by PyTorch's functions for Python.

    Args:
        slot: PyTorch's profiler slot, with the running profilers of the script.
    """

    def __init__(self, slot: ProfilerSlot) -> None:
        self._slot = slot
        core, profiler = sys.modules[CORE], sys.modules["torch._C._profiler"]
        self._enable, self._disable = core._enable_profiler, core._disable_profiler
        self._enabled = core._profiler_enabled
        flags = (False, False, False, False, False)  # no shapes or other data, which the ITT hook does not report
        self.config = profiler.ProfilerConfig(profiler.ProfilerState.ITT, *flags, profiler._ExperimentalConfig())
        self.kind = profiler.ActiveProfilerType.ITT
        #: called before the hook is switched off, to stop Kineto if we use it: PyTorch would stop Kineto, not the hook
        self.before_off: Callable[[], None] = lambda: None

    @property
    def held(self) -> bool:
        """Return whether our hook occupies the profiler slot of the calling thread."""
        return self._slot.ours(self.kind)

    def on(self) -> bool:
        """Switch the hook on, unless the thread has another profiler that began earlier; return whether it is on."""
        if self._enabled():
            return False
        self._enable(self.config, set())
        return True

    def by_nvtx(self, shapes: bool) -> None:
        """Use the hook of NVTX instead of the one of ITT, from the next switch on.

        Args:
            shapes: whether the hook reports shapes.
        """
        self.config = nvtx.config(shapes)
        self.kind = sys.modules["torch._C._profiler"].ActiveProfilerType.NVTX

    def off(self) -> bool:
        """Switch the hook off; return whether it is off.

        The hook stays on while a profiler for all threads runs, because PyTorch would stop that profiler instead. If
        the thread ends during this time, PyTorch warns of a hook that is still on.
        """
        if self._slot.everywhere:
            return False
        self.before_off()
        self._disable()
        return True


class Hook:
    """The hook of one thread, which is switched off when the thread ends: PyTorch warns of a hook that is still on.

    Args:
        switch: switches the hook of the calling thread on and off.
    """

    __slots__ = ("_kept", "_switch", "_thread", "on")

    def __init__(self, switch: Switch) -> None:
        self._switch = switch
        self._thread = get_ident()
        self._kept = False  # whether PyTorch's callback stays for good, see `lend`
        self.on = False

    def turn(self, on: bool) -> None:
        """Switch the hook on or off, if that is possible now."""
        if on:
            self.on = self._kept or self._switch.held or self._switch.on()
        elif self._switch.held:
            self.on = not self._switch.off()
        else:
            self.on = False

    def lend(self, in_backward: bool) -> None:
        """Switch the hook off for a profiler of the script, also if PyTorch has switched it on again by itself.

        Args:
            in_backward: whether the thread executes a backward pass. Then PyTorch restores the hook after the current
                node, but the hook no longer knows its callback. So the callback cannot be removed, and stays until the
                thread ends.
        """
        if self._switch.held:
            self.turn(False)
            self._kept = self._kept or in_backward

    def __del__(self, get_ident: Callable[[], int] = get_ident) -> None:
        """Switch the hook off if its own thread calls this, because the thread ends.

        In a fork child and at exit, Python deletes the thread-local objects of all threads. Then another thread calls
        this function, and the hook stays as it is.
        """
        if self.on and not self._kept and self._thread == get_ident():
            self._switch.off()


class OpStream:
    """Record operators while the session records.

    Args:
        host: the session.
        instead: why NVTX reports operators in place of ITT; empty if ITT reports them.
    """

    def __init__(self, host: "Host", instead: str = "") -> None:
        self.host = host
        self._instead = instead
        self.slot = ProfilerSlot(host, self)
        self._switch = Switch(self.slot)
        self.shapes = Shapes(host, self)
        self._switch.before_off = self.shapes.end
        #: whether operators are to be recorded now
        self.wanted = False
        self._spent = False
        self._left_out = False  # whether operators are left out now only because this step is not sampled
        self._flagged = False  # whether the script's profilers have set PyTorch's flag, see `flag`
        self._set_flag = getattr(sys.modules[PROFILER], "_set_is_profiler_enabled", None)
        self._local = threading.local()

    @property
    def hook(self) -> Hook:
        """Return the calling thread's hook."""
        try:
            hook: Hook = self._local.hook
        except AttributeError:
            hook = self._local.hook = Hook(self._switch)
        return hook

    def follow(self) -> None:
        """Switch the calling thread's hook on or off, as `wanted` says; never raise."""
        hook = self.hook
        # at the end of a node of a backward pass, PyTorch takes the change back
        if hook.on is self.wanted or self.slot.lent or self.slot.in_backward or (self.wanted and self.slot.referred):
            return
        with self.host.guard("following operators"):
            hook.turn(self.wanted)
            if self.wanted and not hook.on:
                self.host.not_collected(
                    "operators of a thread",
                    "another profiler ran there, and PyTorch allows one on a thread",
                )

    def release(self) -> None:
        """See `Collector`. Kineto stops first, because PyTorch would stop Kineto instead of the hook."""
        self.shapes.end()
        self.hook.lend(self.slot.in_backward)

    def release_kineto(self) -> None:
        """See `Collector`."""
        self.shapes.end()

    def resume(self) -> None:
        """See `Collector`."""
        self.follow()

    def is_ours(self, kind: Any) -> bool:
        """See `Collector`."""
        return bool(kind == self._switch.kind) and self._switch.held

    def start(self) -> None:
        """Begin to record."""
        self._spent = False
        if self._instead:
            self._switch.by_nvtx(self.host.asks(OPTION))
        self._want(self.host.steps.recording and self.host.wants("CPU"))

    def stop(self) -> None:
        """Stop recording."""
        self._left_out = False
        self._want(False)

    def forked(self) -> None:
        """Record in a fork child even if its parent does not sample the current step: a child has no sampling plan."""
        if self._left_out:
            self._want(True)

    def stepped(self, count: int) -> tuple[int, bool]:
        """Start or stop recording between two steps, as the schedule, the sampling plan and `max_disk` require."""
        host = self.host
        if self.wanted and host.recorder.stats().dropped_limit:
            self._spent = True
            distributed = sys.modules.get(DISTRIBUTED)
            shared = distributed is not None and distributed.is_initialized()
            what = "operators, and exchanges with other ranks from C++," if shared else "operators"
            host.not_collected(f"{what} from step {count} on", "max_disk was reached")
        steps = host.steps
        wanted = steps.recording and not self._spent and host.wants("CPU")
        self._left_out = wanted and not steps.marks.sampled
        self._want(wanted and not self._left_out)
        if steps.schedule is not None:
            return count + 1, False
        return count + LOOK if self.wanted else NEVER, False

    def _want(self, wanted: bool) -> None:
        if wanted is not self.wanted:
            self.wanted = wanted
            if self._set_flag is not None:
                self._set_flag(wanted or self._flagged)
        self.follow()

    def flag(self, original: Callable[[bool], None]) -> Callable[[bool], None]:
        """Return the replacement of the function that sets PyTorch's flag: whether compiled code reports its parts."""

        def _set_is_profiler_enabled(enable: bool) -> None:
            stream._flagged = enable
            original(enable or stream.wanted)

        stream = self
        return closures.replace(original, _set_is_profiler_enabled)

    def thread(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return the replacement of the function that a new thread runs first."""
        name_thread = self.host.recorder.thread_name

        def before(thread: threading.Thread) -> None:
            if self.wanted:
                name_thread(
                    trees.attributes(thread).get("_name", "")
                )  # a class of the script's may have its own `name`
                self.follow()

        return base.around(self.host, "naming a thread", before)(original)

    def region(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return the replacement of `record_function.__enter__`, where a region of the user begins.

        PyTorch itself marks steps and resets of optimizers, and batches, as such regions. Threads that are older than
        the session switch their hook on or off here.
        """
        annotate = self.host.recorder.annotate

        def before(region: Any) -> Any:
            self.follow()
            return region if self.wanted or self.slot.lent else None

        def after(region: Any, result: Any, reason: BaseException | None) -> None:
            if self.slot.lent:
                _keep(region, self.slot.regions)
            if self.shapes.running:
                _keep(region, self.shapes.regions)
            name = trees.attributes(region).get("name")
            if reason is None and self.wanted and type(name) is str:
                annotate(name)

        return base.around(self.host, "marking a region", before, after)(original)

    def region_end(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return the replacement of `record_function.__exit__`, where a region of the user ends."""

        def before(region: Any, *_: Any) -> Any:
            return self.slot.regions.get(id(region)) or self.shapes.regions.get(id(region))

        def after(held: Any, result: Any, reason: BaseException | None) -> None:
            key = id(held())
            self.shapes.regions.pop(key, None)
            if self.slot.regions.pop(key, None) is not None:
                self.follow()

        return base.around(self.host, "ending a region", before, after)(original)

    def pushed(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return the replacement of `torch.profiler.itt.range_push`, which also begins a region of the user."""
        annotate = self.host.recorder.annotate

        def range_push(msg: str) -> Any:
            result = original(msg)
            if stream.wanted:
                annotate(msg)
            return result

        stream = self
        return closures.replace(original, range_push)


def _keep(region: Any, regions: dict[int, weakref.ref[Any]]) -> None:
    """Add an open region to a table, until the region is deleted."""
    key = id(region)
    regions[key] = weakref.ref(region, shield(lambda _: regions.pop(key, None), pass_on))


def targets(host: "Host") -> list[Target]:
    """Choose the source of operators, register its recording with the session, and declare the targets for it."""
    global source
    source = ""
    if os.environ.get(DAEMON):
        host.not_collected("operators", f"{DAEMON} is set: Kineto records them on demand")
        return []
    instead = itt.connect(host.recorder)
    why = nvtx.connect(host.recorder) if instead else ""
    if why:
        declared = windows.targets(host, f"{instead}; {why}")
        source = "Kineto" if declared else ""
        return declared
    source = "NVTX" if instead else "ITT"
    stream = OpStream(host, instead)
    host.at_step(stream.stepped)
    host.at_start(stream.start)
    if not instead:
        host.at_step(stream.shapes.stepped)
        host.at_start(stream.shapes.start)
        host.at_end(stream.shapes.stop)
        os.register_at_fork(before=shield(stream.shapes.end, host.guard("a fork")))
    host.at_end(stream.stop)
    gradients.listeners[:] = [stream.follow]  # hooks of a backward pass may end steps
    os.register_at_fork(after_in_child=shield(stream.forked, host.guard("a fork")))
    return [
        Target("threading", "Thread._bootstrap_inner", closure=stream.thread),
        Target(PROFILER, "record_function.__enter__", closure=stream.region),
        Target(PROFILER, "record_function.__exit__", closure=stream.region_end),
        Target("torch.profiler.itt", "range_push", closure=stream.pushed),
        Target(PROFILER, "_set_is_profiler_enabled", closure=stream.flag),
        *stream.slot.targets(),
    ]
