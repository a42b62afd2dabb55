"""The modules in the summary: the tree, and the module that made the slowest step slow."""

from typing import Any, Final

from ms_profiler.analysis.metrics import ownership
from ms_profiler.analysis.metrics.measures import Measures
from ms_profiler.analysis.metrics.steps import milliseconds

#: most modules in the list, those with most time
MOST: Final = 200
_TIMES: Final = ("forward", "backward", "optimizer", "total", "self", "inferred")


def summary(measures: Measures) -> dict[str, Any] | None:
    """Return the modules of a run; None where no module is known.

    Args:
        measures: of the run.
    """
    found = measures.ownership
    if found is None:
        return None
    count = max(found.steps, 1)
    tree = found.tree.with_row_index("row")
    listed = tree.sort("total_ns", "row", descending=[True, False]).head(MOST).sort("row")
    slow = ownership.slow_step(found, measures.steady)
    return {
        "basis": found.basis,
        "steps": found.steps,
        "whole_ms": milliseconds(found.whole_ns / count),
        "outside_ms": milliseconds(found.outside_ns / count),
        "outside_share": round(found.outside_ns / max(found.whole_ns, 1), 6),
        "count": tree.height,
        "rows": [
            {
                "module": row["module"],
                "depth": row["depth"],
                "calls": row["calls"],
                **{f"{name}_ms": milliseconds(row[f"{name}_ns"] / count) for name in _TIMES},
                "share": round(row["share"], 6),
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
        },
    }
