"""What to try, the cause of the time first, each with the numbers that speak for it; nothing without them.

A cause is worth a word by what it takes of the steps (see `bounds.parts`). Waits are from a fixed share on, for they
could be none; launching operators, and what else the host does, are where they take far longer than computing, for then
the host bounds the step and not the work. Ranked by share; a leak that grows fast comes first, since it ends the job.
"""

from typing import Final

from ms_profiler.analysis.metrics.advice import habits, waits, work
from ms_profiler.analysis.metrics.advice.base import Advice as Advice, Facts as Facts
from ms_profiler.analysis.metrics.diagnosis import Diagnosis

_CAUSES: Final = (
    *(waits.waits, waits.blocked, waits.crowded, waits.exchanges),
    *(work.reads, work.optimizer, work.casts, work.host, work.fallbacks),
    *(habits.compiling, habits.memory, habits.pauses, habits.uneven),
)


def ranked(found: Diagnosis, facts: Facts) -> list[Advice]:
    """Return what is worth trying, the cause first.

    Args:
        found: why steps take as long as they do.
        facts: what else is known of the run.
    """
    told = [item for cause in _CAUSES for item in cause(found, facts)]
    return sorted(told, key=lambda item: (not item.first, -item.share))
