"""Compare runs of which only some steps were recorded in full (sampled), because recording all would cost too much.

The length of every step is known, but only a sampled step has parts, and its length contains the cost of recording. So
the step time of such a run is that of the steps that were not sampled, and the parts are those of the sampled steps. If
only one of two runs was sampled, the step time of the other one contains the cost of recording. A change of the step
time is then sure only if the recorded steps of both runs show it, too.
"""

from collections.abc import Sequence
from enum import Enum
from typing import Final

import polars as pl

from ms_profiler.analysis.comparison import recurrence
from ms_profiler.analysis.comparison.digest import Digest
from ms_profiler.analysis.comparison.step_time import StepTime
from ms_profiler.analysis.metrics import known_waits, other_steps
from ms_profiler.analysis.metrics.measures import Measures

#: smallest number of steps that were not sampled whose median and variation stand for the run
ENOUGH: Final = recurrence.BLOCKS * recurrence.FEWEST
#: if more than this share of the steps compile, compiling counts as regular work
REPEATED: Final = 0.1
#: the parts of sampled steps explain a change of the step time if their sum changed by at least this share of it, and
#: by at most its reciprocal
ALIKE: Final = 0.5


class Sampled(Enum):
    """Which runs of a comparison were sampled."""

    NONE = "none"
    ALL = "all"
    BEFORE = "before"
    AFTER = "after"
    SOME = "some"  # of the runs of one side

    @property
    def mixed(self) -> bool:
        """Return whether some runs were sampled and others were not."""
        return self not in (Sampled.NONE, Sampled.ALL)

    def explained(self, change: float, seen: float) -> bool:
        """Return whether the parts of the recorded steps may explain a change of the step time.

        Args:
            change: the change of the step time.
            seen: the change of the sum of the parts.
        """
        if self is Sampled.NONE:
            return True
        return bool(change) and ALIKE <= seen / change <= 1 / ALIKE


def of(before: Sequence[Digest], after: Sequence[Digest]) -> Sampled:
    """Return which runs of a comparison were sampled.

    Args:
        before: the digests of the first side's runs, at least one.
        after: the digests of the second side's runs, at least one.
    """
    sides = [{bool(run.step.sampled) for run in side} for side in (before, after)]
    if any(len(side) > 1 for side in sides):
        return Sampled.SOME
    first, second = (True in side for side in sides)
    if first == second:
        return Sampled.ALL if first else Sampled.NONE
    return Sampled.BEFORE if first else Sampled.AFTER


def notes(kind: Sampled, names: tuple[str, str]) -> list[str]:
    """Return sentences that say which steps of two sides are compared; empty if no run was sampled.

    Args:
        kind: which runs were sampled.
        names: names of the two sides.
    """
    if kind is Sampled.NONE:
        return []
    parts = "Parts of a step, modules, operators and counts are those of recorded steps, with the cost of recording."
    if kind is Sampled.ALL:
        return [f"Steps were sampled: step times are those of the steps that were not sampled. {parts}"]
    if kind is Sampled.SOME:
        who = "Steps were sampled in some runs of one side only, so only some"
    else:
        one, other = names if kind is Sampled.BEFORE else names[::-1]
        who = f"Steps of {one} were sampled, those of {other} were not. So only the latter"
    return [f"{who} step times contain the cost of recording. {parts}"]


def in_all_steps(kind: str, mean: bool) -> bool:
    """Return whether a cause comes from all steps, though other causes come from sampled steps.

    Args:
        kind: the kind of the contributor.
        mean: whether the mean steps are compared, which have the waits of all steps (`step_waits`).
    """
    return mean and kind in known_waits.KNOWN


def recorded(step: StepTime) -> int:
    """Return the median of the recorded steady steps of a run, in ns. It contains the cost of recording.

    Args:
        step: the step times of the run.
    """
    return step.recorded_ns or step.median_ns


def others(measures: Measures) -> pl.DataFrame | None:
    """Return the steps of a sampled run that were not sampled, without those that compiled.

    The result is None if no steps were left out, or only a few.

    Args:
        measures: the measures of one result.
    """
    coarse = other_steps.left_out(measures.spans, measures.steps)
    if coarse is None:
        return None
    calm = coarse.filter(~pl.col("compiles"))
    chosen = calm if coarse.height - calm.height <= REPEATED * coarse.height else coarse
    return chosen.drop("compiles") if chosen.height >= ENOUGH else None
