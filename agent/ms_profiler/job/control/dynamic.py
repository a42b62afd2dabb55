"""Dynamic profiling: while the job runs, a file names the steps to record.

The thread that runs the steps checks the file between two steps, so ms-profiler needs no other process or thread.
"""

from dataclasses import replace
from typing import Protocol

from ms_profiler import log, paths
from ms_profiler.job import handover
from ms_profiler.job.control.dynamic_file import NAME, DynamicFile, Plan
from ms_profiler.job.guard import Guard
from ms_profiler.job.process import Identity
from ms_profiler.job.recording import Recording
from ms_profiler.options import Options

#: Seconds between two checks of the file that the option `dynamic` names.
INTERVAL = 1.0


class Collector(Protocol):
    """The part of the session (the object that records in this process) that dynamic profiling uses."""

    @property
    def identity(self) -> Identity:
        """Return rank and device of this process."""

    @property
    def anonymous(self) -> bool:
        """Return whether names of the job are replaced in every recording."""

    def guard(self, what: str) -> Guard:
        """Return a context manager that notes and suppresses errors of ms-profiler."""

    def start(self, recording: Recording, number: int | None = None) -> bool:
        """Record into one more result directory; return whether that is possible."""

    def stop(self, recording: Recording) -> None:
        """Stop recording into the result directory of `recording`."""


class Dynamic:
    """Start and stop recording as a file requests, while the job runs.

    Args:
        session: the session that records.
        file: the file that names the steps to record.
        output_path: directory that receives the results if the file names none.
        base: directory from which relative paths start.
    """

    def __init__(self, session: Collector, file: DynamicFile, output_path: str, base: str) -> None:
        self._session = session
        self._file = file
        self._output_path = output_path
        self._base = base
        self._plan: Plan | None = None
        self._recording: Recording | None = None
        self._stop = 0  # last step to record
        #: the result directories so far
        self.results: list[str] = []

    def between(self, count: int) -> bool:
        """Start or stop recording between two steps, as the file requests; return whether either happened.

        Args:
            count: the number of steps so far.
        """
        stopped = self.ended(count)
        return self.begins(count + 1) or stopped

    @property
    def recording(self) -> bool:
        """Return whether steps are being recorded because the file names them."""
        return self._recording is not None

    def begins(self, step: int) -> bool:
        """Note that a step begins. Start a recording if the file requests this step; return whether it started.

        Args:
            step: number of the step; the first step of the job is 1.
        """
        if self._recording is not None:
            return False
        with self._session.guard("dynamic profiling"):
            try:
                self._plan = self._file.look() or self._plan
            except ValueError as reason:
                self._plan = None
                self._say(f"dynamic profiling: {reason}")
            plan = self._plan
            if plan is None or not plan.wanted or step < plan.start:
                return False
            self._plan = None  # each request of the file is served only once
            if step > plan.stop:
                self._say(
                    f"dynamic profiling: start_step is {plan.start} and stop_step {plan.stop}, but step {step} begins; "
                    f"name later steps in {self._file.path}"
                )
                return False
            return self._start(plan, step)
        return False

    def ended(self, step: int) -> bool:
        """Note that a step ended. Stop the recording if `step` is its last step; return whether it stopped."""
        if self._recording is None or step < self._stop:
            return False
        self.close()
        return True

    def close(self) -> None:
        """Stop the recording, if one runs, and start its analysis."""
        recording, self._recording = self._recording, None
        if recording is None:
            return
        with self._session.guard("dynamic profiling"):
            self._session.stop(recording)
            self.results.append(recording.result)
            handover.during(recording)

    def _start(self, plan: Plan, step: int) -> bool:
        identity = self._session.identity
        path = paths.join(plan.path or self._output_path, f"rank{identity.rank}_start{plan.start}_stop{plan.stop}")
        for message in plan.messages:
            self._say(message)
        settings = replace(plan.options, output_path=path, anonymize=self._session.anonymous)
        recording = Recording(settings, list(plan.messages), identity)
        if not recording.make(self._base) or not self._session.start(recording, step):
            return False
        if step > plan.start:
            late = f"step {plan.start} was over when {self._file.path} was read"
            recording.not_collected(f"steps {plan.start} to {step - 1}", late)
            recording.save()
        self._recording, self._stop = recording, plan.stop
        recording.say(f"recording steps {step} to {plan.stop} to {recording.result}")
        return True

    def _say(self, message: str) -> None:
        if self._session.identity.rank == 0:
            log.line(message)


def watch(session: Collector, settings: Options, base: str) -> Dynamic | None:
    """Return the object that watches the file of the option `dynamic`.

    If the file cannot be made, print a line and return None.

    Args:
        session: the session that records.
        settings: the options of MS_PROFILER_OPTIONS. They apply to a recording where the file sets no value.
        base: directory from which relative paths start.
    """
    path = paths.abspath(paths.join(base, paths.expanduser(settings.dynamic or "")))
    if paths.isdir(path):
        path = paths.join(path, NAME)
    values = settings.as_dict()
    given = {name: values[name] for name in settings.given if name not in ("dynamic", "schedule", "analyse")}
    file = DynamicFile(path, given, INTERVAL)
    if session.identity.rank == 0:
        try:
            file.create()
        except OSError as reason:
            log.line(f"dynamic is {path!r}, which cannot be written ({reason.strerror}); this run is not profiled")
            return None
        if not settings.quiet:
            log.line(f"nothing is recorded until {path} names start_step and stop_step of later steps")
    return Dynamic(session, file, settings.output_path, base)
