"""Ranks side by side: whose own work takes longest, and who waits for it.

A step of a rank is its own work and communication that nothing hides. Ranks that exchange data end together, so that
the communication of a rank is that of the fastest exchange, and the wait for the slower ranks.
"""

from typing import Any, Final

import polars as pl

from ms_profiler.analysis.metrics.measures import Measures
from ms_profiler.analysis.page.step_parts import COMMUNICATION, parts

#: of a step: a rank waits from here on, and one that waits less than the second is the one waited for
WAITS: Final = 0.05
_NO_WAIT: Final = 0.01
#: steps whose times are shown rank by rank
STEPS_MOST: Final = 2_000


def row(measures: Measures) -> dict[str, Any]:
    """Return what the page shows of a rank among others.

    Args:
        measures: of the rank.
    """
    info = measures.recording.info
    table = parts(measures)
    steady = table.filter(pl.col("step").is_in(measures.steady["number"].implode()))
    table = steady if steady.height else table
    known = table.height > 0
    hidden = COMMUNICATION if COMMUNICATION in table.columns else None
    exposed = table[hidden] if hidden else pl.Series([0] * table.height, dtype=pl.Int64)
    total = table.select(pl.sum_horizontal(pl.exclude("step"))).to_series() if known else exposed
    own = total - exposed
    return {
        "rank": info.rank,
        "host": info.host,
        "directory": measures.recording.directory,
        "verdict": measures.verdict,
        "device": measures.recording.device is not None,
        "steps": table.height,
        "step_ns": _median(total),
        "own_ns": _median(own),
        "communication_ns": _median(exposed),
        "by_step": {
            "step": table["step"].head(STEPS_MOST).to_list() if known else [],
            "own": own.head(STEPS_MOST).to_list(),
            "communication": exposed.head(STEPS_MOST).to_list(),
        },
    }


def content(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return ranks with who is slow and who waits, by rank.

    Args:
        rows: of `row`.
    """
    known = [each for each in rows if each["step_ns"]]
    least = min((each["communication_ns"] for each in known), default=0)
    for each in rows:
        each["wait_ns"] = each["communication_ns"] - least if each["step_ns"] else None
    waiting = [each for each in known if each["wait_ns"] >= WAITS * each["step_ns"]]
    for each in rows:
        each["state"] = None
        if each in waiting:
            each["state"] = "waiting"
        elif waiting and each in known and each["wait_ns"] < _NO_WAIT * each["step_ns"]:
            each["state"] = "slow"
    return {"rows": sorted(rows, key=lambda each: int(each["rank"])), "waits_from": WAITS}


def _median(values: pl.Series) -> int:
    return round(float(str(values.median() or 0)))
