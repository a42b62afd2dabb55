"""From which step on steps take longer or shorter, and the modules that do."""

import math
import statistics
from typing import Any, Final

import polars as pl

from ms_profiler.analysis.metrics.ownership import Ownership
from ms_profiler.analysis.metrics.steps import Steps, milliseconds

#: blocks of steps that are compared by their medians, at most and at least; steps of a block, at least
BLOCKS: Final = 200
BLOCKS_LEAST: Final = 16
BLOCK: Final = 8
#: blocks on either side of a change, at least
SIDE: Final = 4
#: part of a step that a change is, at least, and times what blocks of one side differ by (their median deviation)
LEAST: Final = 0.05
CLEAR: Final = 4.0
#: modules that are named, at most, and part of the change that each makes up at least
NAMED: Final = 3
WORTH: Final = 0.2


def shift(steps: Steps, found: Ownership | None) -> dict[str, Any] | None:
    """Return the largest lasting change of the steps' length, and whose time changed; None where there is none.

    The steps that have the same records (those without, where steps were sampled) are cut into blocks. The change lies
    where two constants fit the medians of the blocks best (least sum of absolute deviations).

    Args:
        steps: the steps in use.
        found: whose the time of sampled steps is; None where no module is known.

    Returns:
        `step`, `before_ms`, `after_ms`, `modules`: `module`, `before_ms`, `after_ms`, by their part of the change.
    """
    kinds = steps.table["content"].value_counts().sort("count", descending=True)
    if kinds.is_empty():
        return None
    same = steps.table.filter(pl.col("content") == kinds["content"][0])[1:]
    size = max(BLOCK, math.ceil(same.height / BLOCKS))
    lengths = same["duration_ns"].to_list()
    medians = [statistics.median(lengths[at : at + size]) for at in range(0, len(lengths) - size + 1, size)]
    if len(medians) < BLOCKS_LEAST:
        return None
    block = min(range(SIDE, len(medians) - SIDE + 1), key=lambda at: _misfit(medians[:at]) + _misfit(medians[at:]))
    before, after = statistics.median(medians[:block]), statistics.median(medians[block:])
    spread = max(_misfit(medians[:block]) / block, _misfit(medians[block:]) / (len(medians) - block))
    if abs(after - before) < max(LEAST * before, CLEAR * spread):
        return None
    first = max((block - 1) * size, 0)
    near = lengths[first : first + 2 * size]
    level = (before + after) / 2
    # the step from which on most lie on the side of what follows
    sign = 1 if after > before else -1
    passed = [sign if length > level else -sign for length in near]
    at = max(range(len(near) + 1), key=lambda place: sum(passed[place:]) - sum(passed[:place]))
    row = min(first + at, same.height - 1)
    return {
        "step": int(same["number"][row]),
        "before_ms": milliseconds(before),
        "after_ms": milliseconds(after),
        "modules": [] if found is None else _modules(steps, found, int(same["start_ns"][row]), after - before),
    }


def _misfit(values: list[float]) -> float:
    middle = statistics.median(values)
    return sum(abs(value - middle) for value in values)


def _modules(steps: Steps, found: Ownership, moment_ns: int, change: float) -> list[dict[str, Any]]:
    """Return the modules whose own time changed most, of the median step before and after.

    Args:
        steps: the steps in use.
        found: whose the time is.
        moment_ns: of the change.
        change: of the length of a step, ns.
    """
    starts = steps.table.with_row_index("step").select("step", later=pl.col("start_ns") >= moment_ns)
    own = found.sums.drop_nulls("owner").group_by("step", "owner").agg(pl.col("self_ns").sum())
    both = own.join(starts.cast({"step": own.schema["step"]}), on="step")
    if both["later"].n_unique() < 2:
        return []
    medians = both.group_by("owner", "later").agg(pl.col("self_ns").median())
    sides = [medians.filter(pl.col("later") == later).drop("later") for later in (False, True)]
    table = sides[0].join(sides[1], on="owner", how="full", coalesce=True, suffix="_after").fill_null(0)
    moved = pl.col("self_ns_after") - pl.col("self_ns")
    worth = (moved / change >= WORTH) & (moved.sign() == math.copysign(1, change))
    named = table.filter(worth).sort(moved.abs(), "owner", descending=[True, False]).head(NAMED)
    return [
        {"module": row[0], "before_ms": milliseconds(row[1]), "after_ms": milliseconds(row[2])}
        for row in named.select("owner", "self_ns", "self_ns_after").iter_rows()
    ]
