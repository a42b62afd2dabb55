"""The work of a profiler object that a script makes: options, schedule, and the results, one after the other."""

import atexit
import json
import os
import shutil
import weakref
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from enum import Enum
from typing import Any

from ms_profiler import options
from ms_profiler.api import analyse as analysis
from ms_profiler.api.forgiving import Forgiven, warn
from ms_profiler.api.schedule import ProfilerAction
from ms_profiler.api.trace_handler import TraceHandler
from ms_profiler.api.transitions import EFFECTS, NO_STEP, WARNINGS
from ms_profiler.errors import StateError, UsageError
from ms_profiler.job import collection
from ms_profiler.job.recorder import shield
from ms_profiler.job.recording import Recording
from ms_profiler.option_types import shown
from ms_profiler.store.format import StepSource

#: Largest number of bytes of metadata in a result, as in MindSpore's public profiler documents.
METADATA_MOST = 100 * 1024 * 1024


class Capture:
    """Makes the results of one profiler object of a script.

    Args:
        values: the options by name; a value may be a member of an enumeration. None counts as not set.
        schedule: a function that maps the number of a step to an action. None records everything from start to stop.
        on_trace_ready: called with `owner` after each cycle of the schedule. None analyses the result instead.
        owner: the profiler object that the script holds.
        forgives: whether a wrong call only causes a warning, as in MindSpore's own classes, and no exception.
    """

    def __init__(
        self,
        values: dict[str, Any],
        schedule: Callable[[int], Any] | None,
        on_trace_ready: Callable[[Any], Any] | None,
        owner: Any,
        forgives: bool,
    ) -> None:
        self._forgives = forgives
        self._schedule = schedule
        self._on_trace_ready = on_trace_ready
        self._owner = weakref.ref(owner)
        self._worker = ""
        values = {name: _plain(value) for name, value in values.items() if value is not None}
        if isinstance(on_trace_ready, TraceHandler):
            values["output_path"] = on_trace_ready.dir_name or "./data"
            self._worker = on_trace_ready.worker_name
        # not an option of the recording, which begins whenever the script says so
        starting, wrong = options.resolve({"start_profile": values.pop("start_profile", True)})
        #: whether the profiler starts by itself
        self.starts = starting.start_profile
        self.options, self._messages = options.resolve(values)
        for message in wrong + self._messages:
            self._warn(message)
        self._session = collection.for_script(self.options.anonymize)
        if self.options.anonymize and not self._session.anonymous:
            self._warn("anonymize came too late: this process has recorded with names before")
        self.options = replace(self.options, anonymize=self._session.anonymous)
        self._recording: Recording | None = None
        # Without the shield, an exception of a signal handler would leave the recording open until the job ends.
        self._end = shield(self._close, self._session.guard("stopping the script's profiler"))
        self._metadata: dict[str, Any] = {}
        self._metadata_bytes = 0
        self.started = False
        self.stopped = False  # whether the profiler was stopped at least once
        self.step = 0
        self.action = self._action_of(0)
        #: result directories made so far
        self.results: list[str] = []

    # -- requests of a script

    def start(self) -> None:
        """Start the profiler, with the action that the schedule gives for the current step."""
        if self.started:
            self.refuse("The profiler has already started.", "Stop it before you start it again.")
            return
        if self.stopped and self.options.data_process:
            self.refuse(
                "The data pipeline cannot be measured a second time.", "Leave data_process out, or start once only."
            )
            return
        self.started = True
        atexit.register(_stop_at_exit, weakref.ref(self))
        self._session.steps.script_began(self._session.recorder.now(), decides=self._schedule is not None)
        self._change(ProfilerAction.NONE, self.action)

    def stop(self) -> None:
        """Stop the profiler, end the recording, and call `on_trace_ready`."""
        if not self.started:
            self.refuse("The profiler has not been started.", "Call start() first.")
            return
        self.started, self.stopped = False, True
        try:
            self._change(self.action, None)
        finally:
            self._session.steps.script_ended()

    def next_step(self) -> None:
        """Note that the script has finished a step, and do what the schedule says for the next one."""
        if not self.started:
            self.refuse("step() was called while the profiler is stopped.", "Call start() first.")
            return
        self._session.steps.ended(StepSource.SCRIPT, self._session.recorder.now())
        self.step += 1
        before, self.action = self.action, self._action_of(self.step)
        self._change(before, self.action)

    def refuse(self, message: str, remedy: str) -> None:
        """Report a wrong call: raise a `StateError`, or only print a warning if `forgives` is set.

        Raises:
            StateError: the script called the profiler in the wrong state, and `forgives` is not set.
        """
        if not self._forgives:
            raise StateError(message, remedy)
        self._warn(f"{message} {remedy}")

    def add_metadata(self, key: str, value: str, is_json: bool) -> None:
        """Add a text, or a JSON value given as text, to the metadata of every result from now on."""
        if not isinstance(key, str) or not isinstance(value, str):
            self._warn(f"metadata {shown(key)} is left out: key and value must be text")
            return
        content: Any = value
        if is_json:
            try:
                content = json.loads(value)
            except ValueError:
                self._warn(f"metadata {key!r} is left out: its value is not JSON")
                return
        size = len(key) + len(value)
        if self._metadata_bytes + size >= METADATA_MOST:
            self._warn(f"metadata {key!r} is left out: a result can hold less than 100 MB of it")
            return
        if key in self._metadata:
            self._warn(f"metadata {key!r} was there already and is replaced")
        self._metadata_bytes += size
        self._metadata[key] = content
        if self._recording is not None:
            self._recording.info.metadata[key] = content

    def analyse(self, async_mode: bool = False, **how: Any) -> None:
        """Analyse the last result.

        Args:
            async_mode: whether to return at once, without waiting for the end of the analysis.
            how: further arguments of `ms_profiler.analyse`.

        Raises:
            StateError: there is no result yet.
            MsProfilerError: the analysis failed.
        """
        if not self.results:
            self.refuse("There is nothing to analyse yet.", "Call stop() before analyse().")
            return
        quiet = self.options.quiet or self._session.identity.rank != 0  # as at the end of a job
        analysis.run(self.results[-1], wait=not async_mode, quiet=quiet, **how)

    # -- the methods that `transitions.EFFECTS` names

    def _change(self, before: ProfilerAction, after: ProfilerAction | None) -> None:
        if self._schedule is not None:
            warning = NO_STEP if after is None and self.step == 0 else WARNINGS.get((before, after))
            if warning:
                self._warn(warning)
        effects = EFFECTS.get((before, after), ())
        for effect in effects:
            # `_ready` may call code of the script
            with nullcontext() if effect == "ready" else collection.requested():
                getattr(self, f"_{effect}")()
        if effects and after is not None:
            # Begin the step again, at this moment. If the step began before the recording, it would be incomplete.
            self._session.steps.script_began(self._session.recorder.now(), again=True)

    def _make(self) -> None:
        """Make the directory of the next result."""
        recording = Recording(self.options, list(self._messages), self._session.identity)
        recording.info.metadata.update(self._metadata)
        as_dict = getattr(self._schedule, "to_dict", None)
        if as_dict is not None:
            recording.info.options["schedule"] = as_dict()
        if recording.make("", self._worker):
            self._recording = recording

    def _begin(self) -> None:
        if self._recording is not None:
            number = self.step if self._schedule is not None else None
            self._session.start(self._recording, number)

    def _close(self) -> None:
        """End the recording; may be called again after an exception interrupted a call."""
        recording = self._recording
        if recording is not None and recording.info.started_ns:
            self._session.stop(recording)
            if recording.result not in self.results:
                self.results.append(recording.result)
        self._recording = None

    def _discard(self) -> None:
        """Remove the directory of a result that got no records."""
        recording, self._recording = self._recording, None
        if recording is not None:
            shutil.rmtree(recording.result, ignore_errors=True)

    def _ready(self) -> None:
        if not self.results:
            return
        owner = self._owner()
        # The recording of the next cycle must begin even if this fails.
        with Forgiven("on_trace_ready") if self._forgives else nullcontext():
            if self._on_trace_ready is None:
                self.analyse(async_mode=self.options.analyse == "async")
            elif owner is not None:
                self._on_trace_ready(owner)

    def _action_of(self, step: int) -> ProfilerAction:
        if self._schedule is None:
            return ProfilerAction.RECORD
        action = self._schedule(step)
        try:
            # The schedule may return a member of MindSpore's own enumeration. Its members have the same values as ours.
            return ProfilerAction(action.value if isinstance(action, Enum) else action)
        except ValueError:
            message = f"The schedule returned {shown(action)}."  # no number: Python shows a repeated warning once
            remedy = "Let it return a member of ProfilerAction."
            if not self._forgives:
                raise UsageError(message, remedy) from None
            self._warn(f"{message} {remedy} Such steps are not recorded.")
            return ProfilerAction.NONE

    def _warn(self, message: str) -> None:
        warn(message, self._forgives)


def _plain(value: Any) -> Any:
    """Turn the value of an option in a script into the form that it has in MS_PROFILER_OPTIONS."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(item) for item in value]
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def _stop_at_exit(reference: "weakref.ref[Capture]") -> None:
    capture = reference()
    if capture is not None and capture.started:
        with capture._session.guard("stopping the script's profiler"):
            capture.stop()
