"""Plan when MindSpore's dataset profiler takes samples: in short windows, with pauses that grow."""

from typing import Final

from ms_profiler import clock

#: WINDOW: time during which samples are taken before a pause, s. PAUSE: length of the first pause, s. Each later pause
#: is twice as long as the one before.
WINDOW: Final = 20.0
PAUSE: Final = 2.0
#: Largest number of batches in a window. The limit is for memory: MindSpore keeps 300 bytes for each batch.
BATCHES: Final = 20_000


class SamplingPlan:
    """Divide the time of a run into windows, in which samples are taken, and pauses."""

    def __init__(self) -> None:
        self.pause = PAUSE
        self._began = (0.0, 0)  # begin of the window, and number of batches before it
        self._spent = 0.0  # length of all windows since the last pause, s
        self._resume = 0.0
        self._called = (0.0, 0)  # time and number of steps at the last call of `next_look`

    @property
    def paused(self) -> bool:
        """Return whether a pause lasts, in which no window begins."""
        return clock.monotonic() < self._resume

    def begin(self, batches: int) -> None:
        """Note the begin of a window; `batches` is the number of batches so far."""
        self._began = (clock.monotonic(), batches)

    def over(self, batches: int) -> bool:
        """Return whether the window has lasted long enough; `batches` is the number of batches so far."""
        since, before = self._began
        return clock.monotonic() - since >= WINDOW or batches - before >= BATCHES

    def end(self) -> None:
        """Note the end of a window; if the windows since the last pause took `WINDOW` seconds, begin a pause."""
        now = clock.monotonic()
        self._spent += now - self._began[0]
        if self._spent >= WINDOW:
            self._spent = 0.0
            self._resume = now + self.pause
            self.pause *= 2

    def restart(self) -> None:
        """Forget the measured rate of steps, because another pipeline begins."""
        self._called = (0.0, 0)

    def next_look(self, steps: int) -> int:
        """Return the number of steps that will have run in about one second; `steps` have run so far."""
        now = clock.monotonic()
        then, before = self._called
        self._called = (now, steps)
        stride = int((steps - before) / (now - then)) if then and now > then else 1
        return steps + min(max(stride, 1), BATCHES // 10)
