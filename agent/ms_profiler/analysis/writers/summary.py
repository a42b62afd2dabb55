"""summary.json: the whole result for programs and for `ms-profiler summary`; `report/summary.schema.json` describes it.

Later versions of ms-profiler only add keys. The file does not say when the analysis ran or how long it took, so a
second analysis of the same store gives the same bytes.
"""

import json
import os
from datetime import datetime, timezone
from typing import Any, BinaryIO

import polars as pl

from ms_profiler.analysis.metrics import (
    callbacks,
    cycles,
    graph_breaks,
    intervals,
    kernels,
    long_steps,
    memory,
    operators,
    other_trainings,
    pipelines,
    recurring_steps,
    slow_period,
    steps,
)
from ms_profiler.analysis.metrics.binding import Bound
from ms_profiler.analysis.metrics.measures import Measures
from ms_profiler.analysis.metrics.steps import milliseconds
from ms_profiler.analysis.writers import (
    calls_summary,
    device_summary,
    diagnosis_summary,
    ending_summary,
    host_summary,
    modules_summary,
    operator_details,
    peak_owners,
    sampling_summary,
    shapes_summary,
    stacks_summary,
    whole_run,
)
from ms_profiler.store import layout
from ms_profiler.store.format import CATEGORY_FINE, Category, StepSource

VERSION = 1
KERNEL_STREAM = "kernel stream"
OPERATORS = "PyTorch's operators"
PHASES = "phases of the stepping thread"


def path(measures: Measures) -> str:
    """Return the path of the file, relative to the result directory."""
    return layout.SUMMARY


def applies(measures: Measures) -> bool:
    """Return True, because the file is always written."""
    return True


def write(measures: Measures, stream: BinaryIO) -> None:
    """Write the summary."""
    stream.write(json.dumps(summary(measures), indent=4 if measures.request.pretty else 1).encode() + b"\n")


def summary(measures: Measures) -> dict[str, Any]:
    """Return the content of summary.json.

    Args:
        measures: the measures of the run.
    """
    recording, info = measures.recording, measures.recording.info
    return {
        "version": VERSION,
        "product": {"name": "ms-profiler", "version": info.product_version},
        "directory": os.path.basename(os.path.abspath(recording.directory)),
        "verdict": measures.verdict,
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
        "ending": ending_summary.summary(measures),
        "whole_run": whole_run.summary(measures),
        "other_trainings": other_trainings.summary(recording, measures.spans, measures.steps),
        "steps": _steps(measures),
        "long_steps": long_steps.summary(measures.steps, measures.spans, recording.looks, recording.names),
        "recurring_steps": recurring_steps.summary(
            measures.steps, measures.ownership, measures.spans, recording.looks, recording.names
        ),
        "slow_period": slow_period.summary(measures.steps, measures.spans, recording.looks, recording.names),
        **measures.changes,
        "phases": _phases(measures),
        "sampling": sampling_summary.summary(measures),
        "top_operators": operators.top(
            kernels.as_operators(kernels.scaled(measures.types, sampling_summary.kernels(measures, "type")))
            if _kernels_rule(measures)
            else sampling_summary.spans(measures, measures.operators, Category.OP)
        ),
        "kernels": _kernels(measures),
        "shapes": shapes_summary.summary(measures),
        "memory": _memory(measures),
        "host_memory": host_summary.summary(measures),
        "stacks": stacks_summary.summary(measures),
        "functions": stacks_summary.functions(measures),
        "modules": operators.top(sampling_summary.spans(measures, measures.modules, Category.MODULE)),
        "module_tree": modules_summary.summary(measures),
        "dataset": calls_summary.summary(measures.waits),
        "callbacks": calls_summary.summary(callbacks.sums(measures.spans, recording.names)),
        "dataset_pipelines": [_pipeline(pipeline) for pipeline in measures.pipelines],
        "compile": _compile(measures),
        "advice": diagnosis_summary.advice(measures),
        **diagnosis_summary.summary(measures),
        "hooks": _hooks(info.hooks),
        "not_collected": info.not_collected,
        "completeness": measures.completeness,
        "coverage": _coverage(measures),
        "cost": measures.cost,
        "clock": {
            "uncertainty_ns": recording.clock.uncertainty_ns,
            "wall_steps": [{"at_ns": step.at_ns, "jump_ns": step.jump_ns} for step in recording.clock.steps],
        },
        "device": device_summary.summary(measures),
        "device_sources": info.device_sources,
        "derived": {"written": measures.written, "kept": measures.existing} if measures.recording.foreign else None,
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
        "cycle": cycles.calls(measures.spans, measures.recording.names, used),
        "recorded": known.height,
        "chosen": measures.chosen,
        "first_ms": milliseconds(used.table["duration_ns"][0]) if used.table.height else None,
        "slowest": steps.slowest(used.table),
        "steady": {
            **steps.statistics(steady),
            "left_out": left_out,
            "interrupted": len(measures.interrupted),
            "why": "they compiled, came first, or ms-profiler interrupted or slowed them" if left_out else "",
        },
    }


