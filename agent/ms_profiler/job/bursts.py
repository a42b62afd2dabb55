"""Choose the steps to sample where recording all of them costs too much.

The run is divided into stretches: groups of consecutive steps. In each stretch, one burst of consecutive steps is
sampled. The burst has a random position, so that a periodic pattern of the job does not distort the sample. All ranks
of a job choose the same positions (`positions.py`).

    cost of recording a step = length of a sampled step - length of an unsampled step of the same stretch

Recording may take a certain share of the time. Each stretch is so long that its burst stays within this share. If the
share allows recording of nearly all steps, the burst is inverted: only the steps of the burst are not sampled.

A stretch may have thousands of steps, and their length may change meanwhile. So blocks of steps are compared within a
stretch, too. If the length of steps has changed, the stretch ends early, and the next stretches are shorter.

Two words are used below. balance: the sum of (share * time - cost of recording) over all stretches, in ns. rate: the
part of the share that the next stretch may take.
"""

import math
from collections import deque
from collections.abc import Callable

from ms_profiler.job.levels import Levels
from ms_profiler.job.positions import Positions, power
from ms_profiler.job.sources import NEVER

#: Smallest and largest number of steps of a burst, a group of steps that are sampled one after another. Between the two
#: limits, the number is 4 * (cost of beginning and ending a burst) / (cost of recording a step). For PyTorch's
#: operators, the begin takes 0.5 us, the end 0.7 us, and the next operator of each thread 1 us more.
LEAST, MOST = 8, 64
#: Number of steps of a burst while recording has spent its share of the time and its loan. Two bursts of four steps at
#: two places say more about the run than one burst of eight, and take the same time.
SPENT = 4
#: LONGEST: largest number of steps of a stretch, in which one burst is sampled. PROBE and PROBE_MOST: smallest and
#: largest number of steps of a stretch with an inverted burst, that is, of which all steps but the burst are sampled.
LONGEST, PROBE, PROBE_MOST = 1 << 16, 128, 1 << 13
#: A stretch, in which one burst is sampled, has at most (steps so far) / SPREAD steps, if a burst takes less than the
#: part CHEAP of the time so far. So the last quarter of a long run has several bursts, even if recording has spent its
#: share of the time. If hooks alone exceed the budget, the limit is (steps so far) / FAR, so that the loan lasts for
#: steps after a change. Then 1 % of the runs have no burst in the last quarter, if the length of steps does not change.
#: In 30 simulated runs of 20,000 steps with a change at step 15,000, half of them had 32 or more sampled steps soon
#: after it; with SPREAD, four. For a burst that takes more, the limit is (steps so far) / PART, or (steps so far) if
#: recording has spent its share of the time and its loan.
PART, SPREAD, FAR, CHEAP = 2, 8, 4, 0.0006
#: Recording may take a loan: LOAN * (time of the run) beyond its share of the time. It needs this loan before its cost
#: is known, and after the length of steps has changed (see LENT). With 0.0012, two ranks with other costs shared 87 %
#: of their sampled steps, and 97 % with 0.0016.
LOAN = 0.0016
#: After max(BLOCK, (steps so far) / BLOCKS) unsampled steps, their length is compared with the usual length of steps.
#: A comparison takes LOOK ns, and all comparisons may take the part LOOKS of the budget.
BLOCK, BLOCKS, LOOK, LOOKS = 128, 32, 120_000, 0.25
#: After the length of steps has changed, LENT stretches are short, (steps so far) / SHORT steps, so that the records
#: soon show what has changed. They are short even if the loan is spent, but then only LEAST steps of each are sampled.
#: To notice another change takes six blocks of steps (`job/levels.py`). On a disturbed machine, the length of steps
#: changes all the time: so these stretches are short only until recording has taken DEBT * (time of the run) beyond its
#: share of the time. Without this limit, a run with a budget of 0.2 % paid 1.3 %.
LENT, SHORT, DEBT = 6, 64, 0.004
#: If hooks alone exceed the budget, LOAN and DEBT are lower, so that hooks and records exceed it by at most OVER of the
#: time. With 0.0045, the layer that changed was named in one of three real runs. But LOAN and DEBT stay at least FEWEST
#: times as high: a run of ten seconds then has 50 sampled steps of 0.5 ms.
OVER, FEWEST = 0.005, 0.25
#: The part of recording's share of the time that bursts may take: CALM usually, REPAYING after recording has taken more
#: than its share, ALERT after the length of steps has changed.
CALM, REPAYING, ALERT = 0.7, 0.4, 2.0
#: After the length of steps has changed, or after a slow step, more steps are sampled (rate ALERT) in this number of
#: stretches, that is, groups of steps.
ALERTED = 8
#: COMPARED: from this number of measured costs on, their trimmed mean replaces the computed cost. REMEMBERED: the
#: number of newest measured costs that are kept.
COMPARED, REMEMBERED = 5, 31
#: The highest and the lowest 1 / TRIMMED of the measured costs do not count in their mean. In two runs of 16,000 steps,
#: this mean was 6 and 8 % below the plain one, and the median 13 and 18 %: some bursts cost three times the usual.
TRIMMED = 10
#: (whole cost of recording an operator, including PyTorch's own hook) / (the recorder's part of that cost)
HOOK = 3.0
#: A measured cost counts as at most BELIEVED * HOOK * (computed cost). On a disturbed machine, measured costs vary by
#: more than that: in one hour, the first three bursts of a run seemed to cost 5.8, 0.6 and 2.1 ms a step. The median of
#: their steps was only 0.2 ms longer than that of their neighbours, and HOOK * (computed cost) was 0.14 ms. So the last
#: 2,700 of 5,000 steps had no burst.
BELIEVED = 8.0
#: Steps do other work if the computed cost of a burst, which follows from its number of records, differs by OTHER from
#: that of the burst before, while the two bursts before it differ by no more than SAME. On a busy machine, the length
#: of steps does not show that a layer does its work twice, but the number of records does.
OTHER, SAME = 0.02, 0.005
#: The balance is the time that recording was allowed to take and has not taken. It is at most
#: SAVED * (cost of recording a step).
SAVED = 256
#: A step is slow if length > LONG * usual. More steps are sampled after a stretch with
#: |length - usual| > CHANGED * usual.
LONG, CHANGED = 1.7, 0.08
#: A stretch is a group of steps of which one burst is sampled. It has four marks: begin of the burst, end of the burst,
#: one step later, and end of the stretch. Item i is the kind of the steps before mark i: 0 for steps outside of the
#: burst, 1 for the burst, 2 for the step after the burst.
_PARTS = (0, 1, 2, 0)


