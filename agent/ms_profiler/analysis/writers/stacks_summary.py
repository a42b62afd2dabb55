"""The parts of the summary about sampled Python stacks and traced calls."""

from typing import Any

from ms_profiler.analysis.metrics import stack_parts
from ms_profiler.analysis.metrics.measures import Measures


def summary(measures: Measures) -> dict[str, Any] | None:
    """Return figures of the sampled stacks, and which functions ran in each part and phase of the steps.

    None if no stack was sampled.
    """
    stacks = measures.stacks
    if not stacks.known:
        return None
    return {
        "rate": round(1e9 / stacks.period_ns, 6),
        "samples": int(stacks.samples["count"].sum()),
        "threads": sum(len(set(tree.threads.values())) for tree in stacks.trees.values()),
        "late": stacks.late,
        "bounds": stack_parts.of_samples(stacks, measures.steps, measures.diagnosis.pieces, "part"),
        "phases": stack_parts.of_samples(stacks, measures.steps, measures.pieces, "phase"),
    }


def functions(measures: Measures) -> dict[str, Any] | None:
    """Return the times of traced functions, and which functions ran in each part and phase of the steps.

    None if no call was traced.
    """
    calls = measures.stacks.calls
    if not calls.known:
        return None
    return {
        "calls": int((~calls.table["resumed"]).sum()),
        "left_out": measures.recording.calls_left_out,
        "threads": len(calls.threads),
        "rows": calls.sums(),
        "bounds": stack_parts.of_calls(calls, measures.steps, measures.diagnosis.pieces, "part"),
        "phases": stack_parts.of_calls(calls, measures.steps, measures.pieces, "phase"),
    }
