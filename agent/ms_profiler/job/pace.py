"""Choose the number of steps between two checks, so that the cost of checks does not depend on the length of a step."""

from ms_profiler.job.sources import NEVER


class Pace:
    """Set the number of steps between two checks: double it when checks are too close, halve it when they are too far
    apart.

    Args:
        pause: desired time between two checks, ns.
        least: smallest number of steps between two checks, and the first one.
        most: largest number of steps between two checks.
        slack: checks are too far apart from this multiple of `pause` on.
    """

    def __init__(self, pause: int, least: int = 1, most: int = NEVER, slack: int = 2) -> None:
        self._pause, self._least, self._most, self._slack = pause, least, most, slack
        #: steps from one look to the next
        self.steps = least
        #: time of the last look, ns; 0 before the first
        self.last = 0

    def adapt(self, now: int) -> bool:
        """Set the number of steps by the time since the last check; return whether that time is `pause` or more.

        Args:
            now: ns, of the recorder's clock.
        """
        if not self.last:
            return True
        passed = now - self.last
        if passed < self._pause:
            self.steps = min(2 * self.steps, self._most)
            return False
        if passed > self._slack * self._pause:
            self.steps = max(self.steps // 2, self._least)
        return True

    def looked(self, now: int) -> None:
        """Set the number of steps, and count a check.

        Args:
            now: ns, of the recorder's clock.
        """
        self.adapt(now)
        self.last = now
