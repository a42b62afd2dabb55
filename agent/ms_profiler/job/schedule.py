"""Which steps are recorded: wait, warm up, record, repeat."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Any


class Action(IntEnum):
    """What is done during a step; the numbers are those of MindSpore's `ProfilerAction`."""

    NONE = 0
    WARM_UP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


@dataclass(frozen=True)
class Schedule:
    """Map step numbers, counted from 0, to actions.

    The first `skip_first` steps are left out. Then each cycle is `wait` steps left out, `warmup` steps prepared for
    but not kept, and `active` steps recorded, the last of them ending the cycle. After `repeat` cycles nothing more is
    recorded; 0 repeats for ever. These are the semantics of `mindspore.profiler.schedule` (MindSpore's public profiler
    documents).
    """

    active: int
    wait: int = 0
    warmup: int = 0
    repeat: int = 0
    skip_first: int = 0

    @classmethod
    def from_option(cls, option: dict[str, Any] | None) -> "Schedule | None":
        """Build the schedule of the option of that name; None when it is absent."""
        return cls(**option) if option else None

    def action(self, step: int) -> Action:
        """Return what is done during `step`."""
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
        """Return whether what happens during `step` is kept."""
        return self.action(step) >= Action.RECORD
