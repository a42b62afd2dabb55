"""Start and stop Kineto as a profiler of all threads, without its console output; any thread may stop it.

If Kineto starts or stops while another thread runs operators, PyTorch before 2.14 may crash or raise an exception. With
these versions, ms-profiler does not start Kineto while other threads run operators. But other threads may begin
operators while Kineto runs. So before each start and stop, this thread keeps the GIL and waits until the other threads
sleep. The wait has a limit, because a thread that runs operators from C++ code, for example a function of TorchScript,
does not need the GIL and may never sleep.

A signal handler of the job may raise an exception between any two lines of Python code. If this happened after a start
and before ms-profiler noted it, ms-profiler would start Kineto again, and PyTorch would crash at the end of the
process. So C functions (`map`, `list.extend`) make the start and the note. Python calls no signal handler between them.

At its first use, Kineto initializes itself. If this happens on another thread than the one that imported PyTorch,
Kineto prints a line, and Kineto's log level cannot suppress this line.
"""

import functools
import sys
from typing import TYPE_CHECKING, Any

from ms_profiler.job.frameworks.torch import observer
from ms_profiler.job.frameworks.torch.profiler_slot import CORE
from ms_profiler.job.frameworks.torch.silence import silently

if TYPE_CHECKING:
    from ms_profiler.job.recorder import Recorder

#: The first version of PyTorch in which the stop of Kineto waits for Kineto's callbacks on other threads.
WAITS = (2, 14)
#: Attributes of `torch.version`. Each has the version of the library with which Kineto records one kind of device.
DEVICES = ("cuda", "hip", "xpu")
#: Longest time to wait until the other threads sleep, ns.
LONGEST = 1_000_000_000


class Kineto:
    """Start and stop Kineto, PyTorch's own recorder.

    Args:
        recorder: our recorder, which knows whether other threads run operators.

    Raises:
        TypeError: the Kineto of this PyTorch records one thread only.
    """

    def __init__(self, recorder: "Recorder") -> None:
        self._at_once = functools.partial(recorder.call_at_rest, 0)
        self._at_rest = functools.partial(recorder.call_at_rest, LONGEST)
        self._elsewhere = recorder.operators_elsewhere
        self._waits = observer.version() >= WAITS
        core, profiler = sys.modules[CORE], sys.modules["torch._C._profiler"]
        self._prepare, self._enable = core._prepare_profiler, core._enable_profiler
        self._disable, self._enabled = core._disable_profiler, core._profiler_enabled
        self._activities = {profiler.ProfilerActivity.CPU}
        self._prepared: list[Any] = []  # a result for each time that Kineto was prepared, started, stopped
        self._started: list[Any] = []
        self._stopped: list[Any] = []
        everywhere = profiler._ExperimentalConfig(profile_all_threads=True)
        flags = (False, False, False, False)  # record no memory, stacks, flops or modules
        self._own_thread = profiler.ProfilerConfig(
            profiler.ProfilerState.KINETO, False, *flags, profiler._ExperimentalConfig()
        )
        self._configs = {
            shapes: profiler.ProfilerConfig(profiler.ProfilerState.KINETO, shapes, *flags, everywhere)
            for shapes in (False, True)
        }

    @property
    def enabled(self) -> bool:
        """Return whether any profiler runs on this thread."""
        return bool(self._enabled())

    def may_run(self) -> bool:
        """Return whether Kineto may start or go on; must be called after each step, on the thread that runs the steps.

        With PyTorch before 2.14, Kineto may not run if other threads have begun operators since the last call.
        """
        return not self._elsewhere() or self._waits

    def initialize(self) -> None:
        """Let Kineto initialize itself on this thread, which takes 1 ms.

        Do nothing if PyTorch was built for an accelerator, because Kineto would attach to the device. In such a build,
        Kineto initializes itself at its first use.
        """
        built = sys.modules["torch"].version
        if self.enabled or any(getattr(built, device, None) for device in DEVICES):
            return
        # The first call of `_prepare` sets Kineto's log level. So the lines are suppressed for each call separately.
        silently(lambda: self._prepare(self._own_thread, self._activities))
        enable = functools.partial(self._enable, self._own_thread, self._activities)
        silently(lambda: [].extend(map(self._at_rest, (enable, self._disable))))

    @property
    def running(self) -> bool:
        """Return whether Kineto runs since a call of `start`, also if an exception has ended this call."""
        return len(self._started) > len(self._stopped)

    def start(self, shapes: bool) -> None:
        """Prepare Kineto, which takes much longer than the start itself, and start it.

        Args:
            shapes: whether to record the shapes of operators' inputs.
        """
        config = self._configs[shapes], self._activities
        if len(self._prepared) == len(self._started):  # else an exception has ended an earlier call in between
            prepare = functools.partial(self._prepare, *config)
            silently(lambda: self._prepared.extend(map(self._at_once, (prepare,))))
        enable = functools.partial(self._enable, *config)
        silently(lambda: self._started.extend(map(self._at_rest, (enable,))))

    def stop(self) -> Any:
        """Stop Kineto, and return PyTorch's result object, whose method `events()` lists what Kineto recorded.

        Returns:
            None if Kineto does not run.
        """
        if not self.running:
            return None
        silently(lambda: self._stopped.extend(map(self._at_rest, (self._disable,))))
        result, self._stopped[-1] = self._stopped[-1], None
        return result
