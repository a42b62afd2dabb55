"""`schedule` and `ProfilerAction`, as in MindSpore's public profiler documents."""

import warnings
from enum import Enum

from ms_profiler.job.schedule import Schedule


class ProfilerAction(Enum):
    """Actions of the profiler during a step."""

    NONE = 0
    WARM_UP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


class schedule:  # noqa: N801 - the documents' name
    """A function from the number of a step to the profiler's action in this step.

    Args:
        wait: number of steps that are left out, at the begin of a cycle.
        active: number of recorded steps at the end of a cycle.
        warmup: number of steps in which the recording is prepared, right before the recorded steps.
        repeat: number of cycles; 0 means no end.
        skip_first: number of steps before the first cycle.

    An invalid value is replaced by 0, for `active` by 1, with a warning.
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
