"""Measure how long the script's functions in datasets take: the functions of `map`, and `per_batch_map` of `batch`.

MindSpore calls such a function for each sample, on threads of its own. A record of each call would cost too much. So
ms-profiler counts the calls, and measures them; of a short function, it measures the first ones and then one of 257. It
writes the number of calls and their time as counters, at most once a second. Both begin at 0 with each recording. The
time of a short function is that of the first calls, and for the others the mean of the later measured ones: while the
job compiles, the first calls take longer. Of the first calls, and of the later ones, the longest one counts as the mean
of the others: one call of a short function that waits for Python's global interpreter lock, for example while MindSpore
starts processes, may take longer than all other calls.

With `python_multiprocessing`, MindSpore calls the functions in other processes. They are not measured there. A counter
has the number of these processes.
"""

from dataclasses import dataclass
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final

from ms_profiler import paths
from ms_profiler.job.frameworks import base, trees
from ms_profiler.job.frameworks.base import Target
from ms_profiler.store.names import TRANSFORM_CALLS, TRANSFORM_PROCESSES, TRANSFORM_TIME

if TYPE_CHECKING:
    from ms_profiler.job.host import Host

DATASETS: Final = "mindspore.dataset.engine.datasets"
MODULE: Final = "mindspore.dataset.transforms.py_transforms_util"
#: smallest time between two records of the sums of a function, ns
INTERVAL: Final = 1_000_000_000
#: The first `FIRST` calls of a function are measured. Later, if their mean is below `SHORT` ns, only calls whose number
#: is a multiple of `RARE` are measured: a prime, because calls at the border of a batch may take longer. To measure a
#: call takes less than 1 us. Of a function of 3 ms, one of 16 calls gave its time to within 15 to 25 %.
FIRST, RARE, SHORT = 64, 257, 100_000


@dataclass
class _Sums:
    """The sums of one function of the script.

    Attributes:
        calls: id of the name of the counter of calls.
        time: id of the name of the counter of time.
        count: number of calls so far.
        measured: number of measured calls since the recording began, or since the first `FIRST` of them.
        ns: time of these calls.
        longest: time of the longest of these calls.
        first_ns: time of the first `FIRST` calls; None until then.
        each: a call is measured if its number is a multiple of this.
        due: time from which on the sums are written again, ns.
    """

    calls: int
    time: int
    count: int = 0
    measured: int = 0
    ns: int = 0
    longest: int = 0
    first_ns: int | None = None
    each: int = 1
    due: int = 0

    def time_of(self, calls: int) -> int:
        """Return the time of so many calls that are like the measured ones, in ns."""
        if self.measured < 2:
            return self.ns * calls
        return (self.ns - self.longest) * calls // (self.measured - 1)


class Transforms:
    """Add up calls and time of the script's functions in datasets.

    Args:
        host: the session, which writes the sums.
    """

    def __init__(self, host: "Host") -> None:
        self.host = host
        self._sums: dict[str, _Sums] = {}
        self._labels: base.Labels[_Sums] = base.Labels(self._describe)
        host.at_end(self._end)

    def wrap(self, original: Any) -> Any:
        """Return the replacement of the method with which MindSpore calls a function of the script."""
        known, labels, now, forked = self._labels.known, self._labels, self.host.recorder.now, base.forked

        def before(wrapper: Any, *_: Any, **__: Any) -> tuple[_Sums, int] | None:
            sums = known.get(id(wrapper)) or labels.add(wrapper)
            sums.count += 1
            return None if sums.count % sums.each or forked else (sums, now())

        def after(state: tuple[_Sums, int], result: Any, reason: BaseException | None) -> None:
            sums, begun = state
            ended = now()
            took = ended - begun
            sums.measured += 1
            sums.ns += took
            sums.longest = max(sums.longest, took)
            first = sums.first_ns is None and sums.measured >= FIRST
            if not first and ended < sums.due:
                return
            sums.due = ended + INTERVAL
            sums.each = RARE if (first or sums.first_ns is not None) and sums.time_of(1) < SHORT else 1
            self._write(sums)
            if first:
                sums.first_ns = sums.time_of(FIRST)
                sums.measured = sums.ns = sums.longest = 0

        # without `forked`, a worker process of MindSpore opens no files because of this hook
        failed = self.host.guard("measuring a function of a dataset")
        return self.host.recorder.wrap(original, before=before, after=after, failed=failed, forked=[])

    def note_pool(self, pool: Any, *_: Any) -> None:
        """Write the number of processes for each function, before MindSpore starts the processes of a `map`."""
        held, recorder = trees.attributes(pool), self.host.recorder
        processes: int = held.get("num_parallel_workers", 0)
        for operation in held.get("operations", ()) if processes else ():
            name = _name(trees.attributes(operation).get("transform", operation))
            recorder.counter(recorder.intern(f"{TRANSFORM_PROCESSES}{name}"), processes)

    def _describe(self, wrapper: Any) -> _Sums:
        name = _name(trees.attributes(wrapper).get("transform"))
        if name not in self._sums:  # MindSpore copies its objects for each pipeline that it builds
            recorder = self.host.recorder
            self._sums[name] = _Sums(
                recorder.intern(f"{TRANSFORM_CALLS}{name}"), recorder.intern(f"{TRANSFORM_TIME}{name}")
            )
        return self._sums[name]

    def _write(self, sums: _Sums) -> None:
        self.host.recorder.counter(sums.calls, sums.count)
        if sums.first_ns is None:
            time = sums.time_of(sums.count)
        elif sums.measured:
            time = sums.first_ns + sums.time_of(sums.count - FIRST)
        else:
            time = sums.first_ns * sums.count // FIRST
        self.host.recorder.counter(sums.time, time)

    def _end(self) -> None:
        """Write the sums at the end of a recording, and begin anew: another recording may follow."""
        for sums in list(self._sums.values()):
            self._write(sums)
            sums.count = sums.measured = sums.ns = sums.longest = sums.due = 0
            sums.first_ns, sums.each = None, 1


def _name(function: Any) -> str:
    """Return name, file and line of a function; the class of any other object that can be called."""
    owner = trees.function_of(function)
    if type(owner) is not FunctionType:
        return trees.kind_name(owner)
    code = owner.__code__
    return f"{owner.__qualname__} ({paths.basename(code.co_filename)}:{code.co_firstlineno})"


def targets(host: "Host") -> list[Target]:
    """Return the methods to wrap: one calls a function of the script, one starts the processes of a `map`."""
    transforms = Transforms(host)
    pools = base.around(host, "noting the processes of a dataset", transforms.note_pool)
    return [
        Target(MODULE, "FuncWrapper.__call__", closure=transforms.wrap),
        Target(DATASETS, "_PythonMultiprocessing.create_pool", closure=pools),
    ]
