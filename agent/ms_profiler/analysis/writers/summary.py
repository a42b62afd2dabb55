"""summary.json: the whole result for programs and for `ms-profiler summary`; `report/summary.schema.json` describes it.

Keys are added and never changed. Nothing in it says when the analysis ran or how long it took, so that analysing the
same store again gives the same bytes.
"""

import json
import os
from datetime import datetime, timezone
from typing import Any, BinaryIO

import polars as pl

from ms_profiler.analysis.measures import Measures
from ms_profiler.analysis.metrics import operators, steps
from ms_profiler.analysis.metrics.steps import milliseconds
from ms_profiler.store import layout
from ms_profiler.store.format import CATEGORY_FINE, StepSource

VERSION = 1


def path(measures: Measures) -> str:
    """Return where it goes."""
    return layout.SUMMARY


def applies(measures: Measures) -> bool:
    """Tell that there always is one."""
    return True


def write(measures: Measures, stream: BinaryIO, *, pretty: bool) -> None:
    """Write the summary."""
    stream.write(json.dumps(summary(measures), indent=4 if pretty else 1).encode() + b"\n")


def summary(measures: Measures) -> dict[str, Any]:
    """Return the content of summary.json.

    Args:
        measures: of the run.
    """
    recording, info = measures.recording, measures.recording.info
    return {
        "version": VERSION,
        "product": {"name": "ms-profiler", "version": info.product_version},
        "directory": os.path.basename(os.path.abspath(recording.directory)),
        "verdict": measures.finding.sentence,
        "finding": {"kind": measures.finding.kind, "share": _share(measures.finding.share)},
        "rank": info.rank,
        "local_rank": info.local_rank,
        "world_size": info.world_size,
        "device_id": info.device_id,
        "host": info.host,
        "framework": info.framework,
        "python": info.python,
        "options": info.options,
        "messages": info.messages,
        "run": _run(measures),
        "steps": _steps(measures),
        "phases": _phases(measures),
        "top_operators": operators.top(measures.operators),
        "modules": operators.top(measures.modules),
        "dataset": _dataset(measures),
        "compile": _compile(measures),
        "advice": measures.advice,
        "hooks": _hooks(info.hooks),
        "not_collected": info.not_collected,
        "completeness": measures.completeness,
        "coverage": _coverage(measures),
        "cost": measures.cost,
        "clock": {
            "uncertainty_ns": recording.clock.uncertainty_ns,
            "wall_steps": [{"at_ns": step.at_ns, "jump_ns": step.jump_ns} for step in recording.clock.steps],
        },
        "sources": _sources(measures),
    }


def _run(measures: Measures) -> dict[str, Any]:
    processes = measures.recording.processes
    start = min(processes["first_ns"].to_list())
    return {
        "started": _iso(start),
        "started_ns": start,
        "duration_s": round(measures.run_ns / 1e9, 6),
        "processes": [
            {
                "pid": row["process"],
                "parent": row["parent"],
                "role": row["role"],
                "name": row["name"],
                "state": row["state"],
                "last_record": _iso(row["last_ns"]),
                "last_record_s": round((row["last_ns"] - start) / 1e9, 6),
                "recorder": row["recorder"],
                "recorder_reason": row["recorder_reason"],
                "records": row["records"],
                "dropped": row["dropped"],
            }
            for row in processes.sort(pl.col("role") != "main", "process").iter_rows(named=True)
        ],
    }


def _steps(measures: Measures) -> dict[str, Any]:
    used = measures.steps
    whole = used.source == StepSource.WHOLE_RUN
    known = measures.steps.table.filter("recorded")
    steady = measures.steady
    left_out = known.height - steady.height
    return {
        **steps.statistics(used.table),
        "source": used.source.name.lower(),
        "why": "no step was marked: the whole run counts as one"
        if whole
        else measures.recording.info.steps.get("why", ""),
        "recorded": known.height,
        "chosen": measures.chosen,
        "first_ms": milliseconds(used.table["duration_ns"][0]) if used.table.height else None,
        "slowest": steps.slowest(used.table),
        "steady": {
            **steps.statistics(steady),
            "left_out": left_out,
            "why": "they compiled" if left_out else "",
        },
    }


def _phases(measures: Measures) -> dict[str, Any]:
    recorded = max(measures.steps.recorded.height, 1)
    return {
        row["phase"]: {
            "total_ms": milliseconds(row["total_ns"]),
            "share": _share(row["share"]),
            "per_step_ms": milliseconds(row["total_ns"] / recorded),
            "steady_share": _share(row["steady_share"]),
            "steady_per_step_ms": milliseconds(row["steady_ns"]),
        }
        for row in measures.shares.iter_rows(named=True)
    }


def _dataset(measures: Measures) -> list[dict[str, Any]]:
    return [
        {
            "operation": row["operation"],
            "count": row["count"],
            "total_ms": milliseconds(row["total_ns"]),
            "average_us": round(row["total_ns"] / row["count"] / 1e3, 3),
            "max_us": round(row["max_ns"] / 1e3, 3),
        }
        for row in measures.waits.iter_rows(named=True)
    ]


def _compile(measures: Measures) -> dict[str, Any]:
    numbers = measures.steps.table["number"]
    return {
        "total_ms": milliseconds(measures.compile_ns),
        "share_of_run": _share(measures.compile_ns / measures.run_ns) if measures.run_ns else 0.0,
        "steps": [numbers[row] for row in measures.compiled],
    }


def _coverage(measures: Measures) -> dict[str, Any]:
    kept = int((measures.recording.spans["category"] >= CATEGORY_FINE).sum())
    return {
        "fine_records": measures.recording.fine,
        "fine_records_kept": kept,
        "detailed_steps": measures.recording.detailed,
    }


def _hooks(hooks: dict[str, str]) -> dict[str, Any]:
    def reasons(state: str) -> dict[str, str]:
        parts = {target: text.partition(":") for target, text in sorted(hooks.items())}
        return {target: reason.strip() for target, (found, _, reason) in parts.items() if found == state}

    return {"applied": sorted(reasons("applied")), "missing": reasons("missing"), "failed": reasons("failed")}


def _sources(measures: Measures) -> dict[str, str]:
    """Name where each table comes from; what is absent was not collected."""
    sources = {"steps": f"step marks of the {measures.steps.source.name.lower()}", "phases": "host spans"}
    if measures.operators.height:
        sources["top_operators"] = "operator spans"
    if measures.modules.height:
        sources["modules"] = "module spans"
    if measures.waits.height:
        sources["dataset"] = "host spans"
    if not measures.states.is_empty():
        sources["step_trace_time"] = "phases of the stepping thread"
    return sources


def _iso(nanoseconds: int) -> str:
    seconds, rest = divmod(nanoseconds, 10**9)
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S") + f".{rest:09d}Z"


def _share(value: float) -> float:
    return round(value, 6)
