"""Start and stop Kineto as a profiler of all threads, without its console output; any thread may stop it.

If Kineto starts or stops while another thread runs operators, PyTorch before 2.14 may crash or raise an exception. With
these versions, ms-profiler does not start Kineto while other threads run operators. But other threads may begin
operators while Kineto runs. So before each start and stop, this thread keeps the GIL and waits until the other threads
sleep. The wait has a limit, because a thread that runs operators from C++ code, for example a function of TorchScript,
does not need the GIL and may never sleep.

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
        self._call_at_rest = recorder.call_at_rest
        self._elsewhere = recorder.operators_elsewhere
        self._waits = observer.version() >= WAITS
        core, profiler = sys.modules[CORE], sys.modules["torch._C._profiler"]
        self._prepare, self._enable = core._prepare_profiler, core._enable_profiler
        self._disable, self._enabled = core._disable_profiler, core._profiler_enabled
        self._activities = {profiler.ProfilerActivity.CPU}
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
        silently(lambda: self._enable(self._own_thread, self._activities))
        silently(self._disable)

    def prepare(self, shapes: bool) -> None:
        """Prepare Kineto for a start; the preparation takes much longer than the start itself.

        Args:
            shapes: whether to record the shapes of operators' inputs.
        """
        silently(lambda: self._prepare(self._configs[shapes], self._activities))

    def enable(self, shapes: bool) -> None:
        """Start Kineto after `prepare`.

        Args:
            shapes: the value that `prepare` got: whether to record the shapes of operators' inputs.
        """
        enable = functools.partial(self._enable, self._configs[shapes], self._activities)
        silently(lambda: self._call_at_rest(enable, LONGEST))

    def disable(self) -> Any:
        """Stop Kineto, and return PyTorch's result object, whose method `events()` lists what Kineto recorded."""
        return silently(lambda: self._call_at_rest(self._disable, LONGEST))
