"""The part of summary.json that says which kinds of tensors, and which modules, held memory at the peak."""

from typing import Any, Final

from ms_profiler.analysis.metrics import memory, tensor_owners
from ms_profiler.analysis.metrics.measures import Measures

#: largest number of listed owners of memory; an owner is a kind of tensors (such as gradients) of one module
MOST: Final = 40


def summary(measures: Measures) -> dict[str, Any] | None:
    """Return what held the memory of tensors at its peak; None if single blocks of it were not recorded.

    Args:
        measures: the measures of the run.
    """
    if not memory.of_host(measures.memory, measures.recording):
        return None
    peak = tensor_owners.peak(measures.recording.tensors, measures.blocks, measures.steps)
    if peak is None:
        return None
    largest = peak.largest
    return {
        "step": peak.step,
        "allocated_mb": _megabytes(peak.allocated),
        "kinds": [{"kind": kind, "mb": _megabytes(size)} for kind, size in peak.kinds.iter_rows()],
        "owners": [
            {"kind": kind, "module": module, "mb": _megabytes(size)}
            for kind, module, size in peak.owners.head(MOST).iter_rows()
        ],
        "largest": None
        if largest is None
        else {
            "kind": largest[0],
            "module": largest[1],
            "operator": largest[2],
            "mb": _megabytes(largest[3]),
        },
    }


def _megabytes(size: int) -> float:
    return round(size / 2**20, 6)
