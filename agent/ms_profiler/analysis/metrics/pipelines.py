"""The operators of dataset pipelines: how full their queues are, how busy their workers are, which operator is slow.

A full queue means that the operator behind it is slow. An empty queue means that an operator before it is slow. So the
slow operator has an empty output queue, and it has a full input queue or is a source without input.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from ms_profiler.analysis.readers.pipeline_samples import Operator, Window

#: a queue counts as full if it is filled to at least this percentage on average; otherwise, it counts as empty
HALF: Final = 50.0
#: smallest number of samples for a finding
ENOUGH: Final = 3
#: processor time of a worker in percent: above `BUSY`, a worker is busy; below `LAZY`, it mostly waits
BUSY: Final = 75.0
LAZY: Final = 20.0
#: processor time of all workers of an operator, in percent: in this range, only one worker seems to run at a time
ALONE: Final = (60.0, 130.0)

_LOST: Final = "operators of a dataset pipeline: the process ended before MindSpore wrote them"
_UNREAD: Final = "operators of a dataset pipeline: MindSpore's files cannot be read"


@dataclass
class Pipeline:
    """The samples of one dataset pipeline. MindSpore samples a pipeline in windows of time.

    Attributes:
        process: pid.
        number: the number of the dataset in its process.
        interval_ms: time from one sample to the next.
        operators: the operators, by number, with the samples of all windows.
        windows: number of windows.
        observed_ns: sum of the windows' lengths.
        waits_ms: the wait for each batch.
        pushes_ms: the time to push each batch into the queue of a device.
        periods_ms: the time from each batch to the next batch.
    """

    process: int
    number: int
    interval_ms: int
    operators: list[Operator]
    windows: int = 0
    observed_ns: int = 0
    waits_ms: list[int] = field(default_factory=list)
    pushes_ms: list[int] = field(default_factory=list)
    periods_ms: list[int] = field(default_factory=list)

    @property
    def samples(self) -> int:
        """Return the number of samples of the queues."""
        return max((len(operator.sizes) for operator in self.operators), default=0)

    def inputs(self, operator: Operator) -> list[Operator]:
        """Return the nearest operators before an operator, towards the source, that have an output queue."""
        return [found for found, _ in self._before(operator)]

    def _before(self, operator: Operator) -> Iterator[tuple[Operator, bool]]:
        """Yield the operators of `inputs`, each with whether its consumer reads its inputs one after the other."""
        in_turn = operator.kind == "ConcatOp"
        for child in (self.operators[number] for number in operator.children):
            if child.length is not None:
                yield child, in_turn
            else:
                yield from ((found, in_turn or below) for found, below in self._before(child))

    def slowest(self) -> "Finding | None":
        """Return the operator that limits the pipeline, found by its queues; None if the queues do not show it."""
        if self.samples < ENOUGH:
            return None
        operator = self.operators[0]
        if operator.length is None:
            heads = self.inputs(operator)
            if len(heads) != 1:
                return None
            operator = heads[0]
        behind = share(operator)
        if behind is None:
            return None
        if behind >= HALF:
            return Finding(None, operator, None, behind)
        while True:
            before = list(self._before(operator))
            shares = [found for found in (share(item) for item, _ in before) if found is not None]
            if len(shares) < len(before) or any(in_turn for _, in_turn in before):
                return None  # if inputs are read one after the other, the queue of a finished input is empty, too
            if not shares or min(shares) >= HALF:
                return Finding(operator, operator, min(shares, default=None), behind)
            behind = min(shares)
            operator = before[shares.index(behind)][0]


@dataclass(frozen=True)
class Finding:
    """The operator that limits a pipeline, and the fill of the queues that shows it.

    Attributes:
        slow: the operator. None if no operator limits the pipeline: it has batches ready before they are requested.
        last: the operator whose output queue was examined last.
        before: mean fill of the input queue of `slow` in percent; None for a source.
        behind: mean fill of the output queue of `last` in percent.
    """

    slow: Operator | None
    last: Operator
    before: float | None
    behind: float

    @property
    def evidence(self) -> str:
        """Return the evidence as text: the fill of the queues, and the processor time of the workers."""
        if self.slow is None:
            return f"the output queue of {label(self.last)} is {self.behind:g} % full"
        parts = [f"its output queue is {self.behind:g} % full"]
        if self.before is not None:
            parts.insert(0, f"its input queue is {self.before:g} % full")
        used = percent(self.slow)
        if used is not None:
            workers = self.slow.workers
            who = f"its {workers} workers use" if workers and workers > 1 else "its worker uses"
            parts.append(f"{who} {used:g} % of a processor")
        return f"{label(self.slow)}: {', '.join(parts)}"

    @property
    def action(self) -> str:
        """Return text about the action that the user should try."""
        if self.slow is None:
            return "The pipeline keeps ahead of the training; making it faster would change nothing."
        slow, workers = label(self.slow), self.slow.workers or 0
        used, each = percent(self.slow), per_worker(self.slow)
        if used is not None and workers > 1 and ALONE[0] <= used <= ALONE[1] and self.slow.kind in _PYTHON:
            return (
                f"The {workers} workers of {slow} use about one processor together, as Python functions under the "
                "interpreter's lock do: set python_multiprocessing=True, or use operators of MindSpore instead."
            )
        if each is not None and each > BUSY:
            return f"Give {slow} more workers than {workers} (num_parallel_workers), or do less in it."
        if each is not None and each < LAZY:
            return (
                f"The workers of {slow} mostly wait for files, locks or sleeps: find out which. More workers than "
                f"{workers} (num_parallel_workers) can wait for several of them at once."
            )
        return f"Give {slow} more workers than {workers} (num_parallel_workers), or move work out of it."


#: operators that may call Python functions
_PYTHON: Final = ("MapOp", "BatchOp", "GeneratorOp", "FilterOp")


def pipelines(windows: Iterable[Window]) -> list[Pipeline]:
    """Return the pipelines that could be read, the one with the most samples first.

    Args:
        windows: the windows of `readers.pipeline_samples.read`.
    """
    found: dict[tuple[Any, ...], Pipeline] = {}
    for window in windows:
        if window.interval_ms is None:
            continue
        shape = tuple((item.kind, item.workers, item.children, item.length) for item in window.operators)
        key = (window.process, window.pipeline, shape)
        pipeline = found.get(key)
        if pipeline is None:
            empty = [Operator(item.op_id, *form) for item, form in zip(window.operators, shape, strict=True)]
            pipeline = found[key] = Pipeline(window.process, window.pipeline, window.interval_ms, empty)
        for operator, item in zip(pipeline.operators, window.operators, strict=True):
            operator.sizes += item.sizes
            operator.percents += item.percents
        pipeline.windows += 1
        pipeline.observed_ns += window.end_ns - window.start_ns
        pipeline.waits_ms += window.waits_ms
        pipeline.pushes_ms += window.pushes_ms
        pipeline.periods_ms += window.periods_ms
    return sorted(found.values(), key=lambda pipeline: (-pipeline.samples, -pipeline.observed_ns))


def lost(windows: Iterable[Window], first_ns: int) -> list[dict[str, Any]]:
    """Return the time windows whose samples could not be read, as `summary.json` lists them.

    Args:
        windows: the windows of `readers.pipeline_samples.read`.
        first_ns: the time of the first record of the run.
    """
    return [
        {
            "pid": window.process,
            "what": _UNREAD if window.ended else _LOST,
            "from_s": round((window.start_ns - first_ns) / 1e9, 6),
            "to_s": round((window.end_ns - first_ns) / 1e9, 6),
            "records": 0,
        }
        for window in windows
        if window.interval_ms is None
    ]


def label(operator: Operator) -> str:
    """Return the name and number of an operator, such as "Map(id=1)"."""
    return f"{name(operator)}(id={operator.op_id})"


def name(operator: Operator) -> str:
    """Return the type of an operator without its ending "Op"."""
    return operator.kind.removesuffix("Op")


def average(operator: Operator) -> float | None:
    """Return the mean number of items in the output queue; None without an output queue or without samples."""
    if operator.length is None or not operator.sizes:
        return None
    return sum(operator.sizes) / len(operator.sizes)


def share(operator: Operator) -> float | None:
    """Return the mean fill of the output queue in percent, with two decimals: 100 * average / length."""
    mean = average(operator)
    if mean is None or not operator.length:
        return None
    return round(100 * round(mean, 2) / operator.length, 2)


def empty(operator: Operator) -> float | None:
    """Return the percentage of samples in which the output queue was empty, with two decimals."""
    if operator.length is None or not operator.sizes:
        return None
    return round(100 * operator.sizes.count(0) / len(operator.sizes), 2)


def percent(operator: Operator) -> float | None:
    """Return the mean processor time of all workers together, in percent of one processor, with two decimals."""
    return round(sum(operator.percents) / len(operator.percents), 2) if operator.percents else None


def per_worker(operator: Operator) -> float | None:
    """Return `percent` for one worker: its mean processor time, in percent of a processor, with two decimals."""
    used = percent(operator)
    return None if used is None or not operator.workers else round(used / operator.workers, 2)
