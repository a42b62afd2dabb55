"""Record PyTorch's operators of a few steps with Kineto, where the callbacks of `ops` cannot be used.

Kineto holds its records in memory until it is stopped, and adds 0.7 us and more to an operator. So it runs only for
`STEPS` steps, after `FIRST` steps in which caches and compilers warm up. It runs for all threads, because any thread
can stop such a profiler. Kineto has to stop before the script starts its own profiler. It also has to stop before a
fork, because the child would continue to record into its own memory.

Only the operators of the stepping thread are stored. The arguments of their spans have the number that autograd
gives both an operator and its gradient. If `record_shapes` is set, the arguments also have the shapes of inputs.
"""

import os
import threading
import time
from typing import TYPE_CHECKING

from ms_profiler.job.frameworks.base import Target
from ms_profiler.job.frameworks.torch.kineto import Kineto
from ms_profiler.job.frameworks.torch.operands import OPTION, Operands, category
from ms_profiler.job.frameworks.torch.profiler_slot import ProfilerSlot
from ms_profiler.job.recorder import shield
from ms_profiler.job.sources import NEVER
from ms_profiler.store.format import Category, Kind

if TYPE_CHECKING:
    from ms_profiler.job.host import Host

#: Number of steps before the first recorded step, and number of recorded steps.
FIRST = 2
STEPS = 3


class Windows:
    """Record the operators of a few steps with Kineto.

    Args:
        host: the session.
        why: the reason why the callbacks cannot be used.
    """

    def __init__(self, host: "Host", why: str) -> None:
        self.host = host
        self.slot = ProfilerSlot(host, self.stop)
        self._why = why
        self._thread = 0  # the system's id of the stepping thread
        self._began = -1  # number of steps before the window; -1 if no window is open
        self._done = False
        self._kineto = Kineto(host.recorder)
        self._shapes = False  # whether the window has shapes

    def start(self) -> None:
        """Note in the run's record which steps are recorded, and why not all steps are."""
        self._done = False
        if self.host.wants("CPU"):
            if self.slot.free:
                self._kineto.initialize()
            self.host.not_collected(
                f"operators, except in the first {STEPS} recorded steps from step {FIRST} on",
                f"{self._why}; Kineto, which recorded them, holds them in memory and costs more for each operator",
            )

    def stepped(self, count: int) -> tuple[int, bool]:
        """Begin or end the window between two steps."""
        host = self.host
        if self._done or not host.wants("CPU"):
            return NEVER, False
        if self._began >= 0:
            if count - self._began < STEPS and host.steps.recording:
                return count + 1, False
            self.stop()
            return NEVER, True
        if count < FIRST or not host.steps.recording or not self.slot.free:
            return count + 1, False
        self._shapes = host.asks(OPTION)
        self._kineto.prepare(self._shapes)
        self._kineto.enable(self._shapes)
        self.slot.used = True
        self._thread, self._began = threading.get_native_id(), count
        return count + 1, True

    def stop(self) -> None:
        """End the window, if one is open, and store its operators."""
        if self._began < 0:
            return
        self._began, self._done, self.slot.used = -1, True, False
        recorder = self.host.recorder
        begun = recorder.now()
        result = self._kineto.disable()
        if self.host.forked:
            return
        offset = recorder.now() - time.time_ns()  # Kineto uses the wall clock
        events, operands = 0, Operands(recorder, self._shapes)
        for event in result.events():
            kind = category(event)
            if kind is not None and event.device_resource_id() == self._thread:
                start = event.start_ns() + offset
                name = recorder.intern(event.name())
                arg = operands.argument(event) if kind == Category.OP else 0
                recorder.record(Kind.SPAN, kind, 0, name, start, start + event.duration_ns(), arg)
                events += 1
        name = recorder.intern("operator window")
        recorder.record(Kind.SPAN, Category.PROFILER, 0, name, begun, recorder.now(), events)

    def end(self) -> None:
        """End the open window, if there is one, and open no other window, although further steps may end."""
        self.stop()
        self._done = True


def targets(host: "Host", why: str) -> list[Target]:
    """Register the window with the session, and declare the script's profilers, which end it.

    Args:
        host: the session.
        why: the reason why the callbacks cannot be used.
    """
    try:
        windows = Windows(host, why)
    except TypeError:
        host.not_collected(
            "operators", f"{why}, and the Kineto of this PyTorch records one thread, and only that thread can stop it"
        )
        return []
    host.at_step(windows.stepped)
    host.at_start(windows.start)
    host.at_end(windows.end)
    os.register_at_fork(before=shield(windows.stop, host.guard("a fork")))
    return windows.slot.targets()
