"""The part of summary.json about the memory of whole processes, and of their control group (cgroup)."""

from typing import Any

from ms_profiler.analysis.metrics import held_memory
from ms_profiler.analysis.metrics.measures import Measures


def summary(measures: Measures) -> dict[str, Any] | None:
    """Return the memory of the job's processes; None if this memory was not sampled.

    Args:
        measures: the measures of the run.
    """
    recording = measures.recording
    processes, group = held_memory.processes(recording), held_memory.group(recording)
    if not processes:
        return None
    steps = held_memory.by_step(recording, measures.steps)
    top = steps.sort("peak", "number", descending=[True, False]).row(0) if steps.height else (None, None)
    return {
        "processes": [
            {
                "pid": held.process,
                "peak_mb": _megabytes(held.peak),
                "anonymous_mb": _megabytes(held.anonymous),
                "proportional_mb": _megabytes(held.proportional),
                "swapped_mb": _megabytes(held.swapped),
                "major_faults": round(held.major),
                "minor_faults": round(held.minor),
            }
            for held in processes
        ],
        "peak_step": top[0],
        "peak_step_mb": _megabytes(top[1]),
        "group": None if group is None else {"limit_mb": _megabytes(group.limit), "most_mb": _megabytes(group.most)},
    }


def _megabytes(size: float | None) -> float | None:
    return None if size is None else round(size / 2**20, 6)
