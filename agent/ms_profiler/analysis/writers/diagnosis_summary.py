"""The parts of summary.json that explain the length of the steps: advice, and the metrics on which it is based."""

from dataclasses import asdict
from typing import Any

from ms_profiler.analysis.metrics import critical_path, recomputed, strain
from ms_profiler.analysis.metrics.measures import Measures
from ms_profiler.analysis.metrics.steps import milliseconds


def advice(measures: Measures) -> list[dict[str, Any]]:
    """Return the advice, the largest cause first.

    Args:
        measures: the measures of the run.
    """
    return [
        {
            "what": item.what,
            "cause": item.cause,
            "share": round(item.share, 6),
            "evidence": item.evidence,
            "action": item.action,
            "step": item.step,
            "lane": item.lane,
        }
        for item in measures.advice
    ]


def summary(measures: Measures) -> dict[str, Any]:
    """Return the metrics on which the advice is based, and the utilization of the hardware.

    The utilization is None if the user did not say how much work a step does.

    Args:
        measures: the measures of the run.
    """
    found = measures.diagnosis
    return {
        "bounds": _bounds(measures),
        "critical_path": _critical_path(measures),
        "synchronisation": _synchronisation(measures),
        "recomputation": recomputed.summary(measures.steady, measures.steps, measures.recording),
        "memory_growth": None if found.growth is None else asdict(found.growth),
        "device_memory_growth": None if found.on_device is None else asdict(found.on_device),
        "pauses": None
        if found.pauses is None
        else {
            "count": found.pauses.count,
            "total_ms": milliseconds(found.pauses.total_ns),
            "longest_ms": milliseconds(found.pauses.longest_ns),
            "share": round(found.pauses.share, 6),
            "step": measures.steps.table["number"][found.pauses.step],
        },
        "machine": {
            "queued_share": round(found.crowd.queued, 6),
            "pressure": round(found.crowd.pressure, 6),
            "busy": found.crowd.busy and all(item.cause != strain.THROTTLED for item in found.strains),
        },
        "small_packets": None
        if found.packets is None
        else {
            "count": found.packets.count,
            "small": found.packets.small,
            "small_share": round(found.packets.small_share, 6),
            "time_share": round(found.packets.time_share, 6),
            "bytes_share": round(found.packets.bytes_share, 6),
            "half_bytes": found.packets.half_bytes,
            "latency_us": found.packets.latency_ns / 1e3,
            "bandwidth_mb_s": round(found.packets.bandwidth / 1e6, 6),
        },
        "utilization": {**asdict(measures.request.workload), **asdict(measures.utilization)}
        if measures.request.workload.given
        else None,
    }


def _bounds(measures: Measures) -> dict[str, Any] | None:
    """Return the share of each kind of time in the steady steps; None if the diagnosis examined no step."""
    found = measures.diagnosis
    if found.parts.is_empty():
        return None
    return {
        "steps": found.parts["step"].n_unique(),
        "computing_is": "operators or kernels" if found.seen else "phases",
        "shares": {part: round(share, 6) for part, share in found.shares.items() if share},
        "launched": None
        if found.launched is None
        else {
            "what": found.launched.what,
            "per_step": round(found.launched.per_step, 3),
            "median_us": found.launched.median_ns / 1e3,
        },
    }


def _critical_path(measures: Measures) -> dict[str, Any] | None:
    """Return the kinds of time on the critical paths: their shares in all steps, and their lengths in each step.

    None if no step has a critical path.
    """
    path = measures.diagnosis.path
    if path.is_empty():
        return None
    numbers = measures.steps.table["number"]
    return {
        "shares": {kind: round(share, 6) for kind, share in measures.diagnosis.path_shares.items()},
        "steps": [
            {
                "number": numbers[row["step"]],
                **{f"{kind}_ms": milliseconds(row[kind]) for kind in critical_path.KINDS if row.get(kind)},
            }
            for row in critical_path.by_step(path).iter_rows(named=True)
        ],
    }


def _synchronisation(measures: Measures) -> dict[str, Any] | None:
    """Return the number of reads of tensor values, and where most of them happened; None if no read was recorded."""
    found = measures.diagnosis.reads
    if found.is_empty():
        return None
    counts = found.group_by("name", "module", "step").len()
    most = counts.sort("len", "name", "step", descending=[True, False, False]).row(0, named=True)
    steps = measures.diagnosis.parts["step"].n_unique()
    return {
        "count": found.height,
        "per_step": round(found.height / max(steps, 1), 3),
        "most": {
            "name": most["name"],
            "module": most["module"],
            "step": measures.steps.table["number"][most["step"]],
            "count": most["len"],
        },
    }
