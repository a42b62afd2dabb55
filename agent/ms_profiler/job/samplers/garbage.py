"""Record Python's garbage collections, during which no other thread of the interpreter runs Python code.

The interpreter reports each collection through `gc.callbacks`. A job has thousands of collections of young generations,
which take microseconds each. So of these, only the long ones are recorded. A collection is no phase of a step: its time
belongs to the phase that it interrupts, for example the forward pass.
"""

import gc
from typing import TYPE_CHECKING, Any, Final

from ms_profiler.job.recorder import shield
from ms_profiler.store.format import Category, Kind
from ms_profiler.store.names import COLLECTION

if TYPE_CHECKING:
    from ms_profiler.job.host import Host

#: Number of the oldest generation of objects. All collections of this generation are recorded.
OLDEST: Final = 2
#: A collection of a younger generation is recorded only if it takes this time or longer, ns.
LONG: Final = 1_000_000


class Collections:
    """Record each garbage collection as a span, whose argument is the number of freed objects.

    Args:
        host: the session that records.
    """

    def __init__(self, host: "Host") -> None:
        recorder = host.recorder
        self._now, self._record = recorder.now, recorder.record
        self._callback = shield(self._note, host.guard("recording a garbage collection"))
        self._names = [recorder.intern(f"{COLLECTION} {generation}") for generation in range(OLDEST + 1)]
        self._since = 0

    def start(self) -> None:
        """Register a function that Python calls at the begin and end of each garbage collection."""
        if self._callback not in gc.callbacks:
            gc.callbacks.append(self._callback)

    def stop(self) -> None:
        """Remove the function that `start` registered."""
        if self._callback in gc.callbacks:
            gc.callbacks.remove(self._callback)

    def _note(self, phase: str, info: dict[str, Any]) -> None:
        now = self._now()
        if phase == "start":
            self._since = now
            return
        generation, since = info["generation"], self._since
        self._since = 0
        if since and (generation == OLDEST or now - since >= LONG):
            self._record(Kind.SPAN, Category.OTHER, 0, self._names[generation], since, now, info["collected"])


def watch(host: "Host") -> None:
    """Record garbage collections while the session records."""
    collections = Collections(host)
    host.at_start(collections.start)
    host.at_end(collections.stop)