def _phases(measures: Measures) -> dict[str, Any]:
    recorded = max(measures.steps.recorded.height, 1)
    return {
        row["phase"]: {
            **sampling_summary.phase(measures, row["phase"], row["total_ns"]),
            "share": _share(row["share"]),
            "per_step_ms": milliseconds(row["total_ns"] / recorded),
            "steady_share": _share(row["steady_share"]),
            "steady_per_step_ms": milliseconds(row["steady_ns"]),
        }
        for row in measures.shares.iter_rows(named=True)
    }


def _pipeline(pipeline: pipelines.Pipeline) -> dict[str, Any]:
    finding = pipeline.slowest()
    return {
        "pid": pipeline.process,
        "number": pipeline.number,
        "windows": pipeline.windows,
        "observed_s": round(pipeline.observed_ns / 1e9, 6),
        "samples": pipeline.samples,
        "interval_ms": pipeline.interval_ms,
        "batches": len(pipeline.waits_ms),
        "wait_ms": _average(pipeline.waits_ms),
        "period_ms": _average(pipeline.periods_ms),
        "operators": [
            {
                "name": pipelines.label(operator),
                "inputs": list(operator.children),
                "workers": operator.workers,
                "queue_length": operator.length,
                "queue_average": None if (mean := pipelines.average(operator)) is None else round(mean, 2),
                "queue_percent": pipelines.share(operator),
                "empty_percent": pipelines.empty(operator),
                "cpu_percent": pipelines.percent(operator),
            }
            for operator in pipeline.operators
        ],
        "bottleneck": None
        if finding is None
        else {
            "operator": None if finding.slow is None else pipelines.label(finding.slow),
            "evidence": finding.evidence,
            "action": finding.action,
        },
    }


def _average(values: list[int]) -> float | None:
    return round(sum(values) / len(values), 3) if values else None


def _compile(measures: Measures) -> dict[str, Any]:
    numbers = measures.steps.table["number"]
    traced = measures.sums.filter(pl.col("category") == int(Category.TRACED))
    found = graph_breaks.broken(measures.recording, measures.steps)
    return {
        "total_ms": milliseconds(measures.compile_ns),
        "share_of_run": _share(measures.compile_ns / measures.run_ns) if measures.run_ns else 0.0,
        "steps": [numbers[row] for row in measures.compiled],
        "operators": {"count": int(traced["count"].sum()), "self_ms": milliseconds(int(traced["self_ns"].sum()))},
        "graph_breaks": [{"function": function, "line": line} for function, line in found.places],
        "without_graph": list(found.without),
    }


def _coverage(measures: Measures) -> dict[str, Any]:
    recorded = int((measures.recording.spans["category"] >= CATEGORY_FINE).sum())
    return {
        "fine_records": measures.recording.fine,
        "fine_records_kept": recorded,
        "detailed_steps": measures.recording.detailed,
        "timeline_files": measures.section_count,
        "kernels": measures.stream.count,
        "kernels_kept": measures.stream.table.height,
        "kernel_steps": measures.stream.detailed,
    }


def _kernels_rule(measures: Measures) -> bool:
    return measures.stream.decides and not measures.types.is_empty()


def _kernels(measures: Measures) -> dict[str, Any] | None:
    """Return the figures of the recorded kernels; None if no kernel was recorded."""
    stream = measures.stream
    if not measures.recording.windows and measures.recording.device is None:
        return None
    bound, totals = kernels.bound(stream.sums), sampling_summary.kernels(measures, "full_name")
    steps_seen = _steps_with_kernels(measures)
    return {
        "count": stream.count,
        "total_ms": milliseconds(stream.sums["total_ns"].sum() if totals is None else totals["total_ns"].sum()),
        "scaled": totals is not None,
        "types": measures.types.height,
        "names": stream.names.height,
        "bound": bound,
        "bound_share": _share(1 - bound["nothing"] / stream.count) if stream.count else None,
        "module_share": _share(bound["module"] / stream.count) if stream.count else None,
        "module_time_share": kernels.module_time_share(stream.sums),
        "bound_by_order": kernels.inferred(stream.sums, Bound.ORDER),
        "bound_by_parameter": kernels.inferred(stream.sums, Bound.PARAMETER),
        "by_type": kernels.top(kernels.scaled(measures.types, sampling_summary.kernels(measures, "type"))),
        "by_name": kernels.top(kernels.scaled(kernels.by_name(stream.sums, stream.names), totals)),
        "by_module": kernels.top(
            kernels.scaled(kernels.by_module(stream.sums, stream.texts), sampling_summary.kernels(measures, "module"))
        ),
        "by_part_ms": kernels.by_part(sampling_summary.parts(measures)),
        "by_part_per_step_ms": kernels.by_part(stream.of_steps, steps_seen),
        "steps": steps_seen,
        "windows": len(measures.recording.windows),
        "lost_windows": len(stream.lost),
    }


