"""The digest of a run: everything that a comparison needs, small enough to be stored beside the code.

A digest is of one launch, over all its ranks: times and counts are those of a rank and a step, on average over ranks.
It is a plain value: `Digest.to_dict` and `Digest.from_dict` are each other's reverse, and what a later version adds an
earlier one ignores.
"""

from dataclasses import asdict, dataclass, fields, is_dataclass
from types import UnionType
from typing import Any, Final, TypeVar, Union, get_args, get_origin, get_type_hints

from ms_profiler.errors import StoreError

#: of the form of a digest; a reader refuses later ones
VERSION: Final = 1


@dataclass(frozen=True)
class StepTime:
    """How long steps take.

    Attributes:
        median_ns: of the steady steps: those after the first, without those that compiled, unless more than a tenth of
            those after the first five do.
        first_ns: from the first record of the run until its first step has ended; None where another tool recorded it.
        durations_ns: of each steady step, in order; of the slowest rank.
        count: steady steps.
        total: all steps of the run.
        source: who says where a step ends.
    """

    median_ns: int
    first_ns: int | None
    durations_ns: tuple[int, ...]
    count: int
    total: int
    source: str


@dataclass(frozen=True)
class Cell:
    """A part of the time of a step, see `moments.cells`; all cells of a run add up to `Digest.told_ns`.

    Attributes:
        part: of `bounds`: what the moment was.
        phase: of `phases`, or "device" where the step is that of a device.
        module: path of the module whose it was; empty where it was none's.
        stage: forward, backward, recompute, optimizer, or empty.
        what: operator, kernel or span; empty where none is known.
        caller: outermost operator that launched the kernel: other than kernels it has the same name on each device.
        ns: a step.
    """

    part: str
    phase: str
    module: str
    stage: str
    what: str
    caller: str
    ns: int


@dataclass(frozen=True)
class Module:
    """A module, or an optimizer.

    Attributes:
        path: from the outermost on, with dots.
        kind: its class; empty where it is not known.
        order: place among all modules by their first call, or as the tree is sorted.
        calls: a step; None where that is not known.
        forward_ns: a step, of it and of all in it; likewise the next ones.
        backward_ns: likewise.
        optimizer_ns: likewise.
        total_ns: likewise.
        self_ns: of it alone.
    """

    path: str
    kind: str
    order: int
    calls: float | None
    forward_ns: int
    backward_ns: int
    optimizer_ns: int
    total_ns: int
    self_ns: int


@dataclass(frozen=True)
class Named:
    """Operators or kernels of one name.

    Attributes:
        name: of the operator, or of the kernel.
        kind: its type; empty for operators.
        count: a step.
        ns: a step: self time of an operator.
    """

    name: str
    kind: str
    count: float
    ns: int


@dataclass(frozen=True)
class Count:
    """How often something happens.

    Attributes:
        value: a step: the median; or of the whole run, where it is counted once.
        least: in a steady step; the value itself where it is counted once a run.
        most: likewise.
        per: "step" or "run".
    """

    value: float
    least: float
    most: float
    per: str = "step"


@dataclass(frozen=True)
class DataWait:
    """What a pipeline of data was waited for.

    Attributes:
        operation: what was waited for.
        count: in the whole run.
        ns: in the whole run.
    """

    operation: str
    count: int
    ns: int


@dataclass(frozen=True)
class Memory:
    """Most that was held, in bytes; None where that was not recorded.

    Attributes:
        host: of the training process, without mapped files.
        device: taken from the device, or given to tensors where only that is known.
        allocated: given to tensors by the framework's allocator.
    """

    host: int | None
    device: int | None
    allocated: int | None


@dataclass(frozen=True)
class Hint:
    """What `advice` knows.

    Attributes:
        cause: for programs.
        what: in a word or two.
        share: of the steps.
        evidence: numbers.
        action: what to try.
    """

    cause: str
    what: str
    share: float
    evidence: str
    action: str


@dataclass(frozen=True)
class Completeness:
    """Whether a run is all there.

    Attributes:
        expected: ranks of the launch.
        present: numbers of those whose results were read.
        dropped: records that there was no room for.
        damaged: records and files that could not be read.
        ended: how each process that steps ended, by rank: "exit", "exception: ...", "killed", "running", or empty where
            another tool recorded it.
    """

    expected: int
    present: tuple[int, ...]
    dropped: int
    damaged: int
    ended: tuple[str, ...]

    @property
    def missing(self) -> tuple[int, ...]:
        """Return the ranks of which there is no result."""
        return tuple(sorted(set(range(self.expected)) - set(self.present)))


