"""What the summary says of the Python stacks that were sampled, and of the calls that were traced."""

from typing import Any, Final

import polars as pl

from ms_profiler.analysis.metrics import bounds
from ms_profiler.analysis.metrics.measures import Measures

#: of a gap in which the host runs other code it is known how long the thread was off its processor, and not when: the
#: functions of such a gap are told together
_ASIDE: Final = (bounds.BLOCKED, bounds.RUNNABLE, bounds.UNKNOWN)


def summary(measures: Measures) -> dict[str, Any] | None:
    """Return what the time of the stepping thread consists of; None where no stack was sampled."""
    stacks = measures.stacks
    if not stacks.known:
        return None
    used = measures.steps
    threads = measures.recording.threads.filter(pl.col("process") == used.process, pl.col("thread") == used.thread)
    native = int(threads["native_tid"][0]) if threads.height else 0
    own = stacks.of_thread(used.process, native)
    pieces = measures.diagnosis.pieces.with_columns(pl.col("part").replace(dict.fromkeys(_ASIDE, bounds.HOST)))
    return {
        "rate": round(1e9 / stacks.period_ns, 6),
        "samples": int(stacks.samples["count"].sum()),
        "threads": sum(len(set(tree.threads.values())) for tree in stacks.trees.values()),
        "late": stacks.late,
        "bounds": stacks.consists_of(own, pieces.sort("start_ns"), "part"),
        "phases": stacks.consists_of(own, measures.pieces, "phase"),
    }


def functions(measures: Measures) -> dict[str, Any] | None:
    """Return what Python functions took, and which ran in the parts of a step; None where no call was traced."""
    calls = measures.stacks.calls
    if not calls.known:
        return None
    used = measures.steps
    own = calls.of_thread(used.process, used.thread)
    pieces = measures.diagnosis.pieces.with_columns(pl.col("part").replace(dict.fromkeys(_ASIDE, bounds.HOST)))
    return {
        "calls": int((~calls.table["resumed"]).sum()),
        "left_out": measures.recording.calls_left_out,
        "threads": len(calls.threads),
        "rows": calls.sums(),
        "bounds": calls.consists_of(own, pieces.sort("start_ns"), "part"),
        "phases": calls.consists_of(own, measures.pieces, "phase"),
    }