def _memory(measures: Measures) -> dict[str, Any] | None:
    """Return the memory of the framework's allocator; None if it was not recorded."""
    held = measures.held
    if held.is_empty():
        return None
    by_step = memory.by_step(held, measures.steps)
    peak = by_step.row(by_step["peak"].arg_max() or 0, named=True) if by_step.height else None
    most = held.select(pl.col("allocated", "reserved").max()).row(0)
    return {
        "component": held["component"][0],
        "records": held.height,
        "peak_mb": _megabytes(most[0]),
        "reserved_mb": None if most[1] is None else _megabytes(most[1]),
        "peak_step": None if peak is None else peak["number"],
        "peak_step_mb": None if peak is None else _megabytes(peak["peak"]),
        "first_step_end_mb": None if peak is None else _megabytes(by_step["end"][0]),
        "last_step_end_mb": None if peak is None else _megabytes(by_step["end"][-1]),
        "at_peak": peak_owners.summary(measures),
    }


def _megabytes(size: int) -> float:
    return round(size / 2**20, 6)


def _steps_with_kernels(measures: Measures) -> int:
    """Return the number of recorded steps in which kernels were recorded."""
    return len(intervals.locate(measures.steps.recorded["start_ns"], measures.stream.covered).drop_nulls())


def _hooks(hooks: dict[str, str]) -> dict[str, Any]:
    def reasons(state: str) -> dict[str, str]:
        parts = {target: text.partition(":") for target, text in sorted(hooks.items())}
        return {target: reason.strip() for target, (found, _, reason) in parts.items() if found == state}

    return {"applied": sorted(reasons("applied")), "missing": reasons("missing"), "failed": reasons("failed")}


def _sources(measures: Measures) -> dict[str, str]:
    """Return name of a table -> source of its data. A table that is not listed was not collected."""
    sources = {"steps": f"step marks of the {measures.steps.source.name.lower()}", "phases": "host spans"}
    if measures.recording.device is not None:
        files = ", ".join(measures.recording.device.files)
        tables = ("kernels", "top_operators", "device", "step_trace_time", "kernel_details", "op_statistic")
        sources |= dict.fromkeys(tables, files)
        if measures.recording.foreign:
            return sources
        own = {"modules": measures.modules, "dataset": measures.waits, "api_statistic": measures.sums}
        return sources | {name: "host spans" for name, table in own.items() if not table.is_empty()}
    if measures.recording.windows:
        sources["kernels"] = KERNEL_STREAM
    if _kernels_rule(measures):
        sources["top_operators"] = sources["kernel_details"] = sources["op_statistic"] = KERNEL_STREAM
    elif measures.operators.height:
        sources["top_operators"] = "operator spans"
    if not measures.host_operators.is_empty():
        sources["kernel_details"] = sources["op_statistic"] = OPERATORS
        if operator_details.applies(measures):
            sources["operator_details"] = OPERATORS
    if not measures.memory.is_empty():
        sources["memory"] = KERNEL_STREAM
    if measures.modules.height:
        sources["modules"] = "module spans"
    if measures.waits.height:
        sources["dataset"] = "host spans"
    if measures.pipelines:
        sources["dataset_pipelines"] = "MindSpore's dataset profiler"
    if measures.sums.height:
        sources["api_statistic"] = "host spans"
    if measures.calls.height:
        sources["communication"] = "host spans"
    if not measures.stream.times.is_empty():
        sources["step_trace_time"] = _source_of_states(measures)
    return sources


def _source_of_states(measures: Measures) -> str:
    """Return from which records the computing times come. If only some steps have kernels, name both sources."""
    if measures.computes_by_operators:
        return OPERATORS
    by_phases = measures.steps.recorded.height - (_steps_with_kernels(measures) if measures.stream.decides else 0)
    if by_phases == measures.steps.recorded.height:
        return PHASES
    return KERNEL_STREAM if not by_phases else f"{KERNEL_STREAM}; {PHASES} for {by_phases} steps"


def _iso(nanoseconds: int) -> str:
    seconds, rest = divmod(nanoseconds, 10**9)
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S") + f".{rest:09d}Z"


def _share(value: float) -> float:
    return round(value, 6)
