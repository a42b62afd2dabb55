"""The figures of a run that a gate examines, and the rule by which each kind of figure decides."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from ms_profiler.analysis.comparison import causes
from ms_profiler.analysis.comparison.digest import Digest

#: name of the figure that decides about time
STEP = "step time"
FIRST = "time to first step"
#: the step time that the run would have at the speed of the reference run, see `causes.step_at_speed_of`
AT_SPEED = "step time at equal speed"


class Kind(Enum):
    """The rule by which a figure decides."""

    TIME = "decides, over runs"
    SPEED = "decides, over runs, where the step time is inconclusive"
    ADVISORY = "advisory"
    COUNT = "decides, from a single run"
    MEMORY = "decides from a single run, with some room"


@dataclass(frozen=True)
class Metric:
    """A metric that a gate examines.

    Attributes:
        name: its name in the verdict.
        kind: the rule by which the figure decides.
        unit: the unit of the figure; empty for counts.
        room: the share by which memory, or a number of bytes, may grow without a regression.
        least: the smallest growth that counts, in the figure's unit.
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
        value: the value of a typical step, or of the whole run.
        least: the smallest value of a step; for a figure of the whole run, `value` itself.
    """

    value: float
    least: float


MEMORY = (
    # memory of the host also depends on the moments at which its allocator returns pages
    Metric("host memory", Kind.MEMORY, "MB", room=0.1, least=16),
    Metric("device memory", Kind.MEMORY, "MB", room=0.01, least=1),
    Metric("allocated memory", Kind.MEMORY, "MB", room=0.01, least=1),
)
#: largest possible figure: nanoseconds and bytes have 64 bits
_MOST = 1 << 63
_BYTES = "_bytes"
_PHASE = "phase: "
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
    if name == FIRST or name.startswith(_PHASE):
        return Metric(name, Kind.ADVISORY, "ms")
    if "bytes" in name:
        return Metric(name, Kind.COUNT, "bytes", room=0.001)
    return Metric(name, Kind.COUNT)


def of(digest: Digest, reference: Digest | None = None) -> dict[str, Figure]:
    """Return the figures of a run by name; the step time, which decides, comes first.

    Args:
        digest: the digest of the run.
        reference: the run to whose speed the step time is scaled; None for no figure at equal speed.
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
    """Check that a value from a file is a figure, and return it as a number.

    Args:
        value: the value.

    Raises:
        ValueError: the value is no figure.
    """
    if not isinstance(value, (int, float)) or not abs(value) <= _MOST:
        raise ValueError("a value that is no figure")
    return float(value)


def names(runs: Iterable[dict[str, Figure]]) -> list[str]:
    """Return the names of the figures of several runs, in order."""
    return list(dict.fromkeys(name for run in runs for name in run))


def counted_once(name: str) -> bool:
    """Return whether a count belongs to a whole run; digests leave out such a count if it is 0."""
    return name.endswith(_RUN)


def _single(value: float) -> Figure:
    return Figure(value, value)
