"""The digest of a run: a small record of all figures that a comparison needs, to be stored beside the code.

A digest describes one launch with all its ranks. Its times and counts are those of a step, as means over the ranks.
`Digest.from_dict` reverses `Digest.to_dict`, but ignores fields that a later version of ms-profiler added.
"""

from dataclasses import asdict, dataclass, field, fields, is_dataclass
from types import UnionType
from typing import Any, Final, TypeVar, Union, get_args, get_origin, get_type_hints

from ms_profiler.analysis.comparison.step_time import StepTime
from ms_profiler.errors import StoreError

#: version of the form of a digest; a digest of a later version than this is refused
VERSION: Final = 1


@dataclass(frozen=True)
class Cell:
    """A part of the time of a step, computed by `moments.cells`. All cells of a run add up to `Digest.told_ns`.

    Attributes:
        part: a part of the step, such as computing, as defined in `metrics.bounds`.
        phase: a phase of `phases`, or "device" for steps on a device.
        module: path of the module to which the time belongs; empty if it belongs to none.
        stage: forward, backward, recompute, optimizer, or empty.
        what: name of the operator, kernel or span that ran; empty if unknown.
        caller: the outermost operator that launched the kernel. Operators, unlike kernels, have the same names on every
            device.
        ns: nanoseconds per step.
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
    """A module, or an optimizer, with its times in a step.

    Attributes:
        path: the names of the modules from the outermost on, with dots between them.
        kind: its class; empty if unknown.
        order: its position among the modules, sorted by their first calls; if unknown, its position in the module tree.
        calls: number per step; None if unknown.
        forward_ns: ns per step of the forward pass, with all modules inside.
        backward_ns: ns per step of the backward pass, with all modules inside.
        optimizer_ns: ns per step of the optimizer, with all modules inside.
        total_ns: ns per step of all of these.
        self_ns: ns per step without the modules inside.
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
    """Operators or kernels of one name, with their count and time.

    Attributes:
        name: the name of the operator, or of the kernel.
        kind: its type; empty for operators.
        count: the number per steady step.
        ns: nanoseconds per usual step, see `moments.usual`; for an operator, its self time.
    """

    name: str
    kind: str
    count: float
    ns: int


@dataclass(frozen=True)
class Count:
    """A count of a step or of a run, such as the number of kernels.

    Attributes:
        value: the median count of the steady steps, or the count of the whole run.
        least: the smallest count of a steady step; `value` itself for a count of the whole run. If a launch has several
            ranks, `value`, `least` and `most` are means over the ranks: so more work of any rank shows.
        most: the largest count of a steady step; `value` itself for a count of the whole run.
        per: "step" or "run".
    """

    value: float
    least: float
    most: float
    per: str = "step"

    def changed(self, after: "Count") -> bool:
        """Return whether a count certainly changed.

        A kernel near the end of a step may be counted in the next step. So two medians are not proved to differ if each
        of them is also the possible count of a step of the other run.

        Args:
            after: the count in the second run.
        """
        usual = self.least <= after.value <= self.most and after.least <= self.value <= after.most
        return self.value != after.value and not usual


@dataclass(frozen=True)
class Outside:
    """A part of a run outside of its steps, such as evaluation.

    Attributes:
        ns: the time of this part in the whole run.
        count: the number of its intervals, for example of evaluations.
    """

    ns: int
    count: int


@dataclass(frozen=True)
class DataWait:
    """The waits for one operation of the input, such as fetching a batch.

    Attributes:
        operation: the operation.
        count: the number of waits in the whole run.
        ns: the time of all these waits.
    """

    operation: str
    count: int
    ns: int


@dataclass(frozen=True)
class Memory:
    """Peak memory in bytes. A value is None if it was not recorded.

    Attributes:
        host: the memory of the training process, without mapped files.
        device: the memory that the device's driver or the framework's allocator reserved on the device.
        allocated: the memory that the framework's allocator allocated to tensors.
    """

    host: int | None
    device: int | None
    allocated: int | None


@dataclass(frozen=True)
class Hint:
    """A piece of advice from `metrics.advice`.

    Attributes:
        cause: the name of the cause, for programs.
        what: the subject, in a word or two.
        share: the share of the time of the steps that the cause takes.
        evidence: the numbers that support the advice.
        action: a remedy to try.
    """

    cause: str
    what: str
    share: float
    evidence: str
    action: str


@dataclass(frozen=True)
class Completeness:
    """Missing parts of a run: ranks, records and files.

    Attributes:
        expected: number of ranks of the launch.
        present: the numbers of the ranks whose results were read.
        dropped: number of records that were dropped for lack of room.
        damaged: number of records and files that could not be read.
        ended: how the stepping process of each rank ended: "exit", "exception: ...", "killed", "running", or empty if
            another tool recorded the run.
    """

    expected: int
    present: tuple[int, ...]
    dropped: int
    damaged: int
    ended: tuple[str, ...]

    @property
    def missing(self) -> tuple[int, ...]:
        """Return the ranks without a result."""
        return tuple(sorted(set(range(self.expected)) - set(self.present)))


