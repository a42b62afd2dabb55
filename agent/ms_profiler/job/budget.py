"""Measure what recording costs the job, and keep this cost below the share `overhead_budget` of the time.

Disk space is limited, too. The less space is left for fine-grained records, the less time recording may take (see
`job/thrift.py`). So the space lasts until the end of even a very long job.
"""

import os
from typing import TYPE_CHECKING, Final

from ms_profiler.job import process, thrift
from ms_profiler.job.background import Background
from ms_profiler.job.bursts import HOOK, Bursts
from ms_profiler.job.frameworks import base
from ms_profiler.job.pace import Pace
from ms_profiler.job.sources import NEVER
from ms_profiler.store.format import Category, Kind
from ms_profiler.store.names import OWN_WORK, OWN_WORK_LEAST

if TYPE_CHECKING:
    from ms_profiler.job.host import Host

#: Number of steps before the first check of the cost of recording, and between the first check and the second one.
INTERVAL = 16
#: The first steps of a job are longer than the others. So the first check only ends the recording of all steps if it
#: takes more than this multiple of its share of the time. With a budget of 0.2 %, the next 16 steps would take half of
#: what 20,000 steps may take.
EXCESS: Final = 16
#: Shortest time between later checks of the cost of recording, ns. One check takes 50 us with cold caches.
PAUSE = 500_000_000
#: Time that hooks add to a step that is not sampled, ns = EACH + WHOLE * (time of their code in C). It was 13.1 us with
#: 3.9 us in C, and 3.1 us with 0.3 us in C (benchmarks/torch_hooks.py). The rest is Python's calls of hooks, and slower
#: code after them, because the hooks replace some of the job's memory in the caches.
EACH: Final = 2300
WHOLE: Final = 2.8
#: time of one call of a hook at rest, ns; 20 to 50 ns in alternating blocks of one loop (benchmarks/RESULTS.md)
AT_REST: Final = 35
#: a measured time is left out of a mean if it is more than this multiple of the median: the thread lost its processor.
#: In a job on a busy machine, one of 19 times was 10 ms, the others some 20 us
LONG: Final = 4
#: at most this part of the measured times is left out: more of them are no disturbance
LONGEST: Final = 0.1
#: how many times the plan begins anew because another source of steps is chosen
AGAIN: Final = 2
#: This part of `overhead_budget` is kept for what a process cannot measure of itself, such as colder caches. With a
#: budget of 5 %, pairs of whole processes showed some 1 point more than the process measured (benchmarks/RESULTS.md).
KEPT: Final = 0.1
#: Records get at least this part of `overhead_budget`, however much time the hooks take.
RECORDS: Final = 0.3
#: If the hooks would take more than this part of `overhead_budget`, they rest between bursts. If they would later take
#: less than half of this part, they do not rest any more.
RESTS: Final = 1 - RECORDS
#: The time of the hooks is computed anew after this number of further measured steps.
TIMED: Final = 16
#: unknown work between two steps counts as a cost up to this time, ns: longer work has waited for a processor
WAITED: Final = 1_000_000
#: Hooks rest if the schedule leaves out more than `IDLE` steps in a row, and `look` is called in each `LOOK` of them.
IDLE, LOOK = 32, 1024


