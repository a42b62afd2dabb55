"""The part of a session that hooks, sources, devices and samplers may use.

The session is the object that records in this process. The modules that use it import this protocol and not the
session, so that no imports run in a circle.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from ms_profiler.job.guard import Guard
from ms_profiler.job.process import Identity
from ms_profiler.job.recorder.contract import Recorder
from ms_profiler.job.recording import Recording
from ms_profiler.job.script_steps import ScriptSteps
from ms_profiler.job.sources import Sources
from ms_profiler.store.run_info import ProcessInfo


class Tracers(Protocol):
    """The tracing interfaces of all devices, behind one object."""

    def waits(self, activity: str) -> bool:
        """Return whether the tracing interface for this kind of device may still be attached later.

        Args:
            activity: the kind of device, as in the option `activities`.
        """

    def look(self, activity: str) -> None:
        """Attach the tracing interface for a kind of device if the job already uses such a device.

        Args:
            activity: the kind of device, as in the option `activities`.
        """

    def release(self) -> None:
        """Detach all tracing interfaces, because the script starts a profiler of its own, which needs them."""

    def resume(self) -> None:
        """Attach the tracing interfaces again where possible, after the script's own profiler has stopped."""


class Host(Protocol):
    """The session: the object that records in this process.

    Attributes:
        recorder: the recorder that receives every record.
        steps: decides where a step ends.
        sources: functions called when recording begins, between steps, and when recording ends.
        devices: the interfaces that trace devices.
        process: the description of this process, for its file `process_info.json`.
        forked: whether this process is a fork child of the process that made the session.
        limit: bytes on disk that the records of all processes may take.
        limited_by: what sets this limit: "max_disk" or "a tenth of the free disk space".
    """

    recorder: Recorder
    steps: ScriptSteps
    sources: Sources
    process: ProcessInfo
    forked: bool
    limit: int
    limited_by: str

    @property
    def devices(self) -> Tracers:
        """Return the tracing interfaces of the devices."""

    @property
    def identity(self) -> Identity:
        """Return rank and device of this process."""

    @property
    def owner(self) -> bool:
        """Return whether this process made the result directory; a child records into its parent's directory."""

    @property
    def recordings(self) -> Sequence[Recording]:
        """Return the open recordings; the first one is `home`."""

    @property
    def home(self) -> Recording | None:
        """Return the recording whose directory receives the files of records, or received them last."""

    @property
    def redirects(self) -> bool:
        """Return whether classes of ms-profiler replace the frameworks' own profiler classes."""

    @property
    def left_running(self) -> str:
        """Return why a framework's own profiler keeps running; empty when none does."""

    @property
    def targets(self) -> Collection[str]:
        """Return the kinds of devices that the frameworks report: "CPU", "GPU", "Ascend"."""

    def guard(self, what: str) -> Guard:
        """Return a context manager that notes and suppresses errors of ms-profiler.

        Args:
            what: description of the block, for the message.
        """

    def failed(self, what: str, reason: BaseException) -> None:
        """Note an error of ms-profiler; `what` describes the work that failed."""

    def not_collected(self, what: str, why: str) -> None:
        """Note in every open result that something is missing, and why."""

    def wants(self, activity: str) -> bool:
        """Return whether the options of any open recording contain this activity."""

    def asks(self, option: str) -> bool:
        """Return whether the options of any open recording switch this option on."""

    def at_start(self, call: Callable[[], None]) -> None:
        """Register a function to call when recording begins or continues; call it now if recording has begun."""

    def at_step(self, call: Callable[[int], tuple[int, bool]], follows: bool = True) -> None:
        """Register a function to call between steps.

        Args:
            call: called with the number of steps so far. Its first result is the number of steps after which it must be
                called again; an earlier call does no harm. Its second result is whether the call took noticeable
                time, which then belongs to no step.
            follows: whether to call it also when steps begin or cease to be sampled.
        """

    def at_end(self, call: Callable[[], None]) -> None:
        """Register a function to call before recording ends or moves to another result."""

    def at_child(self, start: Callable[[], None], end: Callable[[], None]) -> None:
        """Register functions to call in a fork child: when it begins to record, and before it ends."""

    def expect(self, what: str, ns: float) -> None:
        """Note an estimate of the time that a framework's own recorder takes in each step; `overhead_budget` covers it.

        Args:
            what: name of the recorder.
            ns: the time, in ns.
        """

    def save(self) -> None:
        """Write `run_info.json` of each open recording, and `process_info.json` of this process."""

    def reopen(self) -> None:
        """Record into a new folder from now on: a fork child must not write into the folder of its parent."""

    def become(self, number: int, world_size: int) -> None:
        """Continue as another rank, because the framework reports the number of this rank only now.

        Args:
            number: the number of this rank.
            world_size: number of ranks of the job.
        """
