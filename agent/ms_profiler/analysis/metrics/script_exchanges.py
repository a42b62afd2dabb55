"""Find the exchanges with other ranks that the script itself calls, and that take much of the communication.

Examples are `all_gather_object` for metrics, and `broadcast` of a value in each step. Such an exchange has nothing to
do with gradients, so advice about gradients does not help.
"""

from typing import Final, NamedTuple

import polars as pl

from ms_profiler.analysis.metrics import bounds, intervals
from ms_profiler.store.format import Category

#: operations of a script; gradients and stages of a pipeline use others: AllReduce, ReduceScatter, Send, Receive
_OPERATIONS: Final = ("AllGather", "Broadcast", "Gather", "Scatter", "Reduce", "AllToAll")
#: a script's call in one of these spans belongs to the model or to the optimizer, for example to sharded parameters
_INSIDE: Final = (Category.FORWARD, Category.BACKWARD, Category.GRAPH, Category.OPTIMIZER)
#: smallest share of the communication that an operation must take
_LEAST: Final = 0.3


class Called(NamedTuple):
    """An operation that the script calls between the passes.

    Attributes:
        operation: its name, as in `communication.COLLECTIVES`.
        share: its share of the communication that does not overlap with computing.
        per_step: the number of calls per step.
    """

    operation: str
    share: float
    per_step: float


def found(calls: pl.DataFrame, own: pl.DataFrame, pieces: pl.DataFrame, rows: list[int]) -> Called | None:
    """Return the operation that takes most of the communication among those that the script calls; None without one.

    Args:
        calls: the exchanges, from `communication.calls`.
        own: the spans of the stepping thread.
        pieces: the steps cut into parts, from `bounds.parts`.
        rows: the rows of the steps to look at.
    """
    known = calls.filter(pl.col("step").is_in(rows), pl.col("operation").is_in(_OPERATIONS))
    passes = intervals.union(own.filter(pl.col("category").is_in([int(each) for each in _INSIDE])))
    known = known.filter(intervals.locate(known["start_ns"], passes).is_null())
    exposed = intervals.union(pieces.filter(pl.col("part") == bounds.COMMUNICATION))
    whole = intervals.total_ns(exposed)
    each = []
    for (name,), one in known.group_by("operation", maintain_order=True):
        taken = intervals.total_ns(intervals.intersect(intervals.union(one), exposed))
        each.append(Called(str(name), taken / max(whole, 1), one.height / len(rows)))
    most = max(each, key=lambda called: called.share, default=None)
    return most if most is not None and most.share >= _LEAST else None
