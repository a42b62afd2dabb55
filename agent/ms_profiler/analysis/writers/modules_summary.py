"""The part of summary.json about modules: their tree, and the module that made the slowest step slow."""

from typing import Any, Final

from ms_profiler.analysis.metrics import callbacks, slow_steps
from ms_profiler.analysis.metrics.measures import Measures
from ms_profiler.analysis.metrics.steps import milliseconds

#: largest number of listed modules; if there are more, only the modules with the longest times are listed
MOST: Final = 200
#: largest number of listed steps that took longer than the slowest compared step, for each reason
LONGER: Final = 8
_TIMES: Final = ("forward", "backward", "optimizer", "total", "self", "inferred")
_HOST: Final = ("host", "host_self")


def summary(measures: Measures) -> dict[str, Any] | None:
    """Return the modules of a run; None where no module is known.

    Args:
        measures: the measures of the run.
    """
    found = measures.ownership
    if found is None:
        return None
    count = max(found.steps, 1)
    tree, absent = measures.module_facts
    tree = tree.with_row_index("row")
    listed = tree.sort("total_ns", "row", descending=[True, False]).head(MOST).sort("row")
    called = callbacks.by_step(measures.spans, measures.recording.names, measures.steps)
    slow = slow_steps.slowest(found, measures.steady, measures.pieces, measures.steps.table, called)
    return {
        "basis": found.basis,
        "steps": found.steps,
        "whole_ms": milliseconds(found.whole_ns / count),
        "outside_ms": milliseconds(found.outside_ns / count),
        "outside_share": round(found.outside_ns / max(found.whole_ns, 1), 6),
        "estimated_share": round(found.estimated_ns / max(found.whole_ns, 1), 6),
        "host": None
        if (on_host := measures.on_host) is None
        else {"steps": on_host.steps, "whole_ms": milliseconds(on_host.whole_ns / on_host.steps)},
        "count": tree.height,
        "process": found.process,
        "absent": {what: why for what, why in absent.items() if why},
        "rows": [
            {
                "module": row["module"],
                "depth": row["depth"],
                "calls": row["calls"],
                **{f"{name}_ms": milliseconds(row[f"{name}_ns"] / count) for name in _TIMES},
                "share": round(row["share"], 6),
                **{f"{name}_ms": None if (ns := row[f"{name}_ns"]) is None else milliseconds(ns) for name in _HOST},
                **{name: row[name] for name in ("parameters", "parameter_bytes", "forward_flops", "backward_flops")},
            }
            for row in listed.iter_rows(named=True)
        ],
        "slow_step": None
        if slow is None
        else {
            "step": slow.number,
            "longer_ms": milliseconds(slow.longer_ns),
            "module": slow.module or None,
            "module_longer_ms": milliseconds(slow.module_ns),
            "earlier_steps": None if slow.earlier is None else list(slow.earlier),
            "earlier_ms": milliseconds(slow.earlier_ns),
            "phase": slow.phase or None,
            "phase_longer_ms": milliseconds(slow.phase_ns),
            "longer": {
                reason: {"count": len(numbers), "steps": sorted(numbers[:LONGER])}
                for reason, numbers in slow.longer.items()
            },
        },
    }