@dataclass(frozen=True)
class Fingerprint:
    """Machine, versions and workload of a run. Empty text and 0 stand for unknown values.

    Attributes:
        cpu: model of the processor.
        cores: processors that the job may use.
        device: the accelerator, or "CPU".
        host: name of the machine, for people only: each container has a new name.
        python: the version of Python.
        framework: name and version of the framework.
        profiler: version of the profiler that recorded the run.
        mode: execution mode of the framework.
        threads: number of threads that compute an operator.
        world_size: the number of ranks.
        network: paths of the outermost modules.
        modules: number of all modules.
        options: options of the recording that change the counts.
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
class Average:
    """The parts of the mean step, with the fields of `Digest`.

    A usual step lacks work that only every tenth step has. The mean step has it.

    Attributes:
        told_ns: the sum of `cells`.
        phases: ns per step of each phase.
        bounds: ns per step of each part of `metrics.bounds`.
        cells: the cells.
        modules: the modules.
        operators: the operators.
        kernels: the kernels.
    """

    told_ns: int
    phases: dict[str, int]
    bounds: dict[str, int]
    cells: tuple[Cell, ...]
    modules: tuple[Module, ...]
    operators: tuple[Named, ...]
    kernels: tuple[Named, ...]


@dataclass(frozen=True)
class Digest:
    """The figures of one run.

    Attributes:
        version: the version of the digest's form.
        source: name of the directory or file.
        started_ns: the begin of the run, ns since the epoch.
        step: the duration of the steps.
        told_ns: the sum of `cells`, ns per step. The rest of the median step is unexplained.
        phases: ns per step of each phase, by name.
        bounds: ns per step of each part of `metrics.bounds`, such as computing.
        cells: the cells of a step, which are small parts of its time, most time first.
        modules: the modules, most time first; the time of a module includes its inner modules.
        modules_of: "host" if the times of modules are times of the stepping thread, "kernels" if they are times of
            kernels; empty without modules.
        operators: the operators, most time first.
        kernels: the kernels, most time first.
        counts: the counts by name: operators, kernels, copies, copied_bytes, synchronisations, collectives,
            collective_bytes, recompiles, graphs, graph_breaks, compiled_steps.
        waits: the waits for data.
        slow_transform: the slow operation of a dataset pipeline, with its numbers; empty if unknown.
        memory: the peak memory.
        advice: the advice, the largest cause first.
        completeness: missing parts of the run.
        fingerprint: machine, versions and workload.
        outside: the parts of the run outside of its steps, by name, as in `outside_steps.PARTS`.
        own_work: the own work of each rank (`rank_work`), ns per step, by the number of the rank; empty for one rank.
        average: the parts of the mean step; None if it hardly differs from a usual step.
        interrupted: the excess of interrupted kernels (`metrics.long_kernels`) as a share of the time of all kernels.
            The times of modules and kernels do not contain this excess.
        ended_ns: the time of the last record, ns since the epoch; 0 if unknown.
        job: the name of the launch on its host (`store.run_info.RunInfo.job`); empty if unknown.
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
    outside: dict[str, Outside] = field(default_factory=dict)
    own_work: dict[str, int] = field(default_factory=dict)
    average: Average | None = None
    interrupted: float = 0.0
    ended_ns: int = 0
    job: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the digest as a dictionary for JSON."""
        return asdict(self)

    @staticmethod
    def from_dict(content: Any, path: str = "a digest") -> "Digest":
        """Return the digest that a dictionary holds; the reverse of `to_dict`.

        Args:
            content: the content of the JSON file.
            path: the path of the file, for messages.

        Raises:
            StoreError: the content is no digest, or a digest of a later version.
        """
        version = content.get("version") if isinstance(content, dict) else None
        if not isinstance(version, int):
            raise StoreError(f"{path} holds no digest of a run.", "Make it again from the result directories.")
        if version > VERSION:
            raise StoreError(f"{path} has version {version}, this is for {VERSION}.", "Update ms-profiler to read it.")
        try:
            return _built(Digest, content)
        except (KeyError, TypeError, ValueError) as error:
            reason = f"{type(error).__name__}: {error}"
            raise StoreError(f"{path} is damaged ({reason}).", "Make it again from the result directories.") from None


#: Fields that were added without a new version -> their values in files without them, because users keep old digests.
_ADDED: Final[dict[str, Any]] = {
    "caller": "",
    "mean_ns": 0,
    "sampled": 0,
    "recorded_ns": 0,
    "own_first_ns": None,
    "long_sampled_ns": [],
    "excesses": [],
    "wait_blocks": None,
    "queued_ns": None,
    "average": None,
    "outside": {},
    "own_work": {},
    "interrupted": 0.0,
    "ended_ns": 0,
    "job": "",
}

#: largest number in a digest: nanoseconds since the epoch and bytes have 64 bits
_MOST: Final = 1 << 63

_Kind = TypeVar("_Kind")


def _built(kind: type[_Kind], content: dict[str, Any]) -> _Kind:
    """Return a dataclass with the values of a JSON object; unknown keys, which a later version added, are ignored."""
    hints, known = get_type_hints(kind), _ADDED | content
    return kind(**{item.name: _value(hints[item.name], known[item.name]) for item in fields(kind)})  # type: ignore[arg-type]


def _value(hint: Any, value: Any) -> Any:
    origin, inside = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return None if value is None else _value(next(each for each in inside if each is not type(None)), value)
    if origin in (tuple, dict) and not isinstance(value, list if origin is tuple else dict):
        raise TypeError(f"{value!r} is no {origin.__name__}")
    if origin is tuple:
        return tuple(_value(inside[0], each) for each in value)
    if origin is dict:
        return {str(key): _value(inside[1], each) for key, each in value.items()}
    if is_dataclass(hint):
        return _built(hint, value)  # type: ignore[arg-type]
    if not isinstance(value, (int, float) if hint is float else hint):
        raise TypeError(f"{value!r} is no {hint.__name__}")
    if isinstance(value, (int, float)) and not abs(value) <= _MOST:
        raise ValueError(f"{value!r} is no count, time or size")
    return value
