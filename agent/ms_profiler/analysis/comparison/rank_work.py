"""Find the ranks of a job whose own work got longer, which means over the ranks hide.

The ranks of a job wait for each other in exchanges. So if one rank gets slower, the steps of all ranks get longer. The
own work of a rank is its step without exchanges, and without waits for a processor.
"""

from collections.abc import Iterator, Sequence
from statistics import fmean, median
from typing import Final

from ms_profiler.analysis.comparison.digest import Digest
from ms_profiler.analysis.metrics import bounds
from ms_profiler.analysis.metrics.advice.base import length
from ms_profiler.analysis.metrics.handed_over import PASSED

#: a rank is named if its own work became longer than that of the median rank by this share of the step
APART: Final = 0.05
#: largest number of ranks that are named
_NAMED: Final = 3


def of_ranks(parts: Sequence[Digest]) -> dict[str, int]:
    """Return the own work of each rank: rank -> ns per step, as a mean over the parts with this rank.

    Args:
        parts: the digests of ranks, or of several runs of a job.
    """
    found: dict[str, list[int]] = {}
    for part in parts:
        own = part.own_work or {str(part.completeness.present[0]): _own(part)}
        for rank, ns in own.items():
            found.setdefault(rank, []).append(ns)
    return {rank: round(fmean(each)) for rank, each in found.items()}


def slower(first: Digest, second: Digest) -> Iterator[str]:
    """Yield a sentence that names the ranks whose own work became longer than that of most other ranks.

    Args:
        first: the digest of the first side.
        second: the digest of the second side.
    """
    both = [rank for rank in second.own_work if rank in first.own_work]
    more = {rank: second.own_work[rank] - first.own_work[rank] for rank in both}
    if len(more) < 2:
        return
    # of two ranks, the lower one is the usual one
    usual = sorted(more.values())[(len(more) - 1) // 2]
    late = [rank for rank in more if more[rank] - usual > APART * first.step.median_ns and more[rank] > 0]
    if not late:
        return
    late.sort(key=lambda rank: -more[rank])
    shown = [f"rank {rank} {length(more[rank])}" for rank in late[:_NAMED]]
    rest = f" and {len(late) - _NAMED} more" if len(late) > _NAMED else ""
    others = median(ns for rank, ns in more.items() if rank not in late)
    sign = "longer" if others >= 0 else "less"
    yield (
        f"Own work of a step, without exchanges: {', '.join(shown)}{rest} longer than before, the other ranks "
        f"{length(abs(others))} {sign}. All times are means over the ranks; `ms-profiler cluster` compares the ranks."
    )


def _own(part: Digest) -> int:
    return sum(
        cell.ns
        for cell in part.cells
        if cell.part not in (bounds.COMMUNICATION, bounds.RUNNABLE) and not cell.what.startswith(PASSED)
    )