@dataclass(frozen=True)
class Fingerprint:
    """What a run ran on, and what it was; empty text and 0 where that is not known.

    Attributes:
        cpu: model of the processor.
        cores: processors that the job may use.
        device: the accelerator, or "CPU".
        host: name of the machine; containers have a new one each, so it is for people alone.
        python: version.
        framework: name and version.
        profiler: version of the profiler that recorded it.
        mode: how the framework computes.
        threads: that an operator is computed by.
        world_size: ranks.
        network: outermost modules.
        modules: how many modules there are.
        options: of the recording that change what is counted.
    """

    cpu: str
    cores: int
    device: str
    host: str
    python: str
    framework: str
    profiler: str
    mode: str
    threads: int
    world_size: int
    network: tuple[str, ...]
    modules: int
    options: dict[str, str]


@dataclass(frozen=True)
class Digest:
    """One run.

    Attributes:
        version: of this form.
        source: name of the directory or file.
        started_ns: since the epoch.
        step: how long steps take.
        told_ns: a step, in the cells. What it lacks of the median step is not explained.
        phases: ns a step, by name.
        bounds: ns a step, by part, see `metrics.bounds`.
        cells: see `Cell`, most time first.
        modules: most time first; those in others are there, too.
        modules_of: "host": their time is that of the stepping thread; "kernels": that of kernels; empty without any.
        operators: most time first.
        kernels: most time first.
        counts: by name: operators, kernels, copies, copied_bytes, synchronisations, collectives, collective_bytes,
            recompiles, graphs, graph_breaks, compiled_steps.
        waits: for data.
        slow_transform: what of a dataset pipeline holds it up, with its numbers; empty where that is not known.
        memory: most that was held.
        advice: the cause of the time first.
        completeness: whether it is all there.
        fingerprint: what it ran on, and what it was.
    """

    version: int
    source: str
    started_ns: int
    step: StepTime
    told_ns: int
    phases: dict[str, int]
    bounds: dict[str, int]
    cells: tuple[Cell, ...]
    modules: tuple[Module, ...]
    modules_of: str
    operators: tuple[Named, ...]
    kernels: tuple[Named, ...]
    counts: dict[str, Count]
    waits: tuple[DataWait, ...]
    slow_transform: str
    memory: Memory
    advice: tuple[Hint, ...]
    completeness: Completeness
    fingerprint: Fingerprint

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return asdict(self)

    @staticmethod
    def from_dict(content: Any, path: str = "a digest") -> "Digest":
        """Return what `to_dict` made.

        Args:
            content: of JSON.
            path: where it is from, for messages.

        Raises:
            StoreError: it is no digest, or one of a later version.
        """
        version = content.get("version") if isinstance(content, dict) else None
        if not isinstance(version, int):
            raise StoreError(f"{path} holds no digest of a run.", "Make it anew from the result directories.")
        if version > VERSION:
            raise StoreError(f"{path} has version {version}, this is for {VERSION}.", "Update ms-profiler to read it.")
        try:
            return _built(Digest, content)
        except (KeyError, TypeError, ValueError) as error:
            reason = f"{type(error).__name__}: {error}"
            raise StoreError(f"{path} is damaged ({reason}).", "Make it anew from the result directories.") from None


#: fields that this version did not have at first, and what they are in a file without them: baselines are kept long
_ADDED: Final[dict[str, Any]] = {"caller": ""}

_Kind = TypeVar("_Kind")


def _built(kind: type[_Kind], content: dict[str, Any]) -> _Kind:
    """Return a dataclass of JSON; keys of a later version are ignored."""
    hints, known = get_type_hints(kind), _ADDED | content
    return kind(**{item.name: _value(hints[item.name], known[item.name]) for item in fields(kind)})  # type: ignore[arg-type]


def _value(hint: Any, value: Any) -> Any:
    origin, inside = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return None if value is None else _value(next(each for each in inside if each is not type(None)), value)
    if origin is tuple:
        return tuple(_value(inside[0], each) for each in value)
    if origin is dict:
        return {str(key): _value(inside[1], each) for key, each in value.items()}
    if is_dataclass(hint):
        return _built(hint, value)  # type: ignore[arg-type]
    if not isinstance(value, (int, float) if hint is float else hint):
        raise TypeError(f"{value!r} is no {hint.__name__}")
    return value
