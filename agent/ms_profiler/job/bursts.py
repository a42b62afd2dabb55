"""Choose the steps to sample where recording all of them costs too much.

The run is cut into stretches of consecutive steps. In each stretch one burst of steps is sampled, at a random place. So
each step of a stretch is equally likely, whatever rhythm the job has. The cost of a sampled step is measured by
comparison with its neighbours, which are not sampled. A stretch is so long that its burst stays within the share. Where
all steps may be sampled, the burst is inverted: some steps are left out to measure the others.
"""

import math
import os
from collections import deque

from ms_profiler.job.sources import NEVER

#: steps of a burst, least and most: more where sources take more than a quarter of it at its ends. Switching PyTorch's
#: hooks took 0.3 ms of the first step and 0.25 ms of the one after the last, beside 0.2 ms for the records of a step
LEAST, MOST = 8, 64
#: largest number of steps of a stretch; smallest and largest number in a stretch that leaves some steps out
LONGEST, PROBE, PROBE_MOST = 1 << 16, 128, 1 << 13
#: longest stretch, as a part of all steps so far
PART = 2
#: part of the share that bursts spend: while nothing changes; after more than the share was spent; while steps change
CALM, REPAYING, ALERT = 0.7, 0.4, 2.0
#: stretches for which the rate stays up after a change
ALERTED = 8
#: comparisons with neighbours before the measured cost replaces the computed one; their median counts
COMPARED, REMEMBERED = 5, 31
#: cost of an operator with PyTorch's own hook, relative to the recorder's part of that cost
HOOK = 3.0
#: sampled steps that may be saved up for a change
SAVED = 256
#: a step is slow from this multiple of the usual length on; steps have changed from this relative change on
LONG, CHANGED = 1.7, 0.08
#: parts of a stretch: other steps, the burst, the step after the burst
_PARTS = (0, 1, 2, 0)


class Dice:
    """A private source of random numbers: the job's own generators are not touched, not even by an import."""

    def __init__(self) -> None:
        self._state = int.from_bytes(os.urandom(8), "little")

    def below(self, bound: int) -> int:
        """Return a random number from 0 to below `bound`: splitmix64, https://prng.di.unimi.it/splitmix64.c."""
        mask = (1 << 64) - 1
        self._state = mixed = (self._state + 0x9E3779B97F4A7C15) & mask
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & mask
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & mask
        return (mixed ^ (mixed >> 31)) * bound >> 64


