"""The summary for a person at a terminal, from `summary.json` alone."""

from collections.abc import Iterator
from typing import Any

from rich.console import Console, Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ms_profiler.store import layout

#: least width where the output goes into a file, which has none: whole names are worth more there than short lines
_FILE_WIDTH = 160
#: width of a bar that stands for 100 %
_BAR = 30
_ROWS = 8
_PIPELINES = 3
#: parts of a step on a device, and what they are called
_STATES = {
    "computing": "computing",
    "not_overlapped": "only communication",
    "overlapped": "both",
    "free": "free",
    "bubble": "bubble",
    "preparing": "preparing",
}
#: what bounds a step, in the order in which it is decided
_PARTS = ("computing", "communication", "data", "compile", "checkpoint", "sync", "launch", "host")


def show(summary: dict[str, Any], directory: str, console: Console | None = None) -> None:
    """Print a summary: the finding first, then where the time went, how it ended, and what is missing.

    Args:
        summary: content of summary.json.
        directory: where it lies, as the reader named it.
        console: where to print; standard output by default, plain when that is no terminal.
    """
    out = console or Console(highlight=False)
    if console is None and not out.is_terminal:
        out.width = max(out.width, _FILE_WIDTH)
    with out.capture() as captured:
        _print(summary, directory, out)
    # tables are padded to the width of the terminal, which is of no use in a file
    out.file.write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))


def _print(summary: dict[str, Any], directory: str, out: Console) -> None:
    out.print(Text(summary["verdict"], style="bold"), soft_wrap=True)
    out.print(_run_line(summary), soft_wrap=True)
    out.print(_steps_line(summary["steps"], summary["compile"]), soft_wrap=True)
    foreign = summary.get("derived") is not None
    sections = [
        ("Device, by step", _device(summary)),
        ("Phases of a step" + (" on the host" if summary.get("device") else ""), _phases(summary)),
        ("What bounds a step, and its critical path", _bounds(summary)),
        (_operators_title(summary), _names(summary["top_operators"])),
        ("Modules", _names(summary["modules"])),
        ("Modules, by their kernels", None if summary["modules"] else _modules(summary["kernels"])),
        ("Data", _dataset(summary["dataset"])),
        *_pipelines(summary.get("dataset_pipelines", [])),
    ]
    for title, table in sections:
        if table is not None:
            out.print(Group(Text(f"\n{title}", style="bold"), Padding(table, (0, 0, 0, 2))))
    for title, lines in (
        ("Memory of tensors", _memory(summary["memory"])),
        ("Utilization", _utilization(summary.get("utilization"))),
        ("Communication", _packets(summary.get("small_packets"))),
        ("Advice", [line for number, item in enumerate(summary["advice"], 1) for line in _advice(number, item)]),
        ("How it ended", [] if foreign else [_end(process) for process in summary["run"]["processes"]]),
        ("Not collected", [f"{item['what']}: {item['why']}" for item in summary["not_collected"]]),
        ("Not complete", _gaps(summary)),
        ("Cost of profiling", [] if foreign else [_cost(summary["cost"])]),
        ("Files", _derived(summary, directory) if foreign else _files(directory)),
    ):
        if lines:
            out.print(Text(f"\n{title}", style="bold"))
            for line in lines:
                out.print(Text(f"  {line}"), soft_wrap=True)


def _run_line(summary: dict[str, Any]) -> Text:
    framework = " ".join(summary["framework"].get(key, "") for key in ("name", "version", "mode", "device"))
    rank = f"rank {summary['rank']} of {summary['world_size']}" if summary["world_size"] > 1 else ""
    parts = [" ".join(framework.split()), rank, summary["host"], f"{summary['run']['duration_s']:.2f} s"]
    return Text(", ".join(part for part in parts if part), style="dim")


def _steps_line(steps: dict[str, Any], compiled: dict[str, Any]) -> Text:
    if not steps["count"]:
        return Text("No step was recorded.")
    if steps["source"] == "whole_run":
        return Text(f"{steps['why']}.")
    steady = steps["steady"]
    text = f"{steps['count']} steps ({steps['source'].replace('_', ' ')}), {steps['recorded']} recorded: "
    text += f"first {_ms(steps['first_ms'])}, median {_ms(steady['median_ms'])}, p95 {_ms(steady['p95_ms'])}"
    if steady["left_out"]:
        text += f" (without {steady['left_out']} that compiled, {_ms(compiled['total_ms'])} in all)"
    worst = ", ".join(f"{item['number']} ({_ms(item['ms'])})" for item in steps["slowest"][:3])
    return Text(f"{text}; slowest: {worst}")


def _operators_title(summary: dict[str, Any]) -> str:
    kernels = summary["kernels"]
    if not kernels or not kernels["count"]:
        return "Operators"
    text = f"Operators, by {kernels['count']:,} kernels of {_ms(kernels['total_ms'])}"
    if summary.get("device"):
        return text
    text += f", {kernels['module_share'] * 100:.0f} % of them bound to a module"
    share = kernels["bound_by_order"] / kernels["count"] * 100
    return f"{text}, {share:.0f} % by order" if share else text


