"""The figures of a run that a gate examines, such as step time and counts, and the rule for each kind of figure."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from ms_profiler.analysis.comparison import causes, outside_steps, recurrence
from ms_profiler.analysis.comparison.digest import Digest

#: name of the figure that decides about time
STEP = "step time"
FIRST = "time to first step"
OWN_FIRST = "first step"
#: The step time that a run would have if its machine had the speed of the reference run's machine, as
#: `causes.step_at_speed_of` computes it.
AT_SPEED = "step time at equal speed"
#: the mean step without single disturbed steps, as in `recurrence.mean`
MEAN = "mean step time"
#: the mean step with them
WHOLE = "mean of all steps"


class Kind(Enum):
    """The kinds of figures. The kind says how the figure of a gate decides about the verdict."""

    TIME = "decides, over runs"
    SPEED = "decides, over runs, where the step time is inconclusive"
    MEAN = "decides, over runs, where the time beyond the median step changed"
    ADVISORY = "advisory"
    COUNT = "decides, from a single run"
    MEMORY = "decides from a single run, with some room"


@dataclass(frozen=True)
class Metric:
    """A metric that a gate examines.

    Attributes:
        name: its name in the verdict.
        kind: the kind of the metric, which says how it decides about the verdict.
        unit: the unit of the metric; empty for counts.
        room: the share by which memory, or a number of bytes, may grow without a regression.
        least: an amount in the metric's unit; a growth up to it is no regression, however large its share is.
    """

    name: str
    kind: Kind
    unit: str = ""
    room: float = 0.0
    least: float = 0.0


@dataclass(frozen=True)
class Figure:
    """The value of one metric in one run.

    Attributes:
        value: the value in a typical step, or in the whole run.
        least: the smallest value of all steps. For a count of the whole run, `value` divided by the number of steps: a
            longer run may recompile more often. For other figures of the whole run, `value` itself.
    """

    value: float
    least: float


MEMORY = (
    # Host memory has more room than device memory, because it also depends on when the allocator returns pages.
    Metric("host memory", Kind.MEMORY, "MiB", room=0.1, least=16),
    Metric("device memory", Kind.MEMORY, "MiB", room=0.01, least=1),
    Metric("allocated memory", Kind.MEMORY, "MiB", room=0.01, least=1),
)
#: upper limit of figures that are read from files; no time or size can be larger, because both have 64 bits
_MOST = 1 << 63
_BYTES = "_bytes"
_PHASE = "phase: "
_SAMPLED_PHASE = "phase in sampled steps: "
_OUTSIDE = "outside of steps: "
_RUN = " a run"
_STEP = " a step"


def metric(name: str) -> Metric:
    """Return the metric that has this name."""
    for known in MEMORY:
        if known.name == name:
            return known
    if name == STEP:
        return Metric(name, Kind.TIME, "ms")
    if name == AT_SPEED:
        return Metric(name, Kind.SPEED, "ms")
    if name in (MEAN, WHOLE):
        return Metric(name, Kind.MEAN, "ms")
    if name in (FIRST, OWN_FIRST) or name.startswith((_PHASE, _SAMPLED_PHASE, _OUTSIDE)):
        return Metric(name, Kind.ADVISORY, "ms")
    if "bytes" in name:
        return Metric(name, Kind.COUNT, "bytes", room=0.001)
    return Metric(name, Kind.COUNT)


def of(digest: Digest, reference: Digest | None = None) -> dict[str, Figure]:
    """Return the figures of a run by name; the step time comes first.

    Args:
        digest: the digest of the run.
        reference: a run on a machine of known speed. The result then has also the step time that `digest` would have at
            this speed. None leaves this figure out.
    """
    found = {STEP: _single(digest.step.median_ns / 1e6)}
    if reference is not None and (at_speed := causes.step_at_speed_of(reference, digest)) is not None:
        found[AT_SPEED] = _single(at_speed / 1e6)
    if digest.step.mean_ns:
        found[MEAN] = _single(digest.step.mean_ns / 1e6)
        found[WHOLE] = _single(recurrence.whole_mean(digest.step) / 1e6)
    if digest.step.first_ns is not None:
        found[FIRST] = _single(digest.step.first_ns / 1e6)
    if digest.step.own_first_ns is not None:
        found[OWN_FIRST] = _single(digest.step.own_first_ns / 1e6)
    for name, nanoseconds in digest.phases.items():
        found[(_SAMPLED_PHASE if digest.step.sampled else _PHASE) + name] = _single(nanoseconds / 1e6)
    for name, part in digest.outside.items():
        found[_OUTSIDE + outside_steps.PARTS.get(name, name)] = _single(part.ns / 1e6)
    for name, count in digest.counts.items():
        label = name.replace("_", " ") + (_STEP if count.per == "step" else _RUN)
        least = count.least if count.per == "step" else count.value / max(digest.step.total, 1)
        found[label] = Figure(count.value, least)
    held = (digest.memory.host, digest.memory.device, digest.memory.allocated)
    for known, size in zip(MEMORY, held, strict=True):
        if size is not None:
            found[known.name] = _single(size / 2**20)
    return found


def excesses(runs: Iterable[dict[str, Figure]], step: float, mean: str) -> list[float]:
    """Return by how much the mean step of each run is longer than its median step, in ms.

    A run on a slower machine has a longer excess, too. So the excess of a run with a longer median step than `step` is
    divided by the factor between the two.

    Args:
        runs: the figures of each run, by name; runs without a mean step are left out.
        step: the median step of the reference, in ms.
        mean: the name of the mean step: `MEAN` or `WHOLE`.
    """
    times = [(run[STEP].value, run[mean].value) for run in runs if mean in run]
    return [(value - middle) / max(middle / step, 1) for middle, value in times]


def number(value: object) -> float:
    """Check that a value from a file is a valid figure, and return it as a number.

    Args:
        value: the value.

    Raises:
        ValueError: the value is no number, or outside of the possible range.
    """
    if not isinstance(value, (int, float)) or not abs(value) <= _MOST:
        raise ValueError("a value that is no figure")
    return float(value)


def names(runs: Iterable[dict[str, Figure]]) -> list[str]:
    """Return the names of all figures of several runs, in the order in which they occur."""
    return list(dict.fromkeys(name for run in runs for name in run))


def counted_once(name: str) -> bool:
    """Return whether a count belongs to a whole run and not to a step. A digest lacks a count of a run that is 0."""
    return name.endswith(_RUN)


def _single(value: float) -> Figure:
    return Figure(value, value)
