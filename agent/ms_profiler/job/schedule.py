"""The schedule of recorded steps: wait, warm up, record, repeat."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from ms_profiler.job.sources import NEVER


class Action(IntEnum):
    """What the profiler does during a step; the numbers are those of MindSpore's `ProfilerAction`."""

    NONE = 0
    WARM_UP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


@dataclass(frozen=True)
class Schedule:
    """Map step numbers, counted from 0, to actions.

    The first `skip_first` steps are left out. Then cycles follow. In each cycle, `wait` steps are left out, `warmup`
    steps are prepared but not recorded, and `active` steps are recorded. After `repeat` cycles recording ends; 0
    repeats for ever. These are the semantics of `mindspore.profiler.schedule` (MindSpore's public profiler documents).
    """

    active: int
    wait: int = 0
    warmup: int = 0
    repeat: int = 0
    skip_first: int = 0

    @classmethod
    def from_option(cls, option: dict[str, Any] | None) -> "Schedule | None":
        """Build the schedule from the value of the option `schedule`; None if the option is not set."""
        return cls(**option) if option else None

    def action(self, step: int) -> Action:
        """Return the action during the step with this number, counted from 0."""
        step -= self.skip_first
        if step < 0:
            return Action.NONE
        cycle = self.wait + self.warmup + self.active
        if self.repeat and step >= self.repeat * cycle:
            return Action.NONE
        position = step % cycle
        if position < self.wait:
            return Action.NONE
        if position < self.wait + self.warmup:
            return Action.WARM_UP
        return Action.RECORD_AND_SAVE if position == cycle - 1 else Action.RECORD

    def records(self, step: int) -> bool:
        """Return whether the step with this number, counted from 0, is recorded."""
        return self.action(step) >= Action.RECORD

    def idle(self, step: int) -> int:
        """Return how many steps from this one on are far from every recorded step.

        The first two steps after a recorded step do not count, and neither does the last one before a recorded step:
        the tracing of a device begins one step early, and ends one step late.

        Args:
            step: the number of the step, counted from 0.
        """
        if any(self.records(each) for each in range(step - 2, step + 1)):
            return 0
        cycle, within = self.wait + self.warmup + self.active, step - self.skip_first
        if self.repeat and within >= self.repeat * cycle:
            return NEVER
        begin = self.skip_first + max(within // cycle, 0) * cycle
        return begin + self.wait + self.warmup - 1 - step
