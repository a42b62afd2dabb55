"""PyTorch's operators where its ITT hook cannot report them: Kineto records a few steps.

Kineto holds its records in memory until it is stopped, and adds 0.7 us and more to an operator. So it runs for `STEPS`
steps, after `FIRST` steps in which caches and compilers warm up, from one step boundary to another. It runs for all
threads, because any thread can stop such a profiler: before the script starts its own, and before a fork, because the
child would continue recording into its memory. The operators of the stepping thread are stored, with the numbers by
which autograd ties an operator to its gradient and, with `record_shapes`, the shapes of their inputs.
"""

import os
import threading
import time
from typing import TYPE_CHECKING, Any

from ms_profiler.job.frameworks.base import Target
from ms_profiler.job.frameworks.torch.kineto import Kineto
from ms_profiler.job.frameworks.torch.operands import OPTION, Operands, category
from ms_profiler.job.frameworks.torch.profiler_slot import ProfilerSlot
from ms_profiler.job.sources import NEVER
from ms_profiler.store.format import Category, Kind

if TYPE_CHECKING:
    from ms_profiler.job.host import Host

#: Steps before the first recorded one, and number of recorded steps.
FIRST = 2
STEPS = 3


class Windows:
    """Record a few steps with Kineto.

    Args:
        host: the session, whose steps count.
        why: the reason why the ITT hook cannot report operators.
    """

    def __init__(self, host: "Host", why: str) -> None:
        self.host = host
        self.slot = ProfilerSlot(host, self)
        self._why = why
        self._thread = 0  # number of the stepping thread
        self._began = -1  # number of steps before the window; -1 while no window is open
        self._done = False
        self._kineto = Kineto()
        self._shapes = False  # whether the window has shapes

    def start(self) -> None:
        """Note in the run's record which steps are recorded, and why not all steps are."""
        self._done = False
        if self.host.wants("CPU"):
            self.host.not_collected(
                f"operators, except in the {STEPS} steps from step {FIRST} on, or from the first recorded one after it",
                f"{self._why}; Kineto, which recorded them, holds them in memory and costs more for each",
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
        if count < FIRST or not host.steps.recording or self.slot.lent:
            return count + 1, False
        self._shapes = host.asks(OPTION)
        self._kineto.prepare(self._shapes)
        self._kineto.enable(self._shapes)
        self._thread, self._began = threading.get_native_id(), count
        return count + 1, True

    def stop(self) -> None:
        """End the window, if one is open, and store its operators."""
        if self._began < 0:
            return
        self._began, self._done = -1, True
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

    def release_kineto(self) -> None:
        """See `Collector`: the window ends here, or its records would be lost."""
        self.stop()

    def release(self) -> None:
        """See `Collector`."""
        self.stop()

    def resume(self) -> None:
        """See `Collector`: there is only one window, which is over."""

    def is_ours(self, kind: Any) -> bool:
        """See `Collector`: our profiler for all threads is not reported on the stepping thread."""
        return False


def targets(host: "Host", why: str) -> list[Target]:
    """Begin to wait for the first window, and declare the script's profilers that end it.

    Args:
        host: the session, whose steps count.
        why: the reason why there is no better source.
    """
    try:
        windows = Windows(host, why)
    except TypeError:
        host.not_collected(
            "operators", f"{why}, and the Kineto of this PyTorch, which records one thread, stops on that thread alone"
        )
        return []
    host.at_step(windows.stepped)
    host.at_start(windows.start)
    host.at_end(windows.stop)
    os.register_at_fork(before=host.guard("a fork").around(windows.stop))
    return windows.slot.targets()