def _device(summary: dict[str, Any]) -> Table | None:
    """Return the steps as the device saw them, or their sum where there are many."""
    device = summary.get("device")
    if not device:
        return None
    table = _table("step", *_STATES.values())
    rows = [(str(step["number"]), step) for step in device["steps"]]
    if len(rows) > _ROWS:
        rows = [("all", device["total"])]
    for name, row in rows:
        table.add_row(name, *(_ms(row[f"{state}_ms"]) for state in _STATES))
    return table


def _phases(summary: dict[str, Any]) -> Table | None:
    if not summary["phases"]:
        return None
    table = _table("phase", "per step", "share", "")
    for name, phase in summary["phases"].items():
        share = phase["steady_share"]
        table.add_row(name, _ms(phase["steady_per_step_ms"]), f"{share * 100:5.1f} %", _bar(share))
    return table


def _bounds(summary: dict[str, Any]) -> Table | None:
    """Return what part of the steps is what, beside what part of their critical paths is."""
    bounds, path = summary.get("bounds"), summary.get("critical_path")
    if not bounds or not path:
        return None
    table = _table("part", "of the steps", "of the path", "")
    for name in [name for name in _PARTS if name in bounds["shares"] or name in path["shares"]]:
        share = path["shares"].get(name, 0.0)
        table.add_row(name, f"{bounds['shares'].get(name, 0.0) * 100:5.1f} %", f"{share * 100:5.1f} %", _bar(share))
    return table


def _utilization(found: dict[str, Any] | None) -> list[str]:
    if not found:
        return []
    parts = []
    if found["mfu"] is not None:
        parts.append(f"MFU {found['mfu'] * 100:.2f} %")
    if found["flops_per_second"] is not None:
        parts.append(f"{found['flops_per_second'] / 1e12:,.6g} TFLOP/s")
    if found["tokens_per_second"] is not None:
        parts.append(f"{found['tokens_per_second']:,.2f} tokens/s")
    return [", ".join(parts)] if parts else ["no step, or too few numbers were given"]


def _packets(found: dict[str, Any] | None) -> list[str]:
    if not found:
        return []
    return [
        f"{found['small']} of {found['count']} exchanges are small packets, less than {found['half_bytes']:,} bytes: "
        f"{found['time_share'] * 100:.1f} % of their time for {found['bytes_share'] * 100:.1f} % of the bytes"
    ]


def _advice(number: int, item: dict[str, Any]) -> Iterator[str]:
    """Yield what speaks for it and where to look, then what to try."""
    step = "" if item.get("step") is None else f"step {item['step']}"
    where = ", ".join(part for part in (step, item.get("lane", "")) if part)
    yield f"{number}. {item['what']}: {item['evidence']}{f' (see {where})' if where else ''}"
    yield f"   {item['action']}"


def _memory(memory: dict[str, Any] | None) -> list[str]:
    if not memory:
        return []
    text = f"at most {memory['peak_mb']:,.2f} MB"
    if memory["peak_step"] is not None:
        text += f", in step {memory['peak_step']}; {memory['first_step_end_mb']:,.2f} MB when the first recorded step "
        text += f"ended, {memory['last_step_end_mb']:,.2f} MB when the last did"
    return [text]


def _names(rows: list[dict[str, Any]]) -> Table | None:
    if not rows:
        return None
    table = _table("name", "self", "total", "calls", "average")
    for row in rows[:_ROWS]:
        table.add_row(
            Text(row["name"]), _ms(row["self_ms"]), _ms(row["total_ms"]), str(row["count"]), _ms(row["average_ms"])
        )
    return table


def _modules(kernels: dict[str, Any] | None) -> Table | None:
    if not kernels or not kernels["by_module"]:
        return None
    table = _table("name", "total", "kernels", "average", "share")
    for row in kernels["by_module"][:_ROWS]:
        share = f"{row['ratio'] * 100:5.1f} %"
        table.add_row(Text(row["name"]), _ms(row["total_ms"]), str(row["count"]), _ms(row["average_ms"]), share)
    return table


def _dataset(rows: list[dict[str, Any]]) -> Table | None:
    if not rows:
        return None
    table = _table("operation", "total", "calls", "average", "longest")
    for row in rows[:_ROWS]:
        table.add_row(
            Text(row["operation"]),
            _ms(row["total_ms"]),
            str(row["count"]),
            _ms(row["average_us"] / 1000),
            _ms(row["max_us"] / 1000),
        )
    return table


