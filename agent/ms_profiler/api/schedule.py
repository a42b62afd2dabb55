"""The classes `schedule` and `ProfilerAction`, as in MindSpore's public profiler documents."""

import warnings
from enum import Enum

from ms_profiler.job.schedule import Schedule


class ProfilerAction(Enum):
    """What the profiler does during a step."""

    NONE = 0
    WARM_UP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


class schedule:  # noqa: N801 - the documents' name
    """A callable that returns what the profiler does in a step, from the number of the step.

    After `skip_first` steps, cycles follow. A cycle has `wait`, then `warmup`, then `active` steps.

    Args:
        wait: number of steps at the begin of a cycle that are not recorded.
        active: number of recorded steps at the end of a cycle.
        warmup: number of steps in which the recording is prepared, right before the recorded steps.
        repeat: number of cycles; 0 for cycles until the end of the job.
        skip_first: number of steps before the first cycle.

    An invalid value causes a warning and counts as 0; for `active`, it counts as 1.
    """

    def __init__(self, *, wait: int, active: int, warmup: int = 0, repeat: int = 0, skip_first: int = 0) -> None:
        self.wait = _number("wait", wait, 0)
        self.active = _number("active", active, 1)
        self.warmup = _number("warmup", warmup, 0)
        self.repeat = _number("repeat", repeat, 0)
        self.skip_first = _number("skip_first", skip_first, 0)
        self._schedule = Schedule(**self.to_dict())

    def __call__(self, step: int) -> ProfilerAction:
        """Return the action during `step`, counted from 0.

        Raises:
            ValueError: the number is negative.
        """
        if step < 0:
            raise ValueError(f"Step {step} does not exist: steps are counted from 0.")
        return ProfilerAction(int(self._schedule.action(step)))

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value}" for name, value in self.to_dict().items())
        return f"schedule({values})"

    def to_dict(self) -> dict[str, int]:
        """Return the parameters by name."""
        return {
            "wait": self.wait,
            "active": self.active,
            "warmup": self.warmup,
            "repeat": self.repeat,
            "skip_first": self.skip_first,
        }


def _number(name: str, value: object, least: int) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value >= least:
        return value
    warnings.warn(f"{name} of a schedule is {value!r}, but must be {least} or more; using {least}", stacklevel=3)
    return least
