"""The class `DynamicProfilerMonitor`, as in MindSpore's public profiler documents."""

import atexit
import os
import sys
from typing import Any

from ms_profiler import log
from ms_profiler.api.forgiving import warn
from ms_profiler.errors import UsageError
from ms_profiler.job import collection
from ms_profiler.job.control.dynamic import Dynamic
from ms_profiler.job.control.dynamic_file import NAME, DynamicFile
from ms_profiler.option_types import shown
from ms_profiler.store.format import StepSource

#: class of a monitor -> a subclass of it that also inherits from MindSpore's `Callback`
_callbacks: dict[type, type] = {}


class DynamicProfilerMonitor:
    """Record steps of a running job: the steps that a user writes into `<cfg_path>/profiler_config.json`.

    The monitor is a callback for MindSpore's `Model`. A script with its own loop calls `step` at the end of each step.
    The monitor checks the file between steps, and needs no process of its own. Steps are counted from 1, in the file
    and in the result.

    Args:
        cfg_path: the directory of the file. If the file is missing, rank 0 writes it with default values.
        output_path: directory for the results: each recording makes a directory
            `rank{rank}_start{start_step}_stop{stop_step}` in it. If the file has a `prof_path`, this one counts.
        poll_interval: time between two checks of the file, s.
        kwargs: accepted for compatibility, without effect.

    Raises:
        UsageError: the argument `cfg_path` is missing, or is no path.
    """

    _forgives = False

    def __new__(
        cls,
        cfg_path: str | None = None,
        output_path: str = "./dyn_profile_data",
        poll_interval: int = 2,
        **kwargs: Any,
    ) -> "DynamicProfilerMonitor":
        """Return an instance; if MindSpore is imported, it is also an instance of MindSpore's `Callback`."""
        train = sys.modules.get("mindspore.train")
        base = getattr(train, "Callback", None)
        if base is None or issubclass(cls, base):
            return object.__new__(cls)
        if cls not in _callbacks:
            _callbacks[cls] = type(cls.__name__, (cls, base), {"__module__": cls.__module__, "__doc__": cls.__doc__})
        return object.__new__(_callbacks[cls])

    def __init__(
        self,
        cfg_path: str | None = None,
        output_path: str = "./dyn_profile_data",
        poll_interval: int = 2,
        **kwargs: Any,
    ) -> None:
        if not isinstance(cfg_path, (str, os.PathLike)):
            raise UsageError(f"cfg_path is {cfg_path!r}.", f"Pass the directory that holds {NAME}, or is to hold it.")
        if isinstance(poll_interval, bool) or not isinstance(poll_interval, int) or poll_interval < 1:
            warn(f"poll_interval is {shown(poll_interval)}, but must be 1 or more; using 2", self._forgives)
            poll_interval = 2
        if not isinstance(output_path, (str, os.PathLike, type(None))):
            warn(f"output_path is {shown(output_path)}, but must be a path; using the default", self._forgives)
            output_path = ""
        self._session = collection.for_script()
        file = DynamicFile(os.path.abspath(os.path.join(cfg_path, NAME)), {}, poll_interval)
        if self._session.identity.rank == 0:
            try:
                file.create()
            except OSError as reason:
                log.line(f"cannot write {file.path}: {reason.strerror}; nothing is recorded until the file exists")
        self._dynamic = Dynamic(self._session, file, os.path.abspath(output_path or "./dyn_profile_data"), os.getcwd())
        self._steps = 0  # number of calls of `step` so far
        self._decides = False  # whether calls of `step` decide where steps end
        atexit.register(self._dynamic.close)
        self._dynamic.begins(1)

    def step_begin(self, run_context: Any) -> None:
        """Note that MindSpore's `Model` begins a step; start a recording if the file names this step as its first one.

        Args:
            run_context: the context that `Model` passes.
        """
        self._dynamic.begins(_number(run_context))

    def step_end(self, run_context: Any) -> None:
        """Note that MindSpore's `Model` ended a step; stop the recording if the file names this step as the last.

        Args:
            run_context: the context that `Model` passes.
        """
        self._dynamic.ended(_number(run_context))

    def step(self) -> None:
        """Note that a step of the script's own loop has ended and the next one begins."""
        session = self._session
        steps, now = session.steps, session.recorder.now
        self._steps += 1
        if self._dynamic.recording:
            steps.script_began(now(), decides=not self._decides)
            self._decides = True
            steps.ended(StepSource.SCRIPT, now())
        if self._dynamic.ended(self._steps):
            self._decides = False
            steps.script_ended()
        if self._dynamic.begins(self._steps + 1):
            self._decides = True
            steps.script_began(now(), decides=True, again=True)

    def on_train_end(self, run_context: Any) -> None:
        """Stop a recording that still runs when the training by MindSpore's `Model` has ended.

        Args:
            run_context: the context that `Model` passes.
        """
        self._dynamic.close()

    @property
    def results(self) -> list[str]:
        """Return the result directories made so far, one for each request in the file."""
        return list(self._dynamic.results)


def _number(run_context: Any) -> int:
    return int(run_context.original_args().cur_step_num)
