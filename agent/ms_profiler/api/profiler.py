"""The classes `Profiler` and `ProfileOption`: the older interface of MindSpore's public profiler documents."""

import csv
import json
import os
from collections.abc import Sequence
from enum import Enum
from typing import Any

from ms_profiler.api.analyse import analyse as analyse_directory
from ms_profiler.api.arguments import function
from ms_profiler.api.capture import Capture
from ms_profiler.api.forgiving import warn
from ms_profiler.api.profiling import Profiling
from ms_profiler.errors import StateError
from ms_profiler.option_types import shown
from ms_profiler.store import layout

#: Parameters of MindSpore's first interface that have no effect.
DEPRECATED = ("optypes_not_deal", "ascend_job_id")


class ProfileOption(Enum):
    """Values of `Profiler.profile`, for scripts of MindSpore's first interface."""

    trainable_parameters = 0


class Profiler(Profiling):
    """Profile the code between `start` and `stop` or `analyse`, on any platform.

    Args:
        kwargs: `output_path`, `start_profile`, `schedule`, `on_trace_ready`, and every option in docs/options.md under
            its name, old names included. `optypes_not_deal` and `ascend_job_id` are deprecated and do nothing.
    """

    _forgives = False

    def __init__(self, **kwargs: Any) -> None:
        for name in DEPRECATED:
            if kwargs.pop(name, None) is not None:
                warn(f"Profiler: {name} is deprecated and does nothing", self._forgives, DeprecationWarning)
        schedule = function("schedule", kwargs.pop("schedule", None), self._forgives)
        on_trace_ready = function("on_trace_ready", kwargs.pop("on_trace_ready", None), self._forgives)
        self._has_schedule = schedule is not None
        # if the script gave no callback, do nothing after a recording, because the script itself calls `analyse`
        self._capture = Capture(kwargs, schedule, on_trace_ready or _do_nothing, self, self._forgives)
        if self._capture.starts:
            self._begin()

    def start(self) -> None:
        """Start recording.

        Raises:
            RuntimeError: the profiler has started already, or starts by itself (`start_profile`), or the data pipeline
                was measured before. If the script uses this class under the name of MindSpore's class, which it
                replaces, there is a warning instead.
        """
        if self._capture.starts:
            self._capture.refuse(
                "start() was called, but start_profile is True.", "Pass start_profile=False to start it later."
            )
            if self._capture.started:
                return
        self._capture.start()

    def stop(self) -> None:
        """Stop recording; the script may then call `analyse`.

        Raises:
            RuntimeError: the profiler is not running. If the script uses this class under the name of MindSpore's
                class, there is a warning instead.
        """
        self._capture.stop()

    def step(self) -> None:
        """Note that a step of the script has ended and the next one begins.

        Raises:
            RuntimeError: there is no schedule, or the profiler is not running. If the script uses this class under the
                name of MindSpore's class, there is a warning instead.
        """
        if not self._has_schedule:
            self._capture.refuse("step() needs a schedule.", "Pass schedule=schedule(wait=..., active=...).")
        self._capture.next_step()

    def analyse(
        self,
        offline_path: str | None = None,
        pretty: bool = False,
        step_list: Sequence[int] | None = None,
        mode: str = "sync",
    ) -> None:
        """Stop the recording if one runs, and analyse the result.

        Args:
            offline_path: a directory to analyse instead of this object's result.
            pretty: whether to indent JSON files.
            step_list: the numbers of the steps to analyse, which must be consecutive; by default all.
            mode: "sync" to wait for the end of the analysis, "async" to return at once.
        """
        if offline_path is not None:
            self.offline_analyse(offline_path, pretty, step_list)
            return
        if mode not in ("sync", "async"):
            warn(f"mode is {shown(mode)}, but must be 'sync' or 'async'; using 'sync'", self._forgives)
        if self._capture.started:
            self._capture.stop()
        self._capture.analyse(async_mode=mode == "async", pretty=pretty, step_list=step_list)

    @classmethod
    def offline_analyse(
        cls,
        path: str,
        pretty: bool = False,
        step_list: Sequence[int] | None = None,
        data_simplification: bool = True,
    ) -> None:
        """Analyse an earlier result, as `ms_profiler.analyse` does.

        Args:
            path: a result directory, whose name ends with `_ascend_ms`, or a directory that contains such ones.
            pretty: whether to indent JSON files.
            step_list: the numbers of the steps to analyse, which must be consecutive; by default all.
            data_simplification: whether to remove intermediate files afterwards.

        Raises:
            MsProfilerError: the analysis failed. If the script uses this class under the name of MindSpore's class,
                which it replaces, there is a line on stderr instead.
        """
        analyse_directory(path, pretty=pretty, step_list=step_list, data_simplification=data_simplification)

    def op_analyse(self, op_name: str | list[str], device_id: int | None = None) -> str:
        """Return the kernel times of operators in the last result, as JSON.

        Args:
            op_name: the type of an operator, or a list of types.
            device_id: accepted for compatibility, without effect, because a result holds one device.

        Returns:
            `{op_name: [{"op_side": "cpu", "input_shape", "op_occurrences", "op_total_time(us)", "op_avg_time(us)"}],
            "device_id": ...}`. The list has an entry for each different set of input shapes. Shapes are known only if
            `record_shapes` was set.

        Raises:
            TypeError: a parameter is of another type.
            RuntimeError: nothing was recorded, or no such operator ran.
        """
        if not isinstance(op_name, (str, list)) or not op_name:
            raise TypeError(f"op_name is {op_name!r}, but must be the type of an operator, or several.")
        if device_id is not None and (isinstance(device_id, bool) or not isinstance(device_id, int)):
            raise TypeError(f"device_id is {device_id!r}, but must be a number.")
        if self._capture.started:
            self._capture.stop()
        if not self._capture.results:
            raise StateError("There is nothing to analyse yet.", "Record something first.")
        result = self._capture.results[-1]
        if not os.path.exists(os.path.join(result, layout.SUMMARY)):
            self._capture.analyse()
        found: dict[str, Any] = {}
        for name in [op_name] if isinstance(op_name, str) else op_name:
            found[name] = _occurrences(os.path.join(layout.output_dir(result), layout.KERNEL_DETAILS), name)
        found["device_id"] = 0 if device_id is None else device_id
        return json.dumps(found)

    @staticmethod
    def profile(network: Any, profile_option: Any = None) -> dict[str, int]:
        """Return the number of trainable parameters of a network.

        Args:
            network: a `Cell`.
            profile_option: deprecated, does nothing.
        """
        return {"trainable_parameters": len(network.trainable_params())}

    def __enter__(self) -> "Profiler":
        self._begin()
        return self


def _do_nothing(_: Any) -> None:
    """Do nothing with a result, because the script calls `analyse` later."""


def _occurrences(path: str, name: str) -> list[dict[str, Any]]:
    """Return the times of all kernels of one type.

    The result has an entry for each set of input shapes; the entry with the largest total time comes first.
    """
    times: dict[str, list[float]] = {}
    try:
        with open(path, encoding="utf-8", newline="") as stream:
            for row in csv.DictReader(stream):
                if row["Type"] == name:
                    times.setdefault((row.get("Input Shapes") or "").strip('"'), []).append(float(row["Duration(us)"]))
    except FileNotFoundError:
        pass
    if not times:
        raise StateError(f"No kernel of {name} was recorded.", "Check the name; kernel_details.csv has all of them.")
    return [
        {
            "op_side": "cpu",
            "input_shape": shapes,
            "op_occurrences": len(durations),
            "op_total_time(us)": round(sum(durations), 4),
            "op_avg_time(us)": round(sum(durations) / len(durations), 4),
        }
        for shapes, durations in sorted(times.items(), key=lambda item: -sum(item[1]))
    ]
