"""Find the checks of PyTorch's anomaly detection, which looks for NaN in each gradient.

With `torch.autograd.set_detect_anomaly`, autograd's engine calls `isnan`, `_is_any_true` and `item` after each node of
the backward pass (PyTorch 2.13, torch/csrc/autograd/engine.cpp, `validate_outputs` and its caller). Nothing else calls
`item` directly in a span of the engine: code of a `torch.autograd.Function` has a span of its own. Anomaly detection
also stores a traceback for each operator of the forward pass, which has no span.
"""

from dataclasses import dataclass
from typing import Final

import polars as pl

from ms_profiler.analysis.metrics import intervals
from ms_profiler.analysis.metrics.host_operators import AROUND_NODE
from ms_profiler.store.format import Category

_READ: Final = "aten::item"
_CHECKS: Final = ("aten::isnan", "aten::_is_any_true", "aten::ne", "aten::any", _READ)
#: anomaly detection is on if at least this number of gradients are checked in a step
_LEAST: Final = 1.0


@dataclass(frozen=True)
class Checks:
    """The checks of gradients in the examined steps.

    Attributes:
        per_step: number of checks in a step.
        share: share of the time of these steps that the checks take.
    """

    per_step: float
    share: float


def found(spans: pl.DataFrame, names: pl.Series, during: pl.DataFrame) -> Checks | None:
    """Return the checks of gradients; None without anomaly detection.

    Args:
        spans: table of the run's spans, with the columns of `tables.SPANS`.
        names: texts by row.
        during: the examined steps.
    """
    own = spans.filter(pl.col("category") == int(Category.OP)).sort("start_ns")
    place = ["process", "thread"]
    node = names.str.starts_with(AROUND_NODE).gather(own["name"])
    nodes = own.filter(node).select(*place, "start_ns", around=pl.col("depth"), until=pl.col("end_ns"))
    checks = own.filter(names.is_in(_CHECKS).gather(own["name"]))
    checks = checks.filter(intervals.locate(checks["start_ns"], during).is_not_null())
    # the rows of `spans` may be those of chosen steps only, so that their column `parent` tells nothing
    checks = checks.join_asof(nodes, on="start_ns", by=place, check_sortedness=False)
    checks = checks.filter(pl.col("end_ns") <= pl.col("until"), pl.col("depth") == pl.col("around") + 1)
    count = int((names == _READ).gather(checks["name"]).sum())
    if count < _LEAST * max(during.height, 1):
        return None
    whole = max(int((during["end_ns"] - during["start_ns"]).sum()), 1)
    return Checks(count / during.height, intervals.total_ns(intervals.union(checks)) / whole)
