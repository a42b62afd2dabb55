"""Start and stop Kineto as a profiler of all threads, without its console output; any thread may stop it."""

import sys
from typing import Any

from ms_profiler.job.frameworks.torch.profiler_slot import CORE
from ms_profiler.job.frameworks.torch.silence import silently


class Kineto:
    """Start and stop Kineto.

    Raises:
        TypeError: the Kineto of this PyTorch records one thread only.
    """

    def __init__(self) -> None:
        core, profiler = sys.modules[CORE], sys.modules["torch._C._profiler"]
        self._prepare, self._enable = core._prepare_profiler, core._enable_profiler
        self._disable, self._enabled = core._disable_profiler, core._profiler_enabled
        self._activities = {profiler.ProfilerActivity.CPU}
        everywhere = profiler._ExperimentalConfig(profile_all_threads=True)
        flags = (False, False, False, False)  # record no memory, stacks, flops or modules
        self._configs = {
            shapes: profiler.ProfilerConfig(profiler.ProfilerState.KINETO, shapes, *flags, everywhere)
            for shapes in (False, True)
        }

    @property
    def enabled(self) -> bool:
        """Return whether any profiler runs on this thread."""
        return bool(self._enabled())

    def prepare(self, shapes: bool) -> None:
        """Prepare Kineto; this takes much longer than the start itself.

        Args:
            shapes: whether to record the shapes of operators' inputs.
        """
        silently(lambda: self._prepare(self._configs[shapes], self._activities))

    def enable(self, shapes: bool) -> None:
        """Start Kineto, which has been prepared.

        Args:
            shapes: the same value as for `prepare`.
        """
        silently(lambda: self._enable(self._configs[shapes], self._activities))

    def disable(self) -> Any:
        """Stop Kineto, and return PyTorch's result, which has `events()`."""
        return silently(self._disable)