def _middle(times: list[int]) -> int:
    return sorted(times)[len(times) // 2]


def _mean(times: list[int]) -> float:
    most, ordered = LONG * _middle(times), sorted(times)
    few = max(int(LONGEST * len(times)), 1)
    kept = ordered[:-few] + [time for time in ordered[-few:] if time <= most]
    return sum(kept) / len(kept)


def _whole(own: float) -> float:
    """Return the time that hooks add to a step, ns; `own` is the time of their code in C, ns."""
    return EACH + WHOLE * own


class Budget:
    """Record only a sample of the steps when fine-grained records take more than their share of the time.

    Args:
        host: the part of the session that records.
    """

    def __init__(self, host: "Host") -> None:
        self._host = host
        self._share = 0.0
        self._room = 1  # bytes on disk that fine-grained records may take, noted when recording starts
        self._records = 0  # number of records at the last check
        self._count = 0  # number of steps at the last check
        self._noted = 0  # time that `spend` has counted since the last call of `worked`, ns
        self._scheduled = 0  # number of recorded steps at the last check, if there is a schedule
        self._spent = 0  # time that recording took since the last check, besides writing records, ns
        self._pace = Pace(PAUSE, INTERVAL)
        self._background = Background(host.recorder)
        self._bursts: Bursts | None = None
        self._anew = False  # whether another source of steps was chosen
        self._times = 0  # how many times that was a reason to begin anew
        self._stretch = 0  # number of the stretch before the first one of `_bursts`
        self._idle = False  # whether hooks may rest because the schedule leaves out the next steps
        self._cost: dict[str, float] = {}
        self._timed = 0  # number of steps in which hooks had measured their time when recording started
        #: whether hooks rest -> time that the hooks add to a step that is not sampled, ns; 0 while it is unknown
        self._hooks = {False: 0.0, True: 0.0}
        #: whether hooks rest -> number of calls of hooks in a measured step, without those at rest
        self._calls = {False: 0, True: 0}
        #: number of measured steps when `_hooks` was computed, and whether hooks were at rest
        self._hooks_at, self._rested = 0, False
        #: name of a framework's own recorder -> estimated time that it takes in each step, ns
        self.expected: dict[str, float] = {}
        #: number of steps after which to call `look` next
        self.next_look = 0

    def open(self, share: float) -> None:
        """Measure the cost of a hook in this process, and begin to count.

        Args:
            share: share of the wall time that records and, as far as they are measured, hooks may take; 0: no limit.
        """
        self._share, self._times = share, 0
        # other processes of the job may have used a part of the space before this one starts
        self._room = max(self._host.limit // 2, self._host.recorder.room(), 1)
        self._background.begin()
        self._begin(0, 0)
        self._host.steps.on_exhausted = self._exhausted
        self._measure()

    def _begin(self, records: int, stretch: int) -> None:
        """Record all steps from now on, until the first check.

        Args:
            records: the number of records so far.
            stretch: the number of the stretch of these steps.
        """
        recorder, steps = self._host.recorder, self._host.steps
        self._records, self._count, self._spent, self._pace = records, steps.count, 0, Pace(PAUSE, INTERVAL)
        self._scheduled = steps.recorded
        self._timed, self._stretch = recorder.hook_times(NEVER)[0], stretch
        self._hooks, self._hooks_at, self._rested = {False: 0.0, True: 0.0}, self._timed, False
        self._host.sources.rest.end()
        recorder.fine(True)  # before `sample`: no step counts as sampled before all hooks record
        steps.sample(True, stretch)
        steps.long_ns = NEVER
        self.next_look = steps.count + INTERVAL if self._share > 0 else NEVER
        # an exception of the job may interrupt this function: then the next call of `look` calls it again
        self._bursts, self._anew = None, False

    def decided(self) -> int:
        """Begin anew at the end of the step if another source of steps is chosen: its steps are of another length.

        A closure of LBFGS may call a network 20 times. Until the optimizer has ended its first step, each of these
        calls may count as a step. A plan for such steps would sample none of a run with 60 steps of the optimizer.

        A script with a profiler of its own may change the source again and again. Each new plan begins with recorded
        steps, so there are at most `AGAIN` of them.

        Returns:
            The current time, ns.
        """
        if self._host.steps.count and self._times < AGAIN:
            self._times += 1
            self._anew, self._host.steps.next_look = True, 0  # 0: every source learns whether steps are sampled
        return self._host.recorder.now()

    def _measure(self) -> None:
        """Measure the cost of a hook: call an empty function with and without the hook.

        The recorder is paused meanwhile, so that no call is recorded. The recorder itself measures the cost of writing
        a record (`span_cost`). This function takes 0.3 ms.
        """

        def nothing() -> None:
            pass

        recorder, steps = self._host.recorder, self._host.steps
        hooked = base.recorded(self._host, "", Category.PROFILER)(nothing)
        now = recorder.now
        times = []
        try:
            recorder.pause(True)
            for _ in range(5):
                start = now()
                for _ in range(40):
                    hooked()
                middle = now()
                for _ in range(40):
                    nothing()
                times.append(((middle - start) - (now() - middle)) / 40)
        finally:
            recorder.pause(not steps.recording)
        idle = sorted(times)[len(times) // 2]
        self._cost = {"idle_ns": idle, "span_ns": idle + recorder.span_cost()}

    @property
    def cost(self) -> dict[str, float]:
        """Return the measured costs in ns.

        Returns:
            `idle_ns` and `span_ns` are costs of one hook, measured in a loop: while the recorder is paused, and while
            the hook records a span. `hooks_own_ns` is measured in the job: the time that the hooks' own code in C takes
            in a step that is not sampled. It is a mean without long times, because a thread may lose its
            processor inside of a hook.
            `hooks_steps` is the number of measured steps, at most the newest 1,024. `hooks_ns` is an estimate of the
            whole time that the hooks add to such a step, `EACH` + `WHOLE` * `hooks_own_ns`. `rest_ns` is the time
            that hooks at rest add to a step between bursts, `AT_REST` a call. These four are left out if no step was
            measured. `helper` is the share of a processor that the recorder's helper thread took.
        """
        _, times, _ = self._host.recorder.hook_times(self._timed)
        known = self._cost | {"helper": self._background.share}
        if not times:  # if the plan has begun anew, figures of the steps before must not stay
            return known | ({"hooks_steps": 0} if self._stretch else {})
        own = _mean(times)
        hooks = {"hooks_own_ns": own, "hooks_ns": _whole(own), "hooks_steps": len(times)}
        return known | hooks | {"rest_ns": self._rest_time()}

    def spend(self, ns: int, exchange: bool = False) -> None:
        """Count time that recording took besides writing records.

        Examples are the work of a source between two steps, and the work of a framework's own recorder.

        Args:
            ns: the time, in ns.
            exchange: whether it was needed to begin or to end a burst.
        """
        self._noted += ns
        if self._bursts is not None:
            self._bursts.spend(ns, exchange)
        else:
            self._spent += ns

    def worked(self, since_ns: int) -> bool:
        """Record the time since `since_ns` as work of ms-profiler, and count it, if it is `OWN_WORK_LEAST` or longer.

        Reading a small file takes 10 us on an idle machine, but 6 ms if the thread loses its processor.

        Args:
            since_ns: begin of ms-profiler's work between two steps, ns.

        Returns:
            Whether the time was recorded; it then belongs to neither step.
        """
        recorder = self._host.recorder
        now, noted, self._noted = recorder.now(), self._noted, 0
        if now - since_ns < OWN_WORK_LEAST:
            return False
        if self._bursts is not None:
            self._bursts.spend(min(max(now - since_ns - noted, 0), WAITED))
        recorder.record(Kind.SPAN, Category.PROFILER, 0, recorder.intern(OWN_WORK), since_ns, now, 0)
        return True

    def look(self, count: int) -> int:
        """Continue the sampling plan. If there is none, check whether recording has cost too much since the last check.

        Args:
            count: the number of steps so far.

        Returns:
            The number of steps after which to call this function next.
        """
        if self._idle and not self._host.steps.idle:
            self._host.sources.rest.end()
            self._idle = False
        if self._anew:
            last = self._stretch if self._bursts is None else self._bursts.stretch
            self._begin(self._host.recorder.stats().records, last + 1)
        if self._bursts is not None:
            self._continue_bursts(self._bursts, count)
        elif count >= self.next_look:
            self._check(count)
        return self.next_look

    def idle(self, count: int) -> int:
        """Let hooks rest while the schedule leaves out many steps.

        Args:
            count: the number of steps so far.

        Returns:
            The number of steps after which to call this function again, or `look`.
        """
        steps, rest = self._host.steps, self._host.sources.rest
        if steps.lone and steps.idle > IDLE:
            self._idle = True
            rest.begin(count)
        return count + (steps.idle if rest.resting else min(steps.idle, IDLE))

    def _check(self, count: int) -> None:
        host = self._host
        now, stats = host.recorder.now(), host.recorder.stats()
        records = stats.records
        scheduled = host.steps.schedule is not None
        recorded = host.steps.recorded - self._scheduled if scheduled else count - self._count
        if scheduled and recorded < INTERVAL:
            self.next_look = count + max(min(host.steps.idle, LOOK), INTERVAL - recorded)
            return
        then, computed, spent = self._pace.last, (records - self._records) * self._cost["span_ns"], self._spent
        spent += self._background.take(stats.helper_ns)
        before, self._records, self._count, self._spent = self._count, records, count, 0
        self._pace.looked(now)
        self.next_look = count + self._pace.steps
        steps, self._scheduled = count - before, host.steps.recorded
        passed = now - then if then else _middle(host.steps.lengths(steps) or [0]) * steps
        taken = computed * HOOK + sum(self.expected.values()) * recorded + spent
        share, _ = self._affordable(passed / steps)
        if taken <= share * passed * (1 if then else EXCESS) or not passed:
            return
        debt, each = taken - share * passed, taken / max(recorded, 1) / HOOK
        usual = max((passed - taken) / steps, passed / steps / 4)
        self._bursts = Bursts(share, count, now, debt, each, usual, host.steps.lengths, process.launch(os.environ))
        self._bursts.budget, self._bursts.stretch = self._share, self._bursts.stretch + self._stretch
        self._settle(self._bursts)
        host.save()

    def _continue_bursts(self, bursts: Bursts, count: int) -> None:
        host, now = self._host, self._host.recorder.now()
        if count >= bursts.next_look:
            if bursts.compare(count, now):
                self.next_look = bursts.next_look
                return
            stats = host.recorder.stats()
            records = stats.records
            each = (records - self._records) * self._cost["span_ns"] / max(count - self._count, 1)
            each += sum(self.expected.values()) / HOOK
            self._records, self._count = records, count
            bursts.owe(self._background.take(stats.helper_ns))
            bursts.share, bursts.over = self._affordable(bursts.usual)
            bursts.passed(count, now, each)
        elif host.steps.last_ns > host.steps.long_ns:
            bursts.slow(count, now)
        elif self.next_look == bursts.next_look:  # else an exception of the job has ended the last call of `_settle`
            return
        self._settle(bursts)

    def _affordable(self, step_ns: float) -> tuple[float, float]:
        """Return two shares of the time: that of records from now on, and that of hooks and records beyond the budget.

        Records get the budget without `KEPT` and the time of the hooks, but at least the part `RECORDS` of it.

        Args:
            step_ns: mean duration of a step, ns; without the time of records, once steps are sampled.
        """
        hooks = self._hook_time() / max(step_ns, 1.0)
        rest = max(self._share * (1 - KEPT) - hooks, self._share * RECORDS)
        over = max(hooks - RESTS * self._share, 0.0)
        return rest * thrift.factor(self._host.recorder.room() / self._room), over

    def _hook_time(self) -> float:
        """Return the time that the hooks add to a step that is not sampled, ns; 0 while it is unknown."""
        resting = self._host.sources.rest.resting
        if not self._host.steps.marks.sampled and resting is not self._rested:
            self._rested, self._hooks_at = resting, self._host.recorder.hook_times(NEVER)[0]
        count, times, calls = self._host.recorder.hook_times(self._hooks_at)
        if len(times) >= TIMED:
            self._calls[self._rested] = calls
            self._hooks[self._rested], self._hooks_at = _whole(_middle(times)), count
        return self._hooks[self._rested] + (self._rest_time() if self._rested else 0)

    def _rest_time(self) -> float:
        """Return the time that the hooks at rest add to a step, ns."""
        return AT_REST * max(self._calls[False] - self._calls[True], 0)

    def _rests(self, step_ns: float) -> bool:
        """Return whether hooks have to rest between bursts.

        Args:
            step_ns: usual duration of a step, ns.
        """
        most = self._share * RESTS * step_ns * (0.5 if self._rested else 1.0)
        return self._hooks[False] > most and self._host.steps.lone != 0

    def _exhausted(self) -> None:
        """Note after the last batch of a dataset that the job has worked since the last step, if no hook noted it."""
        if self._host.sources.rest.resting and self._host.steps.running is not None:
            self._host.steps.began(self._host.recorder.now())

    def _settle(self, bursts: Bursts) -> None:
        """Apply the sampling plan to the next steps."""
        steps, begun = self._host.steps, self._host.recorder.now()
        # an exception of the job may interrupt this function: no step counts as sampled before all hooks record
        if not bursts.sampled:
            steps.sample(False, bursts.stretch)
        self._settle_hooks(bursts)
        self.spend(self._host.recorder.now() - begun, exchange=True)
        self._host.recorder.fine(bursts.sampled)
        if bursts.sampled:
            steps.sample(True, bursts.stretch)
        steps.long_ns, self.next_look = bursts.long_ns, bursts.next_look

    def _settle_hooks(self, bursts: Bursts) -> None:
        """Let the hooks record in a burst, and rest after it if they cost too much."""
        rest, count = self._host.sources.rest, self._host.steps.count
        if self._idle:
            return  # the schedule leaves out the next steps
        if not bursts.sampled and self._rests(bursts.usual) and not bursts.inverse:
            rest.begin(count)
        else:
            rest.end(0 if bursts.sampled else count)
