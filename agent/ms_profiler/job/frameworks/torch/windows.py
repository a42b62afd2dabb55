"""Record PyTorch's operators of a few steps with Kineto; used if callbacks for operators are not possible.

Kineto holds its records in memory until it is stopped, and adds 0.7 us and more to an operator. So ms-profiler runs
Kineto only for `STEPS` steps, after `FIRST` steps in which caches and compilers warm up. Kineto runs for all threads,
because any thread can stop such a profiler. It has to stop before the script starts its own profiler. It also has to
stop before a fork, because the child would continue to record into its own memory.

ms-profiler stores only the operators of the thread that runs the steps. The argument of each span contains the number
that autograd gives both an operator and its gradient. If `record_shapes` is set, it also contains the shapes of inputs.
"""

import posix
from threading import get_native_id
from typing import TYPE_CHECKING

from ms_profiler import clock
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
        host: the session, which receives the records.
        why: why callbacks for operators are not possible.
    """

    def __init__(self, host: "Host", why: str) -> None:
        self.host = host
        self.slot = ProfilerSlot(host, self.stop)
        self._why = why
        self._thread = 0  # the system's id of the thread that runs the steps
        self._began = -1  # number of steps before Kineto started; -1 while Kineto does not run
        self._done = False
        self._kineto = Kineto(host.recorder)
        self._shapes = False  # whether Kineto records shapes

    def start(self) -> None:
        """Note in `run_info.json` which steps have operators, and why not all steps have them."""
        self._done = False
        if self.host.wants("CPU"):
            if self.slot.free:
                self._kineto.initialize()
            self.host.not_collected(
                f"operators, except in the first {STEPS} recorded steps from step {FIRST} on",
                f"{self._why}; Kineto, which recorded them, holds them in memory and costs more for each operator",
            )

    def stepped(self, count: int) -> tuple[int, bool]:
        """Start or stop Kineto between two steps."""
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
        # An exception of the job's signal handlers may end this method at any line. From here on, `stop` stops Kineto.
        self._thread, self._began, self.slot.used = get_native_id(), count, True
        self._kineto.start(self._shapes)
        return count + 1, True

    def stop(self) -> None:
        """Stop Kineto if it runs, and store the operators that it recorded."""
        if self._began < 0:
            return
        recorder = self.host.recorder
        begun = recorder.now()
        result = self._kineto.stop()
        self._began, self._done, self.slot.used = -1, True, False
        if result is None or self.host.forked:
            return
        offset = recorder.now() - clock.wall_ns()  # converts Kineto's times, which are those of the wall clock
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
        """Stop Kineto if it runs, and do not start it again in later steps."""
        self.stop()
        self._done = True


def targets(host: "Host", why: str) -> list[Target]:
    """Register the recording with Kineto; return the functions to wrap, which start and stop the script's profilers.

    Args:
        host: the session, which receives the records.
        why: why callbacks for operators are not possible.
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
    posix.register_at_fork(before=shield(windows.stop, host.guard("a fork")))
    return windows.slot.targets()
