"""Compare ranks: how long each rank worked and communicated in its steps, and which ranks were late or waited."""

from typing import Any, Final

import polars as pl

from ms_profiler.analysis.metrics.measures import Measures
from ms_profiler.analysis.page.step_parts import COMMUNICATION, parts

#: largest number of steps whose times are shown rank by rank
STEPS_MOST: Final = 2_000


def row(measures: Measures) -> dict[str, Any]:
    """Return the row of one rank in the comparison.

    Args:
        measures: the measures of the rank.
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


def content(rows: list[dict[str, Any]], job: dict[str, Any] | None) -> dict[str, Any]:
    """Return the rows of all ranks by rank, each marked as late, waiting, or neither.

    Args:
        rows: a row for each rank, from `row`.
        job: the summary of the job, from `job_summary.summary`; None if the ranks do not form one job.
    """
    roles = {each["rank"]: each for each in job["ranks"]} if job else {}
    for each in rows:
        known = roles.get(each["rank"], {"role": None, "wait_ms": None})
        wait = known["wait_ms"]
        each["state"], each["wait_ns"] = known["role"], None if wait is None else round(wait * 1e6)
    return {
        "rows": sorted(rows, key=lambda each: int(each["rank"])),
        "verdict": job["verdict"] if job else None,
        "late": job["late"] if job else [],
    }


def _median(values: pl.Series) -> int:
    return round(float(str(values.median() or 0)))
