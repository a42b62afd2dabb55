"""Record Python stacks as the option `with_stack` requests: `true` traces all calls, `"sample"` samples stacks.

With the option `data_process`, the stacks of the job's child processes are sampled, too. In workers of a data loader,
these stacks show which function makes a batch late.
"""

import posix
import sys
from typing import TYPE_CHECKING, Final

from ms_profiler.job.recorder import shield
from ms_profiler.job.sources import NEVER

if TYPE_CHECKING:
    from ms_profiler.job.host import Host

OPTION: Final = "with_stack"


class Stacks:
    """Trace calls or sample stacks while any recording requests stacks.

    Args:
        host: the session that records.
    """

    def __init__(self, host: "Host") -> None:
        self._host = host
        self._samples = False
        self._traces: bool | None = False  # None: unknown, because an exception of the job may have ended the start
        self._taken, self._count = 0.0, 0  # at the last check: time that tracing had taken, ns, and number of steps
        if sys.version_info >= (3, 12):  # Python 3.12 and later warn of a fork beside other threads
            guard = host.guard("a fork")
            posix.register_at_fork(before=shield(self._pause, guard), after_in_parent=shield(self._resume, guard))

    def start(self) -> None:
        """Begin to trace calls or to sample stacks, as the recordings request."""
        if self._host.forked:
            return
        traced = [item.options for item in self._host.recordings if item.options.with_stack is True]
        if traced and not self._traces:
            self._traces = None
            why = self._host.recorder.trace_calls(traced[0])
            self._traces = not why
            if why:
                self._host.not_collected(f"{OPTION}: calls of functions", f"{why}; stacks are sampled instead")
        if not self._traces:
            self._sample()

    def start_child(self) -> None:
        """Begin to sample stacks in a fork child, in which the parent's sampling thread does not exist."""
        self._samples = False
        if not self._traces:
            self._sample()

    def _sample(self) -> None:
        """Start to sample stacks if any recording requests stacks of this process."""
        child = self._host.forked or not self._host.owner
        asked = (item.options for item in self._host.recordings)
        rates = [options.stack_rate for options in asked if options.with_stack or (child and options.data_process)]
        if not rates:
            return
        self._samples = True  # noted first, because an exception of the job may end the next call
        if why := self._host.recorder.sample_stacks(max(rates)):
            self._host.not_collected(OPTION, why)
            self._samples = False

    def stop(self) -> None:
        """Stop tracing calls or sampling stacks."""
        if self._traces is not False:
            self._host.recorder.trace_no_calls()
            self._traces = False
        if self._samples:
            self._host.recorder.sample_no_stacks()
            self._samples = False

    def stepped(self, count: int) -> tuple[int, bool]:
        """Report to the session how much time tracing takes in a step.

        If another tool has begun to trace calls, stop tracing and sample stacks instead.
        """
        if not self._traces:
            return NEVER, False  # the session still calls this method once at the begin of each recording
        recorder = self._host.recorder
        if tool := recorder.traces_beside():
            self.stop()
            why = f"{tool} was started as well; stacks are sampled from then on"
            self._host.not_collected(f"{OPTION}: calls of functions", why)
            self._sample()
            return NEVER, True
        if self._host.steps.marks.sampled and count > self._count:
            taken = recorder.calls_taken()
            self._host.expect(OPTION, (taken - self._taken) / (count - self._count))
            self._taken = taken
        self._count = count
        return count + 1, False

    def _pause(self) -> None:
        if self._samples:
            self._host.recorder.sample_no_stacks()

    def _resume(self) -> None:
        if self._samples:
            self._sample()


def watch(host: "Host") -> None:
    """Trace calls or sample stacks while the session records.

    Args:
        host: the session that records.
    """
    stacks = Stacks(host)
    host.at_start(stacks.start)
    host.at_end(stacks.stop)
    host.at_child(stacks.start_child, stacks.stop)
    host.at_step(stacks.stepped)
