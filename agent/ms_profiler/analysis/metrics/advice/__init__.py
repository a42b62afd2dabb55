"""Give advice, the most expensive cause first. Each advice states its numbers.

A cause is reported by its share of the steps (see `bounds.parts`). Waits are reported from a fixed share on. Launching
operators, and other work of the host, are reported where they take far longer than computing, because then the host
bounds the step. Advice is ranked by share; a fast memory leak comes first, because it ends the job.
"""

from typing import Final

from ms_profiler.analysis.metrics.advice import habits, machine, waits, work
from ms_profiler.analysis.metrics.advice.base import Advice as Advice, Facts as Facts
from ms_profiler.analysis.metrics.diagnosis import Diagnosis

_CAUSES: Final = (
    *(waits.waits, waits.blocked, waits.copies, waits.crowded, waits.exchanges),
    *(work.reads, work.optimizer, work.casts, work.host, work.fallbacks),
    *(habits.compiling, habits.memory, habits.pauses, habits.uneven),
    machine.machine,
)


def ranked(found: Diagnosis, facts: Facts) -> list[Advice]:
    """Return the advice, ranked.

    Args:
        found: the diagnosis of the run.
        facts: further facts of the run.
    """
    told = [item for cause in _CAUSES for item in cause(found, facts)]
    return sorted(told, key=lambda item: (not item.first, -item.share))