class Bursts:
    """Plan stretches and their bursts; the caller reports the time at the steps that the plan names.

    Args:
        share: the share of the time that recording may take.
        count: the number of steps so far.
        now: ns.
        debt_ns: time that recording has taken beyond its share so far.
        cost_ns: cost of recording a step, as computed from its records.
        step_ns: duration of a step.
    """

    def __init__(self, share: float, count: int, now: int, debt_ns: float, cost_ns: float, step_ns: float) -> None:
        #: share of the time from here on that recording may take
        self.share = share
        self._dice = Dice()
        self._balance, self._computed, self._usual = -debt_ns, cost_ns, step_ns
        self._extra: deque[float] = deque(maxlen=REMEMBERED)
        self._fixed = 0.0  # ns to begin and to end a burst
        self._alert = 0  # stretches for which the rate stays up
        self._deaf = False  # do not react to slow steps until a stretch has shown how long steps are now
        self._probe = PROBE
        #: number of the current stretch
        self.stretch = 0
        #: the steps from here on are sampled
        self.sampled = True
        #: number of steps from which on `passed` is to be called
        self.next_look = 0
        self._begin(count, now)

    @property
    def cost(self) -> float:
        """Return the cost of recording a step, ns: the median of the comparisons with neighbours, once there are
        enough.

        The standard error of the median is added, for a normal distribution: 0.93 times the distance of the quartiles,
        divided by the root of the number of comparisons (Kendall and Stuart, The Advanced Theory of Statistics 1,
        10.12).
        """
        found, count = sorted(self._extra), len(self._extra)
        if count < COMPARED:
            return max(self._computed * HOOK, found[count // 2] if found else 0.0, 1.0)
        error = 0.93 * (found[3 * count // 4] - found[count // 4]) / math.sqrt(count)
        return max(self._computed, found[count // 2] + error, 1.0)

    @property
    def long_ns(self) -> int:
        """Return the duration from which on a step that is not sampled counts as slow, ns."""
        return NEVER if self.sampled or self._deaf or self._place == 2 else int(LONG * self._usual)

    def spend(self, ns: int) -> None:
        """Count time that recording took between two steps."""
        self._spent += ns
        self._since += ns

    def slow(self, count: int, now: int) -> None:
        """Raise the rate after a slow step: the stretch ends here, and shorter ones follow.

        Args:
            count: the number of steps so far.
            now: ns.
        """
        self._deaf = True
        if not self._inverse and self._balance > 0:
            self._end(count, now)
            self._alert = ALERTED
            self._begin(count, now)

    def passed(self, count: int, now: int, computed_ns: float) -> None:
        """Continue the plan after the step that it named.

        Args:
            count: the number of steps so far.
            now: ns.
            computed_ns: computed cost of the records of each step since the last call.
        """
        if self.sampled:
            self._computed = computed_ns
        if count < self._marks[-1]:
            self._reach(count, now)
            self.next_look = self._marks[self._place]
        else:
            self._end(count, now)
            self._deaf = False
            self._begin(count, now)

    def _begin(self, count: int, now: int) -> None:
        """Draw the next stretch."""
        burst = max(LEAST, min(MOST, int(4 * self._fixed / self.cost)))
        rate = CALM if self._balance >= 0 else REPAYING
        if self._alert and self._balance > 0:
            rate, self._alert = ALERT, self._alert - 1
        price = burst * self.cost + self._fixed
        length = max(int(price / max(rate * self.share * self._usual, 1.0)), 2 * burst) + 1
        self._inverse = self.cost < CALM * self.share * self._usual
        if self._inverse:
            burst, length = LEAST, self._probe
        # one noisy comparison must not exclude the rest of the run
        most = max(PROBE, count // PART) if len(self._extra) >= COMPARED else PROBE
        length = min(length, LONGEST, max(most, 2 * burst + 1))
        begin = count + self._dice.below(length - burst + 1)
        self.stretch += 1
        self.sampled = self._inverse
        # in the step after a burst records are switched off
        self._marks, self._place = [begin, begin + burst, begin + burst + 1, count + length], 0
        self._steps, self._times, self._spent = [0, 0, 0], [0, 0, 0], 0
        self._at, self._since = count, now
        self._turn(count)
        self.next_look = self._marks[self._place]

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
        """Measure the stretch that ends: the length of the neighbours, and the extra time of a sampled step.

        Args:
            count: the number of steps so far.
            now: ns.
        """
        self._reach(count, now)
        (others, own, after), (others_ns, own_ns, after_ns), share = self._steps, self._times, self.share
        sampled = others + after if self._inverse else own
        if others and own:
            beside = others_ns / others
            if self._inverse:
                self._extra.append(beside - own_ns / own)
            else:
                self._extra.append((own_ns + after_ns - beside * (own + after)) / own)
            self._fixed = float(self._spent)
        elapsed = others_ns + own_ns + after_ns + self._spent
        self._balance += share * elapsed - sampled * self.cost - self._spent
        self._balance = min(self._balance, SAVED * self.cost)
        if not others:
            return
        usual = others_ns / others - (self.cost if self._inverse else 0.0)
        if abs(usual - self._usual) > CHANGED * self._usual:
            self._alert = ALERTED
        self._usual = max(usual, 1.0)
        if self._inverse and len(self._extra) >= COMPARED and self.cost < share * self._usual:
            self._probe = min(2 * self._probe, PROBE_MOST)
