"""The figures of a run that a gate examines, with the rule by which each kind decides."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from ms_profiler.analysis.comparison import causes
from ms_profiler.analysis.comparison.digest import Digest

#: the figure that decides about time
STEP = "step time"
FIRST = "time to first step"
#: the step time without the factor by which a run differs in all modules alike
AT_SPEED = "step time at equal speed"


class Kind(Enum):
    """How a figure decides."""

    TIME = "decides, over runs"
    SPEED = "decides, over runs, where the step time is inconclusive"
    ADVISORY = "advisory"
    COUNT = "decides, from a single run"
    MEMORY = "decides from a single run, with some room"


@dataclass(frozen=True)
class Metric:
    """A metric.

    Attributes:
        name: its name for people.
        kind: the way in which the figure decides.
        unit: the unit of the figure; empty for counts.
        room: share by which it may grow, for memory and for bytes.
        least: smallest growth that counts, in its unit.
    """

    name: str
    kind: Kind
    unit: str = ""
    room: float = 0.0
    least: float = 0.0


@dataclass(frozen=True)
class Figure:
    """A figure of one run.

    Attributes:
        value: the value for a typical step, or for the run.
        least: smallest value of a step; `value` itself for a figure of the run.
    """

    value: float
    least: float


MEMORY = (
    # memory of the host also depends on when its allocator returns pages
    Metric("host memory", Kind.MEMORY, "MB", room=0.1, least=16),
    Metric("device memory", Kind.MEMORY, "MB", room=0.01, least=1),
    Metric("allocated memory", Kind.MEMORY, "MB", room=0.01, least=1),
)
#: largest figure: nanoseconds and bytes are 64 bits wide
_MOST = 1 << 63
_BYTES = "_bytes"
_PHASE = "phase: "
_RUN = " a run"
_STEP = " a step"


def metric(name: str) -> Metric:
    """Return the metric with this name."""
    for known in MEMORY:
        if known.name == name:
            return known
    if name == STEP:
        return Metric(name, Kind.TIME, "ms")
    if name == AT_SPEED:
        return Metric(name, Kind.SPEED, "ms")
    if name == FIRST or name.startswith(_PHASE):
        return Metric(name, Kind.ADVISORY, "ms")
    if "bytes" in name:
        return Metric(name, Kind.COUNT, "bytes", room=0.001)
    return Metric(name, Kind.COUNT)


def of(digest: Digest, reference: Digest | None = None) -> dict[str, Figure]:
    """Return the figures of a run by name, the one that decides first.

    Args:
        digest: the digest of the run.
        reference: the run whose speed is the equal speed; without it there is no figure at equal speed.
    """
    found = {STEP: _single(digest.step.median_ns / 1e6)}
    if reference is not None and (at_speed := causes.step_at_speed_of(reference, digest)) is not None:
        found[AT_SPEED] = _single(at_speed / 1e6)
    if digest.step.first_ns is not None:
        found[FIRST] = _single(digest.step.first_ns / 1e6)
    for name, nanoseconds in digest.phases.items():
        found[_PHASE + name] = _single(nanoseconds / 1e6)
    for name, count in digest.counts.items():
        label = name.replace("_", " ") + (_STEP if count.per == "step" else _RUN)
        found[label] = Figure(count.value, count.least)
    held = (digest.memory.host, digest.memory.device, digest.memory.allocated)
    for known, size in zip(MEMORY, held, strict=True):
        if size is not None:
            found[known.name] = _single(size / 2**20)
    return found


def number(value: object) -> float:
    """Return a value of a file as a figure.

    Args:
        value: the value.

    Raises:
        ValueError: it is none.
    """
    if not isinstance(value, (int, float)) or not abs(value) <= _MOST:
        raise ValueError("a value that is no figure")
    return float(value)


def names(runs: Iterable[dict[str, Figure]]) -> list[str]:
    """Return the names of the figures of several runs, in order."""
    return list(dict.fromkeys(name for run in runs for name in run))


def counted_once(name: str) -> bool:
    """Return whether a count is of a whole run: digests leave it out when it is 0."""
    return name.endswith(_RUN)


def _single(value: float) -> Figure:
    return Figure(value, value)
