"""Record the shapes of operators' inputs in a few steps, in which Kineto runs beside the callbacks for operators.

The callbacks record the spans of operators, but PyTorch does not tell them shapes. So Kineto records shapes for `STEPS`
steps, after `FIRST` steps in which caches and compilers warm up. Kineto runs for all threads, because any thread can
stop such a profiler.

Kineto's records only add arguments to the spans of the callbacks. On each thread, the n-th record of Kineto belongs to
the n-th span, because both sources report operators in the order in which they begin. So no operator is recorded twice.
No span is cut off when Kineto has to stop: before a profiler of the script starts, and before a fork.

With PyTorch before 2.14, steps in which other threads run operators get no shapes, because the start of Kineto could
then crash the job.

In a step with shapes, an operator takes 1 to 2 us more, and Kineto keeps 1 KB for each operator in memory until Kineto
stops. So ms-profiler records no shapes in steps with more than `MOST` records.
"""

from typing import TYPE_CHECKING, Any, Protocol

from ms_profiler import clock
from ms_profiler.job.frameworks.torch.kineto import Kineto
from ms_profiler.job.frameworks.torch.operands import OPTION, Operands, category
from ms_profiler.job.frameworks.torch.profiler_slot import ProfilerSlot
from ms_profiler.job.sources import NEVER
from ms_profiler.store.format import Category, Kind

if TYPE_CHECKING:
    from ms_profiler.job.host import Host

#: FIRST: number of steps before the first step with shapes. STEPS: number of steps with shapes. TRIES: largest number
#: of attempts to start Kineto.
FIRST = 2
STEPS = 3
TRIES = 6
#: Largest number of records in a step with shapes, of any kind. In a step with more records, Kineto does not run. With
#: this number it already takes up to 100 MB of memory.
MOST = 30_000
#: How often our clock and the wall clock are read to compare them. The reading that took the shortest time counts.
READINGS = 5

_PREVENTED = "forks, other profilers or operators of other threads prevented each attempt"
_NAMES = "PyTorch's callbacks, which report operators, report no shapes"


class Operators(Protocol):
    """The object that records operators with callbacks, as far as this module uses it.

    Attributes:
        wanted: whether operators are recorded now.
    """

    wanted: bool


