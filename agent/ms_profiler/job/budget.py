"""Measure the cost of recording in the job itself, and enforce the limit `overhead_budget`."""

from typing import TYPE_CHECKING

from ms_profiler.job.frameworks import base
from ms_profiler.job.pace import Pace
from ms_profiler.job.sources import NEVER
from ms_profiler.store.format import Category

if TYPE_CHECKING:
    from ms_profiler.job.host import Host

#: Steps between the first two checks of the cost.
INTERVAL = 16
#: ns between two later ones, or more: a look takes 50 us where caches are cold.
PAUSE = 500_000_000


class Budget:
    """Stop fine-grained records when they take more than their share of the time.

    Args:
        host: that records.
    """

    def __init__(self, host: "Host") -> None:
        self._host = host
        self._share = 0.0
        self._records = 0  # at the last look
        self._pace = Pace(PAUSE, INTERVAL)
        self._on = False  # fine-grained records are on, and may have to go
        #: cost of one hook, ns: {"idle_ns": while nothing is recorded, "span_ns": with a span}
        self.cost: dict[str, float] = {}
        #: number of steps from which on `look` is to be called
        self.due = 0

    def open(self, share: float) -> None:
        """Measure the cost of a hook in this process, and begin to count.

        Args:
            share: share of the wall time that recording may take; 0 is no limit.
        """
        self._share, self._on = share, share > 0
        self._records, self._pace = 0, Pace(PAUSE, INTERVAL)
        self.due = self._host.steps.count + INTERVAL
        self._measure()

    def _measure(self) -> None:
        """Measure calls of a wrapped function that does nothing, paused: 200 calls take 0.3 ms.

        The recorder measures the cost of a record in memory of its own.
        """

        def nothing() -> None:
            pass

        recorder, steps = self._host.recorder, self._host.steps
        hooked = base.recorded(self._host, "", Category.PROFILER)(nothing)
        now = recorder.now
        recorder.pause(True)
        times = []
        for _ in range(5):
            start = now()
            for _ in range(40):
                hooked()
            middle = now()
            for _ in range(40):
                nothing()
            times.append(((middle - start) - (now() - middle)) / 40)
        recorder.pause(not steps.recording)
        idle = sorted(times)[len(times) // 2]
        self.cost = {"idle_ns": idle, "span_ns": idle + recorder.span_cost()}

    def look(self, count: int) -> int:
        """Check whether the records since the last check cost too much; return the step of the next check.

        Args:
            count: steps so far.
        """
        if self._on and count >= self.due:
            self._check(count)
            self.due = count + self._pace.steps
        return self.due if self._on else NEVER

    def _check(self, count: int) -> None:
        host = self._host
        now, records = host.recorder.now(), host.recorder.stats().records
        then, before = self._pace.last, self._records
        self._pace.looked(now)
        self._records = records
        if then and (records - before) * self.cost["span_ns"] > self._share * (now - then):
            host.recorder.fine(False)
            self._on = False
            host.not_collected(
                f"module and operator spans from step {count} on",
                f"recording them took more than overhead_budget, {self._share:.0%} of the time; 0 turns this limit off",
            )
            host.save()
