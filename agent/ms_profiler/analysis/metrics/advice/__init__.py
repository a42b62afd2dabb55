"""Give advice, the most expensive cause first. Each advice states its numbers.

`bounds.parts` divides the time of a step into parts. Most causes are reported if their part takes at least a certain
share of the steps' time. Launching operators, and other work of the host, are reported if they take far longer than
computing, because then the host limits the speed of the steps.

Advice is sorted by its share of the steps' time. When the machine is busy, waits for a processor lengthen everything.
So advice about the job itself is compared with these waits by its share of the remaining time. A memory leak costs no
time until it ends the job. So it comes after the causes in the job that take time, and only a fast one before them.
"""

from dataclasses import replace
from typing import Final

from ms_profiler.analysis.metrics import bounds
from ms_profiler.analysis.metrics.advice import habits, machine, waits, work
from ms_profiler.analysis.metrics.advice.base import Advice as Advice, Facts as Facts
from ms_profiler.analysis.metrics.diagnosis import Diagnosis
from ms_profiler.analysis.metrics.strain import BUSY

_CAUSES: Final = (
    *(waits.waits, waits.blocked, waits.copies, waits.crowded, waits.exchanges, waits.workers),
    *(work.reads, work.optimizer, work.casts, work.checks, work.host, work.fallbacks),
    *(habits.compiling, habits.memory, habits.pauses, habits.uneven),
    machine.machine,
)


def ranked(found: Diagnosis, facts: Facts) -> list[Advice]:
    """Return the advice for a run, the largest share first; fast memory leaks come before it, other ones behind.

    In a run without steps, all shares are shares of the whole run.

    Args:
        found: the diagnosis of the run.
        facts: further facts of the run.
    """
    advice = [item for cause in _CAUSES for item in cause(found, facts)]
    if found.whole:
        advice = [replace(item, evidence=item.evidence.replace("the steady steps", "the run")) for item in advice]
    waits = max((item.share for item in found.strains if item.cause == BUSY and not item.steps), default=0.0)

    def weight(item: Advice) -> float:
        return item.share if item.what == bounds.RUNNABLE else item.share / (max(1 - waits, item.share) or 1.0)

    leaks = [item for item in advice if item.cause == habits.LEAKING]
    timed = sorted((item for item in advice if item not in leaks), key=lambda item: (-weight(item), -item.share))
    last = max(
        (place for place, item in enumerate(timed, 1) if item.cause not in machine.CAUSES.values() and item.share),
        default=0,
    )
    fast = [item for item in leaks if item.first]
    return [*fast, *timed[:last], *(item for item in leaks if item not in fast), *timed[last:]]
