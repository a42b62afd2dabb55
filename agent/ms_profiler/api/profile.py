"""The class `profile`, as in MindSpore's public profiler documents."""

import html
import json
import os
import sys
from collections.abc import Callable
from typing import Any

from ms_profiler.api.arguments import function
from ms_profiler.api.capture import Capture
from ms_profiler.api.experimental_config import NAMES
from ms_profiler.api.forgiving import warn
from ms_profiler.api.profiling import Profiling
from ms_profiler.option_types import shown
from ms_profiler.store import layout


class profile(Profiling):  # noqa: N801 - the documents' name
    """Profile the code between `start` and `stop`, on any platform.

    The table in docs/options.md explains the parameters that are not listed here, under the same names. If
    MS_PROFILER_OPTIONS is set, the recording that it requests continues at the same time.

    Args:
        start_profile: whether to start at once.
        schedule: a `schedule`, which maps each step to an action. The script calls `step` at the end of each step.
        on_trace_ready: called with this object after each cycle of the schedule; without a schedule, after `stop`. By
            default, the result is analysed. `tensorboard_trace_handler` also analyses it, and sets the directory.
        experimental_config: an `_ExperimentalConfig` with further options.

    Results go to "./data", or to the directory that `tensorboard_trace_handler` names.
    """

    _forgives = False

    def __init__(
        self,
        activities: list[Any] | None = None,
        with_stack: bool = False,
        profile_memory: bool = False,
        data_process: bool = False,
        parallel_strategy: bool = False,
        start_profile: bool = True,
        hbm_ddr: bool = False,
        pcie: bool = False,
        sync_enable: bool = True,
        record_shapes: bool = False,
        schedule: Callable[[int], Any] | None = None,
        on_trace_ready: Callable[[Any], Any] | None = None,
        experimental_config: Any = None,
    ) -> None:
        values = {
            "activities": activities,
            "with_stack": with_stack,
            "profile_memory": profile_memory,
            "data_process": data_process,
            "parallel_strategy": parallel_strategy,
            "hbm_ddr": hbm_ddr,
            "pcie": pcie,
            "sync_enable": sync_enable,
            "record_shapes": record_shapes,
            "start_profile": start_profile,
        }
        if any(hasattr(experimental_config, name) for name in NAMES):  # MindSpore's class has these names, too
            values |= {name: getattr(experimental_config, name, None) for name in NAMES}
        elif experimental_config is not None:
            given = shown(experimental_config)
            warn(f"experimental_config is {given}, but must be an _ExperimentalConfig; leaving it out", self._forgives)
        schedule = function("schedule", schedule, self._forgives)
        on_trace_ready = function("on_trace_ready", on_trace_ready, self._forgives)
        self._capture = Capture(values, schedule, on_trace_ready, self, self._forgives)
        self._has_schedule = schedule is not None
        if self._capture.starts:
            self._begin()

    def start(self) -> None:
        """Start recording.

        Raises:
            RuntimeError: the profiler has started already, or starts by itself (`start_profile`). If the script uses
                this class under the name of MindSpore's class, which it replaces, there is a warning instead.
        """
        if self._capture.starts and self._capture.started:
            self._capture.refuse(
                "The profiler has already started: start_profile is True.",
                "Pass start_profile=False to start it later.",
            )
            return
        self._capture.start()

    def stop(self) -> None:
        """Stop recording; then call `on_trace_ready` or, without it, analyse the result.

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
        if not self._has_schedule and not self._forgives:
            self._capture.refuse("step() needs a schedule.", "Pass schedule=schedule(wait=..., active=...).")
        self._capture.next_step()

    def __enter__(self) -> "profile":
        self._begin()
        return self

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        notebook = sys.modules.get("IPython")
        if notebook is not None and notebook.get_ipython() is not None:
            notebook.display.display(self)  # Jupyter shows the value of a cell, but a `with` statement has no value

    def _repr_html_(self) -> str:
        """Return the summary of the last result, for a notebook."""
        if not self._capture.results:
            return "<p>ms-profiler: nothing recorded yet</p>"
        result = self._capture.results[-1]
        try:
            with open(os.path.join(result, layout.SUMMARY), encoding="utf-8") as stream:
                summary = json.load(stream)
        except (OSError, ValueError):
            return f"<p>ms-profiler: recorded to {html.escape(result)}, not analysed yet</p>"
        rows = "".join(
            f"<tr><td>{html.escape(name)}</td><td>{phase['total_ms']:.3f} ms</td><td>{phase['share']:.1%}</td></tr>"
            for name, phase in summary["phases"].items()
        )
        return (
            f"<p><b>{html.escape(summary['verdict'])}</b></p>"
            f"<table><tr><th>phase</th><th>time</th><th>share</th></tr>{rows}</table><p>{html.escape(result)}</p>"
        )
