"""Sample the Python stacks of all threads at a rate, as the option `with_stack` asks."""

import os
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ms_profiler.job.host import Host

OPTION: Final = "with_stack"


class Stacks:
    """Sample while any recording asks for it.

    Args:
        host: that records.
    """

    def __init__(self, host: "Host") -> None:
        self._host = host
        self._on = False
        if sys.version_info >= (3, 12):  # which warns of a fork beside other threads
            os.register_at_fork(before=self._rest, after_in_parent=self._go_on)

    def start(self) -> None:
        """Begin to sample."""
        rates = [item.options.stack_rate for item in self._host.recordings if item.options.with_stack]
        if not rates or self._host.forked:
            return
        if why := self._host.recorder.sample_stacks(max(rates)):
            self._host.not_collected(OPTION, why)
            return
        self._on = True

    def stop(self) -> None:
        """Stop sampling."""
        if self._on and not self._host.forked:
            self._on = False
            self._host.recorder.sample_no_stacks()

    def _rest(self) -> None:
        if self._on:
            self._host.recorder.sample_no_stacks()

    def _go_on(self) -> None:
        if self._on:
            self.start()


def watch(host: "Host") -> None:
    """Sample stacks while the session records.

    Args:
        host: the session.
    """
    stacks = Stacks(host)
    host.at_start(stacks.start)
    host.at_end(stacks.stop)
