"""PyTorch's operators, which PyTorch's C++ hook reports on every thread to the collector in our extension.

The hook is that of `torch.autograd.profiler.emit_itt`, or of `emit_nvtx` where there is no ITT (see `nvtx`): a callback
of each thread, which the threads of a backward pass and a fork child inherit. Only the thread itself can switch its
callback on (40 to 240 us the first time, 2 us later) and off. While it is on, an operator takes 0.2 us more, and
recording it takes 0.1 us. New threads begin with the callback. Older threads switch it on or off where their next
region begins; PyTorch marks each step of an optimizer and each batch as a region. ITT reports names only, but no shapes
(see `shapes`) and no numbers that tie an operator to its gradient. The end of an operator does not name the operator. A
region compiled by TorchScript begins inside a call of `__enter__` and ends after it. So the two ends are exchanged: the
region ends when the call does, and the call when the region does.
"""

import os
import sys
import threading
from _thread import get_ident
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ms_profiler.job.frameworks import base, trees
from ms_profiler.job.frameworks.base import Target
from ms_profiler.job.frameworks.torch import closures, itt, nvtx, windows
from ms_profiler.job.frameworks.torch.operands import OPTION
from ms_profiler.job.frameworks.torch.profiler_slot import CORE, ProfilerSlot
from ms_profiler.job.frameworks.torch.ranks import DISTRIBUTED
from ms_profiler.job.frameworks.torch.shapes import Shapes
from ms_profiler.job.sources import NEVER

if TYPE_CHECKING:
    from ms_profiler.job.host import Host

#: Steps between two checks whether operators are still recorded.
LOOK = 16
PROFILER = "torch.autograd.profiler"
#: The environment variable that lets Kineto begin to record for all threads at any moment, unknown to PyTorch.
DAEMON = "KINETO_USE_DAEMON"

#: source of operators in this process: "ITT", "NVTX", "Kineto", or "" for none
source = ""


class Switch:
    """Switch the hook of the calling thread on and off, as PyTorch lets Python do it.

    Args:
        slot: the slot that knows the running profilers of the script.
    """

    def __init__(self, slot: ProfilerSlot) -> None:
        self._slot = slot
        core, profiler = sys.modules[CORE], sys.modules["torch._C._profiler"]
        self._enable, self._disable = core._enable_profiler, core._disable_profiler
        self._enabled = core._profiler_enabled
        flags = (False, False, False, False, False)  # shapes and other arguments, which the ITT hook does not report
        self.config = profiler.ProfilerConfig(profiler.ProfilerState.ITT, *flags, profiler._ExperimentalConfig())
        self.kind = profiler.ActiveProfilerType.ITT
        #: function called before the hook is switched off, because PyTorch would stop our profiler for all threads
        #: instead
        self.before_off: Callable[[], None] = lambda: None

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

        While a profiler for all threads runs, PyTorch would stop that profiler instead. If the thread ends meanwhile,
        PyTorch warns of a hook that is still on.
        """
        if self._slot.everywhere:
            return False
        self.before_off()
        self._disable()
        return True


class Hook:
    """The hook of one thread, switched off when the thread ends: PyTorch warns of a hook that is still on.

    Args:
        switch: the switch of the hook.
    """

    __slots__ = ("_switch", "_thread", "on")

    def __init__(self, switch: Switch) -> None:
        self._switch = switch
        self._thread = get_ident()
        self.on = False

    def turn(self, on: bool) -> None:
        """Switch the hook on or off, if that is possible now."""
        if on:
            self.on = self._switch.on()
        else:
            self.on = not self._switch.off()

    def __del__(self, get_ident: Callable[[], int] = get_ident) -> None:
        """Switch the hook off on the thread that ends.

        Python also drops thread-local objects of running threads, in a fork child and at exit: then another thread
        calls this.
        """
        if self.on and self._thread == get_ident():
            self._switch.off()


class OpStream:
    """Record operators while the session records.

    Args:
        host: the session.
        instead: why NVTX reports operators in place of ITT; empty where ITT does.
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
        self._left_out = False  # operators are not recorded, but only because this step is not sampled
        self._flagged = False  # the script's profilers raise PyTorch's flag
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
        """Switch the calling thread's hook on or off as needed now; never raise."""
        hook = self.hook
        if hook.on is not self.wanted and not self.slot.lent:
            with self.host.guard("following operators"):
                hook.turn(self.wanted)
                if self.wanted and not hook.on:
                    self.host.not_collected(
                        "operators of a thread",
                        "another profiler ran there, and PyTorch allows one on a thread",
                    )

    def release(self) -> None:
        """See `Collector`. Kineto ends first: PyTorch's stop function would stop a profiler for all threads instead."""
        self.shapes.end()
        hook = self.hook
        if hook.on:
            hook.turn(False)

    def release_kineto(self) -> None:
        """See `Collector`."""
        self.shapes.end()

    def resume(self) -> None:
        """See `Collector`."""
        self.follow()

    def is_ours(self, kind: Any) -> bool:
        """See `Collector`."""
        return self.hook.on and bool(kind == self._switch.kind)

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
        """Record in a fork child whose parent left out a step: the steps of the parent are not the child's."""
        if self._left_out:
            self._want(True)

    def stepped(self, count: int) -> tuple[int, bool]:
        """Follow the schedule, the steps that are sampled, and the disk, between two steps."""
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
        """Return the replacement of the function that sets PyTorch's flag for compiled code to report its parts."""

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

        PyTorch marks steps and resets of optimizers, and batches. Threads older than the session switch their hook
        there.
        """
        annotate = self.host.recorder.annotate

        def before(region: Any) -> Any:
            self.follow()
            return region if self.wanted else None

        def after(region: Any, result: Any, reason: BaseException | None) -> None:
            name = trees.attributes(region).get("name")
            if reason is None and type(name) is str:
                annotate(name)

        return base.around(self.host, "marking a region", before, after)(original)

    def pushed(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return the replacement of `torch.profiler.itt.range_push`, which marks a region of the user, too."""
        annotate = self.host.recorder.annotate

        def range_push(msg: str) -> Any:
            result = original(msg)
            if stream.wanted:
                annotate(msg)
            return result

        stream = self
        return closures.replace(original, range_push)


def targets(host: "Host") -> list[Target]:
    """Start the stream, and declare the regions and profilers that it follows."""
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
        os.register_at_fork(before=host.guard("a fork").around(stream.shapes.end))
    host.at_end(stream.stop)
    os.register_at_fork(after_in_child=host.guard("a fork").around(stream.forked))
    return [
        Target("threading", "Thread._bootstrap_inner", closure=stream.thread),
        Target(PROFILER, "record_function.__enter__", closure=stream.region),
        Target("torch.profiler.itt", "range_push", closure=stream.pushed),
        Target(PROFILER, "_set_is_profiler_enabled", closure=stream.flag),
        *stream.slot.targets(),
    ]