class Shapes:
    """Record the shapes of a few steps with Kineto.

    Args:
        host: the session, which receives the records.
        stream: the object that records operators with callbacks.
        why_not: why Kineto may not be used; empty if it may.
    """

    def __init__(self, host: "Host", stream: Operators, why_not: str = "") -> None:
        self._host = host
        self._stream = stream
        self.slot = ProfilerSlot(host, self.end)
        self._kineto, self._why = None, f"{_NAMES}; {why_not}"
        if not why_not:
            try:
                self._kineto = Kineto(host.recorder)
            except TypeError:
                self._why = f"{_NAMES}, and the Kineto of this PyTorch records only one thread"
        self._began = 0  # number of steps before Kineto started
        self._windows = 0
        self._before = (0, 0)
        self._left = 0  # number of steps whose shapes are still to be recorded
        self._tries = 0
        self._records = -1  # number of records at the end of the last step; -1 if unknown

    def start(self) -> None:
        """Note in `run_info.json` which steps have shapes, and why not all steps have them."""
        host, self._left = self._host, 0
        if not host.asks(OPTION):
            return
        if self._kineto is None:
            host.not_collected("shapes of operators", self._why)
            return
        if self.slot.free:
            self._kineto.initialize()
        self._left, self._tries, self._records = STEPS, TRIES, -1
        host.not_collected(
            f"shapes of operators, except in the first {STEPS} recorded steps from step {FIRST} on",
            f"{_NAMES}; Kineto, which knows shapes, holds operators in memory and costs more for each operator",
        )

    def stop(self) -> None:
        """Stop recording shapes; if no step has shapes, note this in `run_info.json`."""
        self.end()
        if self._left == STEPS:
            why = f"no step after the first {FIRST} was recorded"
            if self._tries < TRIES:
                why = _PREVENTED
            self._host.not_collected("shapes of operators", why)
        self._left = 0

    def stepped(self, count: int) -> tuple[int, bool]:
        """Start or stop Kineto between two steps."""
        if not self._left or self._kineto is None:
            return NEVER, False
        size, may_run = self._size(), self._kineto.may_run()
        if self.slot.used:
            ran = self._kineto.running
            if ran and count - self._began < self._left and self._stream.wanted and size <= MOST and may_run:
                return count + 1, False
            self.end()
            self._left -= min(count - self._began, self._left) if ran else 0
            return (count + 1 if self._left else NEVER), True
        # With a schedule, no step before the first recorded one has a known size. So do not wait for a known size.
        unknown = size < 0 and self._host.steps.schedule is None
        if count < FIRST or not self._stream.wanted or unknown or not self.slot.free:
            return count + 1, False
        why = "" if self._tries else _PREVENTED
        if size > MOST:
            why = f"a step has {size} records, of which {MOST} can be held in memory"
        if why:
            self._left = 0
            self._host.not_collected(f"shapes of operators from step {count} on", why)
            return NEVER, False
        self._tries -= 1
        if may_run:
            self._begin(count)
        return count + 1, may_run

    def _size(self) -> int:
        """Return how many records the last step made; -1 if unknown."""
        if not self._stream.wanted:
            self._records = -1
            return -1
        before, self._records = self._records, self._host.recorder.stats().records
        return self._records - before if before >= 0 else -1

    def _begin(self, count: int) -> None:
        """Start Kineto, if no other profiler runs on this thread."""
        assert self._kineto is not None
        if self._kineto.enabled:
            return
        self._before, self._began = self._clocks(), count
        # An exception of the job's signal handlers may end this method at any line. From here on, `end` stops Kineto.
        self.slot.used = True
        self._kineto.start(True)

    def end(self) -> None:
        """Stop Kineto and store the arguments of operators that it recorded; any thread may call this."""
        if self._kineto is None or not self.slot.used:
            return
        host = self._host
        begun = host.recorder.now()
        result = self._kineto.stop()
        self.slot.used = False
        if result is not None and not host.forked:
            with host.guard("recording shapes"):
                self._record(result.events(), begun)

    def _clocks(self) -> tuple[int, int]:
        """Read our clock and the wall clock at the same moment; return both times in ns."""
        now, found = self._host.recorder.now, []
        for _ in range(READINGS):
            before, wall, after = now(), clock.wall_ns(), now()
            found.append((after - before, (before + after) // 2, wall))
        _, own, wall = min(found)
        return own, wall

    def _record(self, events: list[Any], begun: int) -> None:
        """Write records with the arguments of operators.

        Args:
            events: the events that Kineto recorded, with times of the wall clock.
            begun: time by our clock just before Kineto was stopped, ns.
        """
        recorder = self._host.recorder
        (first, first_wall), (last, last_wall) = self._before, self._clocks()
        rate = (last - first) / max(last_wall - first_wall, 1)
        self._windows += 1
        window = self._windows << 32
        operands, names, recorded = Operands(recorder, True), dict[str, int](), 0
        for event in sorted(events, key=lambda event: int(event.start_ns())):
            kind = category(event)
            if kind is None:
                continue
            text = event.name()
            name = names.get(text) or names.setdefault(text, recorder.intern(text))
            start = first + round((event.start_ns() - first_wall) * rate)
            arg = operands.argument(event) if kind == Category.OP else 0
            recorder.record(Kind.OPERANDS, kind, 0, name, start, window | event.device_resource_id(), arg)
            recorded += 1
        name = recorder.intern("shape window")
        recorder.record(Kind.SPAN, Category.PROFILER, 0, name, begun, recorder.now(), recorded)