class Bursts:
    """Plan stretches, which are groups of consecutive steps, and the burst of steps to sample in each stretch.

    The caller calls `passed` after step `next_look`.

    Args:
        share: the share of the time that recording may take, from 0 to 1.
        count: the number of steps so far.
        now: the current time, ns.
        debt_ns: time that recording has taken beyond its share so far, ns.
        cost_ns: cost of recording a step, ns, computed from the records so far.
        step_ns: duration of a step without the cost of recording, ns.
        lengths: returns the durations of a number of last steps, ns; or of fewer, if it does not know as many.
        seed: number that all ranks of a job have in common.
    """

    def __init__(
        self,
        share: float,
        count: int,
        now: int,
        debt_ns: float,
        cost_ns: float,
        step_ns: float,
        lengths: Callable[[int], list[int]],
        seed: int,
    ) -> None:
        #: share of the time that recording may take from now on
        self.share = share
        #: share of the time that ms-profiler may take, hooks and comparisons of steps included
        self.budget = share
        #: share of the time by which hooks and `share` together exceed the budget
        self.over = 0.0
        #: whether the steps of the burst are those that are not sampled
        self.inverse = False
        self._positions = Positions(seed)
        self._balance, self._computed, self._usual = -debt_ns, cost_ns, step_ns
        self._extra: deque[float] = deque(maxlen=REMEMBERED)
        self._works: deque[float] = deque(maxlen=3)  # computed costs of the newest bursts
        self._fixed = 0.0  # time to begin and to end a burst, ns
        self._alert = 0  # number of further stretches in which more steps are sampled (rate ALERT)
        self._deaf = False  # after a slow step, further slow steps are ignored until a whole stretch has ended
        self._probe = PROBE
        self._began = now
        self._lent = 0  # number of further stretches that are short, because the length of steps has changed
        self._lengths, self._levels = lengths, Levels()
        self._moved = False  # whether a change of the length of steps was noticed, and no new stretch has begun yet
        #: number of the current stretch of steps
        self.stretch = 0
        #: whether the next steps are sampled
        self.sampled = True
        #: number of steps after which to call `passed` next
        self.next_look = 0
        self._begin(count, now)

    @property
    def cost(self) -> float:
        """Return the cost of recording a step, ns.

        At first this is `HOOK` * (computed cost), or the median of the measured costs if that is larger. With
        `COMPARED` or more measured costs, this is their trimmed mean plus the standard error of the median, and at
        least the computed cost. For a normal distribution, the standard error is 0.93 * (upper quartile - lower
        quartile) / sqrt(number of costs) (Kendall and Stuart, The Advanced Theory of Statistics 1, 10.12). The result
        is at most `BELIEVED` * `HOOK` * (computed cost).
        """
        found, count = sorted(self._extra), len(self._extra)
        expected = self._computed * HOOK
        if count < COMPARED:
            cost = max(expected, found[count // 2] if found else 0.0)
        else:
            error = 0.93 * (found[3 * count // 4] - found[count // 4]) / math.sqrt(count)
            out = max(count // TRIMMED, 1)
            cost = max(self._computed, sum(found[out : count - out]) / (count - 2 * out) + error)
        return max(min(cost, BELIEVED * expected) if expected else cost, 1.0)

    @property
    def usual(self) -> float:
        """Return the usual duration of an unsampled step, ns."""
        return self._usual

    @property
    def long_ns(self) -> int:
        """Return the length, in ns, above which an unsampled step counts as slow."""
        return NEVER if self._deaf or not self._comparable else int(LONG * self._usual)

    def spend(self, ns: int, exchange: bool = False) -> None:
        """Count `ns` nanoseconds that recording took between two steps; `exchange`: to begin or to end a burst."""
        self._spent += ns
        self._since += ns
        self._exchanged += ns if exchange else 0

    def owe(self, ns: int) -> None:
        """Count `ns` nanoseconds that recording took beside the steps, on another thread."""
        self._balance -= ns

    def slow(self, count: int, now: int) -> None:
        """Sample more steps after a slow step: the current group of steps ends here, and shorter groups follow.

        Args:
            count: the number of steps so far.
            now: the current time, ns.
        """
        self._deaf = True
        if not self.inverse and self._balance > 0:
            self._end(count, now)
            self._alert = ALERTED
            self._begin(count, now)

    def compare(self, count: int, now: int) -> bool:
        """Compare the length of the last unsampled steps with the usual one, after step `next_look`.

        Args:
            count: the number of steps so far.
            now: the current time, ns.

        Returns:
            Whether this was all that is due; otherwise the caller must call `passed`.
        """
        if count >= self._marks[self._place] or self._changed(count):
            return False
        self._reach(count, now)
        self.next_look = self._next(count)
        return True

    def passed(self, count: int, now: int, computed_ns: float) -> None:
        """Continue the plan after step `next_look`.

        Args:
            count: the number of steps so far.
            now: the current time, ns.
            computed_ns: cost of recording one step, ns, computed from the number of records since the last call.
        """
        if self.sampled:
            self._computed = computed_ns
            if self._other_work():
                # the stretch ends after the step that follows the burst, and short stretches begin
                self._lent, self._alert, self._marks[3] = LENT, ALERTED, self._marks[2]
        if self._changed(count):
            self._restart(count, now)
        elif count < self._marks[-1]:
            self._reach(count, now)
            self.next_look = self._next(count)
        else:
            self._end(count, now)
            self._deaf = False
            self._begin(count, now)

    @property
    def _comparable(self) -> bool:
        """Return whether the last steps are neither sampled nor the step after a burst."""
        return not self.sampled and self._place != 2

    def _changed(self, count: int) -> bool:
        """Return whether the length of the last unsampled steps differs from the usual one."""
        if not self._comparable:
            return False
        self._moved = self._moved or self._levels.changed(self._lengths(count - self._at))
        return self._moved

    def _other_work(self) -> bool:
        """Return whether the burst that ends has another number of records than the two bursts before it."""
        self._works.append(self._computed)
        if self.inverse or len(self._works) < 3:
            return False
        first, second, third = self._works
        return abs(second - first) <= SAME * first and abs(third - second) >= OTHER * second

    def _next(self, count: int) -> int:
        """Return the number of steps after which to call `passed` next: to switch sampling, or to compare steps."""
        mark = self._marks[self._place]
        if not self._comparable:
            return mark
        block = int(LOOK / max(LOOKS * self.budget * self._usual, 1.0))
        return min(mark, count + max(BLOCK, count // BLOCKS, block))

    def _restart(self, count: int, now: int) -> None:
        """Begin a new stretch, so that steps before and after a change of their length are in different stretches.

        Args:
            count: the number of steps so far.
            now: the current time, ns.
        """
        self._moved = False
        usual = (now - self._since) / max(count - self._at, 1)  # in the last block
        self._end(count, now)
        self._usual, self._alert, self._lent = usual, ALERTED, LENT
        self._begin(count, now)

    def _credit(self, loan: float, now: int) -> bool:
        """Return whether recording has taken less time than its share and its loan.

        Args:
            loan: the loan as a part of the time of the run, if hooks take no more than the budget.
            now: the current time, ns.
        """
        left = min(max((OVER - self.over) / DEBT, FEWEST), 1.0)
        return self._balance + left * loan * (now - self._began) > 0

    def _gained(self) -> float:
        """Return what this stretch has added to the balance so far, ns: share * time - cost of recording."""
        others, own, after = self._steps
        sampled = others + after if self.inverse else own
        return self.share * (sum(self._times) + self._spent) - sampled * self.cost - self._spent

    def _begin(self, count: int, now: int) -> None:
        """Plan the next stretch of steps, with the burst of steps to sample at a random position.

        Args:
            count: the number of steps so far.
            now: the current time, ns.
        """
        credit, cost = self._credit(LOAN, now), self.cost
        lent, self._lent = self._lent > 0 and self._credit(DEBT, now), max(self._lent - 1, 0)
        burst = power(max(LEAST, min(MOST, int(4 * self._fixed / cost))))
        if not credit:
            burst = LEAST if lent else SPENT
        rate = CALM if self._balance >= 0 else REPAYING
        if self._alert and (self._balance > 0 or lent):
            rate, self._alert = ALERT, self._alert - 1
        price = burst * cost + self._fixed
        length = int(price / max(rate * self.share * self._usual, 1.0)) + 1
        self.inverse = cost < CALM * self.share * self._usual
        if self.inverse:
            burst, length = LEAST, self._probe
        # Limit the length: after one noisy measurement, a stretch could last until the end of the run.
        cheap = not self.inverse and price <= CHEAP * (now - self._began)
        spread = FAR if self.over else SPREAD
        most = max(PROBE, count // spread if cheap else count // PART if credit else count)
        if lent:
            most = min(most, max(PROBE, count // SHORT))
        most = max(min(most, LONGEST), 2 * burst)
        begin, end = self._positions.stretch(count, max(length, 2 * burst), most, burst, self.inverse)
        self.stretch += 1
        self.sampled = self.inverse
        # Fine-grained records are switched off during the step after a burst. So that step is counted separately.
        self._marks, self._place = [begin, begin + burst, begin + burst + 1, end], 0
        self._steps, self._times, self._spent, self._exchanged = [0, 0, 0], [0, 0, 0], 0, 0
        self._at, self._since = count, now
        self._turn(count)
        self.next_look = self._next(count)

    def _reach(self, count: int, now: int) -> None:
        part = _PARTS[self._place]
        self._steps[part] += count - self._at
        self._times[part] += now - self._since
        self._at, self._since = count, now
        self._turn(count)

    def _turn(self, count: int) -> None:
        while self._place < 3 and count >= self._marks[self._place]:
            if self._place < 2:
                self.sampled = not self.sampled
            self._place += 1

    def _end(self, count: int, now: int) -> None:
        """End the stretch: measure the length of its unsampled steps, and the cost of recording a step.

        Args:
            count: the number of steps so far.
            now: the current time, ns.
        """
        self._reach(count, now)
        (others, own, after), (others_ns, own_ns, after_ns) = self._steps, self._times
        if others and own:
            beside = others_ns / others
            if self.inverse:
                self._extra.append(beside - own_ns / own)
            else:
                self._extra.append((own_ns + after_ns - beside * (own + after)) / own)
            self._fixed = float(self._exchanged)
        self._balance = min(self._balance + self._gained(), SAVED * self.cost)
        if not others:
            return
        usual = others_ns / others - (self.cost if self.inverse else 0.0)
        if abs(usual - self._usual) > CHANGED * self._usual:
            self._alert = ALERTED
        self._usual = max(usual, 1.0)
        if self.inverse and len(self._extra) >= COMPARED and self.cost < self.share * self._usual:
            self._probe = min(2 * self._probe, PROBE_MOST)