def _pipelines(rows: list[dict[str, Any]]) -> Iterator[tuple[str, Table]]:
    for row in [row for row in rows if row["samples"]][:_PIPELINES]:
        table = _table("operator", "workers", "queue", "full", "empty", "processor")
        for operator in row["operators"]:
            table.add_row(
                Text(operator["name"]),
                _or_dash(operator["workers"], "{}"),
                "-"
                if operator["queue_average"] is None
                else f"{operator['queue_average']} of {operator['queue_length']}",
                _or_dash(operator["queue_percent"], "{:.0f} %"),
                _or_dash(operator["empty_percent"], "{:.0f} %"),
                _or_dash(operator["cpu_percent"], "{:.0f} %"),
            )
        found = row["bottleneck"]
        if found is None:
            what = "too few samples to tell which operator is slow"
        elif found["operator"] is None:
            what = f"not the bottleneck: {found['evidence']}"
        else:
            what = f"bottleneck {found['evidence']}"
        yield f"Dataset pipeline {row['number']}, {row['samples']} samples; {what}", table


def _or_dash(value: float | None, form: str) -> str:
    return "-" if value is None else form.format(value)


def _table(first: str, *others: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column(first, overflow="ellipsis", no_wrap=True)
    for name in others:
        table.add_column(name, justify="right" if name else "left", no_wrap=True)
    return table


def _bar(share: float) -> Text:
    return Text("█" * max(round(share * _BAR), 1 if share > 0 else 0), style="cyan")


def _end(process: dict[str, Any]) -> str:
    name = " ".join(str(process[key]) for key in ("role", "name") if process[key])
    how = "still running" if process["state"] == "running" else process["state"]
    return f"{name} (pid {process['pid']}): {how}, last record after {process['last_record_s']:.2f} s"


def _gaps(summary: dict[str, Any]) -> list[str]:
    counts = summary["completeness"]
    words = {
        "dropped": "records were refused (no space, no memory, or a budget)",
        "torn": "records were torn",
        "cut": "records were cut off",
        "unknown": "records are of an unknown kind",
        "backwards": "records end before they start",
        "missing_strings": "records have lost their name",
        "damaged_kernels": "kernels could not be read",
        "damaged_memory": "records of memory could not be read",
        "damaged_events": "events could not be read",
        "unfinished_spans": "spans were still running when their process ended",
    }
    lines = [f"{counts[key]} {text}" for key, text in words.items() if counts.get(key)]
    coverage = summary["coverage"]
    if coverage["timeline_files"] > 1:
        lines.append(
            f"the timeline is in {coverage['timeline_files']} files, each some time of the run: {layout.TRACE_VIEW}, "
            f"{layout.trace_slice(1)} and so on"
        )
    if coverage["kernel_steps"] is not None:
        lines.append(
            f"the timeline and {layout.KERNEL_DETAILS} have the kernels of {len(coverage['kernel_steps'])} steps "
            f"({coverage['kernels_kept']:,} of {coverage['kernels']:,}); the other tables count all of them"
        )
    lines += [f"{item['what']}: from {item['from_s']} s to {item['to_s']} s" for item in counts["lost_windows"]]
    lines += [f"{item['file']}: {item['reason']}" for item in counts["damaged_files"]]
    lines += [f"hook {target}: {reason}" for target, reason in summary["hooks"]["failed"].items()]
    lines += [
        f"the wall clock was set by {item['jump_ns'] / 1e6:.3f} ms during the run; times go on as they began"
        for item in summary["clock"]["wall_steps"]
    ]
    return lines


def _cost(cost: dict[str, Any]) -> str:
    if cost["estimated_ms"] is None:
        return f"{cost['spans']} records; what one costs was not measured in this run"
    share = f" ({cost['share_of_run'] * 100:.2f} % of the run)" if cost["share_of_run"] is not None else ""
    drains = f", and writing kernels {cost['drains']} times" if cost["drains"] else ""
    return f"{cost['spans']} records of {cost['span_ns']:.0f} ns{drains}: about {_ms(cost['estimated_ms'])}{share}"


def _files(directory: str) -> list[str]:
    return [
        directory,
        f"{layout.OUTPUT}/{layout.TRACE_VIEW}: MindStudio Insight; {layout.PERFETTO_TRACE} beside it: https://ui.perfetto.dev",
        f"{layout.OUTPUT}: msprof-analyze and spreadsheets; {layout.SUMMARY}: this page for programs",
    ]


def _derived(summary: dict[str, Any], directory: str) -> list[str]:
    """Return what was added to the result of another tool, and what of that tool's stands in place of it."""
    lines = [directory]
    if written := summary["derived"]["written"]:
        lines.append(f"derived: {', '.join(sorted(written))}")
    if kept := summary["derived"]["kept"]:
        lines.append(f"there before, and left as it is: {', '.join(sorted(kept))}")
    return [*lines, f"{layout.SUMMARY}: this page for programs"]


def _ms(value: float | None) -> str:
    if value is None:
        return "-"
    if value >= 1000:
        return f"{value / 1000:.2f} s"
    return f"{value:.3f} ms" if value < 100 else f"{value:.1f} ms"
