"""What hooks, sources, devices and samplers may use of the collection that they belong to.

The session is such a host. What is hooked knows this protocol alone, so that imports in `job` point one way: the
session knows the hooks, and no hook knows the session.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from ms_profiler.job.guard import Guard
from ms_profiler.job.process import Identity
from ms_profiler.job.recorder.contract import Recorder
from ms_profiler.job.recording import Recording
from ms_profiler.job.sources import Sources
from ms_profiler.job.steps import Steps
from ms_profiler.store.run_info import ProcessInfo


class Tracers(Protocol):
    """The tracing interfaces of the devices, as one."""

    def waits(self, activity: str) -> bool:
        """Return whether an interface to such a device is still to be taken.

        Args:
            activity: of the option `activities`.
        """

    def look(self, activity: str) -> None:
        """Take the interface to such a device if the job uses it by now.

        Args:
            activity: as for `waits`.
        """

    def make_way(self) -> None:
        """Give all interfaces to a profiler that the script starts."""

    def go_on(self) -> None:
        """Take them again, where possible, when that profiler has stopped."""


class Host(Protocol):
    """The collection in this process.

    Attributes:
        recorder: receives every record.
        steps: decides where a step ends.
        sources: are called when recording begins, between steps, and when it ends.
        devices: the tracing interfaces.
        process: the record of this process.
        forked: this process is a fork child of the one that made the collection.
        limit: bytes on disk that all processes may take for what is recorded.
    """

    recorder: Recorder
    steps: Steps
    sources: Sources
    process: ProcessInfo
    forked: bool
    limit: int

    @property
    def devices(self) -> Tracers:
        """Return the tracing interfaces of the devices."""

    @property
    def identity(self) -> Identity:
        """Return rank and device of this process."""

    @property
    def owner(self) -> bool:
        """Return whether this process owns the result directory, rather than adding to that of its parent."""

    @property
    def recordings(self) -> Sequence[Recording]:
        """Return the result directories that are recorded for now, the one with the store first."""

    @property
    def home(self) -> Recording | None:
        """Return the result directory that has the store, or had it last."""

    @property
    def redirects(self) -> bool:
        """Return whether our profiler stands in for the frameworks' own."""

    @property
    def left_running(self) -> str:
        """Return why a framework's own profiler keeps running; empty when none does."""

    @property
    def targets(self) -> Collection[str]:
        """Return the devices that the frameworks say they use: "CPU", "GPU", "Ascend"."""

    def guard(self, what: str) -> Guard:
        """Return a context that keeps our errors from the job."""

    def failed(self, what: str, reason: BaseException) -> None:
        """Note an error of ours."""

    def not_collected(self, what: str, why: str) -> None:
        """Note what the results will not hold, and why."""

    def wants(self, activity: str) -> bool:
        """Return whether any recording asks for this activity."""

    def asks(self, option: str) -> bool:
        """Return whether any recording turns this option on."""

    def at_start(self, call: Callable[[], None]) -> None:
        """Have a source called when recording begins or continues; at once, when it has begun."""

    def at_step(self, call: Callable[[int], tuple[int, bool]]) -> None:
        """Have a source called between steps."""

    def at_end(self, call: Callable[[], None]) -> None:
        """Have a source called before recording ends, or is cut between two results."""

    def save(self) -> None:
        """Write the records of the runs and of this process."""

    def reopen(self) -> None:
        """Record into a folder of this fork child's own from here on."""

    def become(self, number: int, world_size: int) -> None:
        """Go on as this rank of the job, which the framework tells.

        Args:
            number: the rank.
            world_size: ranks of the job.
        """
