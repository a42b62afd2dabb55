"""Count the processor time of the recorder's helper thread as a cost of recording."""

from ms_profiler.job.recorder.contract import Recorder


class Background:
    """Measure the processor time that the recorder's helper thread takes while a session records.

    The helper thread makes files for records, and reads counters of the system. A job that computes on all processors
    waits meanwhile. In pairs of jobs with one processor each, the helper took 0.4 % of it (benchmarks/RESULTS.md). If
    another processor is idle, the job pays less.

    Args:
        recorder: the recorder of the session.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._begun, self._at_begin, self._taken = 0, 0, 0

    def begin(self) -> None:
        """Begin to count."""
        self._begun, self._at_begin = self._recorder.now(), self._recorder.stats().helper_ns
        self._taken = self._at_begin

    def take(self, ran: int) -> int:
        """Return the processor time since the last call, or since `begin`, ns.

        Args:
            ran: the helper thread's processor time so far, ns (`RecorderStats.helper_ns`).
        """
        before, self._taken = self._taken, ran
        return max(ran - before, 0)  # in a fork child, the time begins at 0

    @property
    def share(self) -> float:
        """Return the processor time since `begin` as a share of the time since then."""
        ran = self._recorder.stats().helper_ns - self._at_begin
        return max(ran, 0) / max(self._recorder.now() - self._begun, 1)
