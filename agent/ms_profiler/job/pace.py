"""Choose the number of steps between two checks, so that checks cost the same with short steps and with long steps."""

from ms_profiler.job.sources import NEVER


class Pace:
    """Adapt the number of steps between two checks: double it if checks come too soon, halve it if they come too late.

    Args:
        pause: desired time between two checks, ns.
        least: smallest number of steps between two checks; also the number before the first check.
        most: largest number of steps between two checks.
        slack: if the time between two checks is more than this multiple of `pause`, checks come too late.
    """

    def __init__(self, pause: int, least: int = 1, most: int = NEVER, slack: int = 2) -> None:
        self._pause, self._least, self._most, self._slack = pause, least, most, slack
        #: number of steps between two checks
        self.steps = least
        #: time of the last check, ns; 0 before the first
        self.last = 0

    def adapt(self, now: int) -> bool:
        """Adapt `steps` to the time since the last check; return whether that time is `pause` or more.

        Args:
            now: time of the recorder's clock, ns.
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
        """Note that a check was made, and adapt the number of steps until the next check.

        Args:
            now: time of the check by the recorder's clock, ns.
        """
        self.adapt(now)
        self.last = now
