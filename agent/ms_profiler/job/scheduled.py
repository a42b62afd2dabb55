"""Follow the schedule from step to step.

Between two steps, sources have work to do if the schedule records a step near these two. In all other steps that the
schedule leaves out, which are called idle, ms-profiler does the same as in steps that are not sampled: it counts them
in C, and hooks may rest. In a loop of 20 layers and 2 ms a step, hooks and sources took 15 % of such a step before.
"""

from collections.abc import Callable

from ms_profiler.job.boundaries import Marks
from ms_profiler.job.recorder.bases import StepsBase
from ms_profiler.job.recorder.contract import Recorder
from ms_profiler.job.schedule import Schedule
from ms_profiler.store.format import Flag

UNRECORDED = int(Flag.UNRECORDED)


class Scheduled(StepsBase):
    """The part of `Steps` that follows the schedule.

    Attributes:
        schedule: the steps to record; None records all.
        count: number of ended steps so far; never decreases.
        recorded: number of ended steps that the schedule or another recording needs; unknown without a schedule.
        idle: number of the next steps that are far from every recorded step, when it was last computed.
        next_look: number of steps after which to call the function that is called between two steps.
        marks: the flags of steps, as the sampling plan requires.
    """

    recorder: Recorder
    schedule: Schedule | None
    count: int
    recorded: int
    idle: int
    next_look: int
    marks: Marks
    _revoked: int
    _flags: int
    _overridden: bool
    _called: Callable[[int], bool]

    @property
    def recording(self) -> bool:
        """Return whether the current step is recorded, because the schedule or another recording needs it."""
        return self._overridden or self.schedule is None or self.schedule.records(self.number)

    @property
    def number(self) -> int:
        """Return the number of the current step: the count of steps before it, without revoked steps."""
        return self.count - self._revoked

    def override_schedule(self, overridden: bool) -> None:
        """Record all steps, because another recording needs them, or return to the steps of the schedule."""
        self._overridden = overridden
        self._follow()

    def _settle(self) -> None:
        """Decide again how the ends of steps are noted, because `idle` has changed."""

    def _scheduled(self, count: int) -> bool:
        """Call the function for the time between two steps; under a schedule, it is called after all but idle steps."""
        idle = self.idle
        self._settle_idle()
        if idle and not self.idle:
            self.next_look = 0  # every source learns that recording begins soon
        took_time = self._called(count)
        self.next_look = min(self.next_look, count + max(self.idle, 1))
        return took_time

    def _follow(self) -> None:
        """Follow the schedule from another step on, or no more, or again."""
        if self.schedule is not None:
            self.recorder.pause(not self.recording)
            self.next_look = 0
        self._settle_idle()

    def _settle_idle(self) -> None:
        before = self.idle
        self.idle = 0 if self._overridden or self.schedule is None else self.schedule.idle(self.number)
        if bool(before) is not bool(self.idle):
            self._settle_flags()
            self._settle()

    def _settle_flags(self) -> None:
        """Set the flags of the next steps that are noted in C: those of idle steps, or of the sampling plan."""
        self._flags = UNRECORDED if self.idle else self.marks.flags
