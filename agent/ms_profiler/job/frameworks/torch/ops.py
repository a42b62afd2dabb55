"""Record PyTorch's operators: on every thread, PyTorch's C++ core calls callbacks of the extension for each operator.

While the callbacks are registered, an operator takes 0.2 us more. Most of this is the time in which PyTorch calls the
callbacks. In a step that is not sampled, ms-profiler removes them. The callbacks get names, autograd's numbers and
threads, but no shapes. The module `shapes` records shapes in another way.

A `record_function` region may begin inside of an operator and end after the operator. This happens in two cases. In
code that TorchScript compiled, a region begins inside of a call of `__enter__`. While a `TorchDispatchMode` is on, it
begins inside of the operator `PythonDispatchMode`. But spans have to nest. So ms-profiler exchanges the two ends: it
ends the span of the region when the operator ends, and the span of the operator when the region ends.
"""

import os
import posix
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ms_profiler.job.frameworks import base, trees
from ms_profiler.job.frameworks.base import Target
from ms_profiler.job.frameworks.torch import closures, observer, windows
from ms_profiler.job.frameworks.torch.profiler_slot import CORE, PROFILER
from ms_profiler.job.frameworks.torch.ranks import DISTRIBUTED
from ms_profiler.job.frameworks.torch.shapes import Shapes
from ms_profiler.job.recorder import shield
from ms_profiler.job.sources import NEVER

if TYPE_CHECKING:
    from ms_profiler.job.host import Host

#: Number of steps between two checks whether the disk space that `max_disk` allows is used up.
LOOK = 16
#: Environment variable of Kineto. If it is set, Kineto may begin to record all threads at any moment, and PyTorch does
#: not know.
DAEMON = "KINETO_USE_DAEMON"

#: where the records of operators in this process come from: "RecordFunction" (callbacks), "Kineto", or "" for none
source = ""


class OpStream:
    """Record operators in the steps in which they are wanted, by registering and removing the callbacks.

    Args:
        host: the session, which knows what to record.
    """

    def __init__(self, host: "Host") -> None:
        self.host = host
        #: whether operators are recorded now
        self.wanted = False
        self._spent = False
        self._left_out = False  # whether operators are not recorded only because this step is not sampled
        self._flagged = False  # whether a profiler of the script has set the flag that `flag` describes
        self._set_flag = getattr(sys.modules[PROFILER], "_set_is_profiler_enabled", None)

    def start(self) -> None:
        """Begin to record operators, at the begin of a recording."""
        self._spent = False
        self._want(self.host.steps.recording and self.host.wants("CPU"))

    def stop(self) -> None:
        """Stop recording operators, at the end of a recording."""
        self._left_out = False
        self._want(False)

    def forked(self) -> None:
        """Record operators in a fork child. It has no plan of sampled steps, so the step need not be a sampled one."""
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
            host.not_collected(f"{what} from step {count} on", f"{host.limited_by} was reached")
        steps = host.steps
        wanted = steps.recording and not self._spent and host.wants("CPU")
        self._left_out = wanted and not steps.marks.sampled
        self._want(wanted and not self._left_out)
        if steps.schedule is not None:
            return count + 1, False
        return count + LOOK if self.wanted else NEVER, False

    def _want(self, wanted: bool) -> None:
        if wanted is not self.wanted:
            self.host.recorder.take_operators(wanted)
            if self._set_flag is not None:
                self._set_flag(wanted or self._flagged)
            self.wanted = wanted  # last, so that the next call repeats a call that an exception of the job has ended

    def flag(self, original: Callable[[bool], None]) -> Callable[[bool], None]:
        """Return the replacement of the function that sets a flag of PyTorch: whether compiled code reports its parts.

        The flag is on while a profiler of the script requests it or ms-profiler records operators.
        """

        def _set_is_profiler_enabled(enable: bool) -> None:
            stream._flagged = enable
            original(enable or stream.wanted)

        stream = self
        return closures.replace(original, _set_is_profiler_enabled)

    def clear(self, original: Callable[[], None]) -> Callable[[], None]:
        """Return the replacement of PyTorch's function that removes all callbacks for operators.

        The replacement registers our callbacks again.
        """

        def _clear_callbacks() -> None:
            take = stream.host.recorder.take_operators
            take(False)
            try:
                original()
            finally:
                take(stream.wanted)

        stream = self
        return closures.replace(original, _clear_callbacks)

    def hand_over(self, original: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        """Return the replacement of the method that lets a `record_function` region end when a future is done.

        The future may be done on any thread. ms-profiler ends the span of the region when the script calls the method,
        because later operators do not belong to the region.
        """
        region_over = self.host.recorder.hand_over_region

        def before(region: Any, future: Any) -> None:
            if self.wanted and trees.attributes(region).get("run_callbacks_on_exit"):
                region_over(trees.attributes(region)["name"])

        return base.around(self.host, "a region that ends with a future", before)(original)

    def thread(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return the replacement of the function that a new Python thread runs first, to store the thread's name."""
        name_thread = self.host.recorder.thread_name

        def before(thread: threading.Thread) -> None:
            if self.wanted:
                name_thread(
                    trees.attributes(thread).get("_name", "")
                )  # not `name`, which a class of the script may override

        return base.around(self.host, "naming a thread", before)(original)


def targets(host: "Host") -> list[Target]:
    """Choose between callbacks and Kineto for operators, register this source, and return the functions to wrap."""
    global source
    source = ""
    on_demand = f"{DAEMON} is set: Kineto records on demand" if os.environ.get(DAEMON) else ""
    why = observer.connect(host.recorder)
    if why and on_demand:
        host.not_collected("operators", f"{why}; {on_demand}")
        return []
    if why:
        declared = windows.targets(host, why)
        source = "Kineto" if declared else ""
        return declared
    source = "RecordFunction"
    stream = OpStream(host)
    shapes = Shapes(host, stream, on_demand)
    host.at_step(stream.stepped)
    host.at_start(stream.start)
    host.at_step(shapes.stepped)
    host.at_start(shapes.start)
    host.at_end(shapes.stop)
    host.at_end(stream.stop)
    posix.register_at_fork(
        before=shield(shapes.end, host.guard("a fork")), after_in_child=shield(stream.forked, host.guard("a fork"))
    )
    return [
        Target("threading", "Thread._bootstrap_inner", closure=stream.thread),
        Target(PROFILER, "_set_is_profiler_enabled", closure=stream.flag),
        Target(CORE, "_clear_callbacks", closure=stream.clear),
        Target(PROFILER, "record_function._call_end_callbacks_on_future", closure=stream.hand_over),
        Target("torch._C._profiler", "_RecordFunctionFast", closure=host.recorder.fast_region),
        *shapes.slot.targets(),
    ]
