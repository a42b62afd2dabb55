"""Print the whole summary of a run for a person at a terminal. `summary.json` is the only source."""

from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ms_profiler.analysis.metrics.stretches import AWAY
from ms_profiler.analysis.report import changes, functions, modules, remarks, stacks, stepping, steps_line, widths
from ms_profiler.analysis.report.bounded import PARTS
from ms_profiler.analysis.report.console import Terminal
from ms_profiler.analysis.report.durations import milliseconds as _ms

#: smallest line width for output into a file: whole names matter more there than short lines
_FILE_WIDTH = 200
#: number of cells of a bar for 100 %
_BAR = 30
#: indentation of the text under a title, in cells
_INDENT = 2
#: number of rows of a table; the names with most time are shown
_ROWS = 8
#: largest number of steps that are listed one by one; for more steps the sum is shown
_STEPS = 8
_PIPELINES = 3
#: part of a step on a device -> its title
_STATES = {
    "length": "on the device",
    "computing": "computing",
    "overlapped": "beside communication",
    "not_overlapped": "only communication",
    "copying": "only copies",
    "idle": "idle",
}
#: phases that are listed only for the steps, and only if they are among the longest: they say little about a part
_UNTOLD = ("other", "not recorded")
#: number of phases that are listed for a part of the run; the longest are listed
_CONTAINED = 3
#: If several processes have steps, a table has a row for each process. These parts of the run are its columns.
_OF_A_PROCESS = ("import", "set-up", "steps", "evaluation", "rollout")


def show(summary: dict[str, Any], directory: str, console: Console | None = None, top: int | None = None) -> None:
    """Print a summary: the finding, the division of the time, the end of the run, and missing data.

    Args:
        summary: content of summary.json.
        directory: the result directory, as the user named it.
        console: where to print; standard output by default, without colours if it is not a terminal.
        top: number of rows of each table of operators, modules and dataset operations; by default 14 for modules, and 8
            for operators and dataset operations.
    """
    out = console or page()
    with out.capture() as captured:
        _print(summary, directory, out, top)
    # Rich pads tables with blanks to the width of the terminal; a file needs no blanks at the ends of lines
    out.file.write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))


def page() -> Console:
    """Return a console for standard output. If it is not a terminal, lines are wide enough for whole names."""
    out = Terminal(highlight=False)
    if not out.is_terminal:
        out.width = max(out.width, _FILE_WIDTH)
    return out


def _print(summary: dict[str, Any], directory: str, out: Console, top: int | None) -> None:
    for head in (
        Text(summary["verdict"], style="bold"),
        *(Text(line, style="bold") for line in changes.long(summary)),
        run_line(summary),
        Text(steps_line.line(summary)),
        *map(Text, changes.lines(summary)),
        *map(Text, remarks.head(summary)),
    ):
        widths.lines(head, out)
    foreign = summary.get("derived") is not None
    sections = [
        *_whole_run(summary.get("whole_run"), summary["run"]["duration_s"]),
        ("Device, by step", _device(summary)),
        (_phases_title(summary), _phases(summary)),
        (f"What bounds a step{', and its critical path' * bool(summary.get('critical_path'))}", _bounds(summary)),
        *_stacks(summary.get("stacks")),
        *_functions(summary.get("functions"), top or _ROWS),
        (_operators_title(summary), names(summary["top_operators"][: top or _ROWS])),
        _modules(summary, top or modules.ROWS),
        ("Data", _calls(summary["dataset"], "operation", top or _ROWS)),
        *_pipelines(summary.get("dataset_pipelines", [])),
        ("Callbacks, in and outside of steps", _calls(summary.get("callbacks", []), "callback", top or _ROWS)),
    ]
    for title, table in sections:
        if table is not None:
            out.print()
            widths.lines(Text(title, style="bold"), out)
            out.print(Padding(widths.fitted(table, out.width - _INDENT), (0, 0, 0, _INDENT)))
    for title, lines in (
        ("Slowest step", modules.slow(summary.get("module_tree"))),
        ("Memory of tensors", _memory(summary["memory"], summary.get("module_tree"))),
        ("Memory of processes", remarks.memory(summary.get("host_memory"))),
        ("Utilization", utilization(summary.get("utilization"))),
        ("Communication", _packets(summary.get("small_packets"))),
        ("Advice", [line for number, item in enumerate(summary["advice"], 1) for line in _advice(number, item)]),
        ("The machine", remarks.machine(summary)),
        ("How it ended", [] if foreign else [remarks.end(process) for process in summary["run"]["processes"]]),
        (
            "Not collected",
            [
                *(f"{item['what']}: {item['why']}" for item in summary["not_collected"]),
                *modules.gaps(summary.get("module_tree")),
            ],
        ),
        ("Not complete", remarks.gaps(summary)),
        ("Cost of profiling", [] if foreign else [remarks.cost(summary["cost"])]),
        ("Files", remarks.derived(summary, directory) if foreign else remarks.files(directory)),
    ):
        if lines:
            out.print(Text(f"\n{title}", style="bold"))
            for line in lines:
                widths.lines(Text(line), out, " " * _INDENT)


def run_line(summary: dict[str, Any]) -> Text:
    """Return a line with framework, rank, host and length of a run."""
    framework = " ".join(summary["framework"].get(key, "") for key in ("name", "version", "mode", "device"))
    rank = f"rank {summary['rank']} of {summary['world_size']}" if summary["world_size"] > 1 else ""
    parts = [" ".join(framework.split()), rank, summary["host"], f"{summary['run']['duration_s']:.2f} s"]
    return Text(", ".join(part for part in parts if part), style="dim")


def _whole_run(processes: list[dict[str, Any]] | None, seconds: float) -> Iterator[tuple[str, Table]]:
    """Yield the parts of the run and, if several processes have steps, a line for each process."""
    if not processes:
        return
    table = widths.table("part", "time", "of the run", "", "contains")
    # only the last column may be broken into lines, so that the figures keep their width
    table.columns[-1].justify, table.columns[-1].no_wrap = "left", False
    for part in processes[0]["parts"]:
        inside = [f"{name} {_ms(time)}" for name, time in _told(part)]
        share = f"{part['share'] * 100:5.1f} %"
        table.add_row(part["part"], _ms(part["total_ns"] / 1e6), share, _bar(part["share"]), ", ".join(inside))
    several = len(processes) > 1
    of = f", its steps those of {remarks.who(processes[0])}" if several else ""
    yield f"The whole run, {seconds:.2f} s{of}", table
    if several:
        yield "Processes that have steps", _stepping(processes)


def _told(part: dict[str, Any]) -> list[tuple[str, float]]:
    """Return the phases that are listed for a part of the run, with their times in ms, the longest first."""
    ordered = sorted(part["contains_ms"].items(), key=lambda item: -item[1])
    named = [item for item in ordered if item[0] not in (*_UNTOLD, part["part"])][:_CONTAINED]
    if part["part"] != "steps":
        return named
    return [item for place, item in enumerate(ordered) if item in named or place < _CONTAINED]


def _stepping(processes: list[dict[str, Any]]) -> Table:
    table = widths.table("process", "steps", "median", *_OF_A_PROCESS, "rest")
    for process in processes:
        parts = {part["part"]: part["total_ns"] for part in process["parts"] if part["part"] != AWAY}
        listed = [parts.pop(name, 0) for name in _OF_A_PROCESS]
        times = [_ms(time / 1e6) for time in (*listed, sum(parts.values()))]
        table.add_row(remarks.who(process), str(process["steps"]), _ms(process["step_median_ms"]), *times)
    return table


def _operators_title(summary: dict[str, Any]) -> str:
    kernels = summary["kernels"]
    if not kernels or not kernels["count"]:
        traced = summary["compile"].get("operators", {}).get("count", 0)
        title = f"Operators{stepping.everywhere(summary)}"
        return title + f", without {traced:,} calls that compilers made on no data" * bool(traced)
    counted = f"{kernels['count']:,} kernels of {_ms(kernels['total_ms'])}"
    if kernels["scaled"]:
        counted = f"{kernels['count']:,} recorded kernels, scaled to {_ms(kernels['total_ms'])} for all steps"
    if summary.get("device"):
        return f"{remarks.listed(summary)}: {counted}"
    text = f"Operators, by {counted}, {kernels['module_share'] * 100:.0f} % of them bound to a module"
    for how in ("by_parameter", "by_order"):
        share = kernels[f"bound_{how}"] / kernels["count"] * 100
        text += f", {share:.0f} % {how.replace('_', ' ')}" if share else ""
    return text


def names(rows: list[dict[str, Any]], title: str = "name", indent: str = "", least: float = 0.0) -> Table | None:
    """Return a table of operators with their times; None without operators.

    Args:
        rows: the operators, as in `top_operators` of a summary.
        title: title of the first column.
        indent: what comes before each name.
        least: show the standard errors of scaled totals if one of them is unknown, or at least this share of its total.
    """
    if not rows:
        return None
    errors = [(row.get("scaled"), row.get("total_ms_error"), row["total_ms"]) for row in rows]
    shown = any(scaled and (error is None or error >= least * total) for scaled, error, total in errors)
    table = widths.table(title, "self", "total", *(["±"] if shown else []), "calls", "average")
    for row, (_, error, _) in zip(rows, errors, strict=True):
        own = ["-" if error is None else _ms(error)] if shown else []
        figures = (_ms(row["self_ms"]), _ms(row["total_ms"]), *own, str(row["count"]), _ms(row["average_ms"]))
        table.add_row(Text(f"{indent}{row['name']}"), *figures)
    return table


def device_time(summary: dict[str, Any]) -> dict[str, Any] | None:
    """Return how long the steps took on the device: `total`, and `steps` with an entry per step; None if unknown.

    Args:
        summary: content of summary.json.
    """
    device = summary.get("device") or {}
    time: dict[str, Any] | None = device.get("time")
    unknown = device.get("form") == "kineto" and summary["framework"].get("device") in ("", "CPU")
    return None if not time or unknown else time


def _device(summary: dict[str, Any]) -> Table | None:
    """Return a table of the steps on the device, or of their sums if there are many; None without a device."""
    time = device_time(summary)
    if time is None or time["total"]["idle_ms"] >= time["total"]["length_ms"]:
        return None  # nothing is known to have run
    table = widths.table("step", *_STATES.values())
    rows = [(str(step["number"]), step) for step in time["steps"]]
    if len(rows) > _STEPS:
        rows = [("steady steps", time["steady"]), ("all", time["total"])]
    for name, row in rows:
        table.add_row(name, *(_ms(row[f"{state}_ms"]) for state in _STATES))
    return table


def _phases(summary: dict[str, Any]) -> Table | None:
    if not summary["phases"]:
        return None
    queued = _queued(summary)
    table = widths.table("phase", "per step", "of the steady steps", "", *(["kernels per step"] if queued else []))
    for name, phase in summary["phases"].items():
        if not (share := phase["steady_share"]):
            continue
        own = [_ms(queued[name]) if name in queued else "-"] if queued else []
        table.add_row(name, _ms(phase["steady_per_step_ms"]), f"{share * 100:5.1f} %", _bar(share), *own)
    return table


def _phases_title(summary: dict[str, Any]) -> str:
    if _queued(summary):
        return "Phases of a step on the host, which queues kernels ahead, and the time of these kernels"
    return "Phases of a step" + (" on the host" if summary.get("device") else "")


def _queued(summary: dict[str, Any]) -> dict[str, float]:
    """Return phase -> time of its kernels, ms a step. It is empty if the host does not queue kernels ahead."""
    kernels = summary["kernels"]
    if not kernels or summary.get("device"):
        return {}
    parts: dict[str, float] = kernels["by_part_per_step_ms"]
    return parts if parts.keys() & summary["phases"].keys() else {}


def _bounds(summary: dict[str, Any]) -> Table | None:
    """Return a table of what bounds a step: the share of each part in the steps, and in their critical paths."""
    bounds, path = summary.get("bounds"), summary.get("critical_path")
    if not bounds or stepping.unknown(summary):
        return None
    followed = path["shares"] if path else {}
    table = widths.table("part", "of the steady steps", *(["of their path"] if path else []), "")
    for name in [name for name in PARTS if name in bounds["shares"] or name in followed]:
        shares = [bounds["shares"].get(name, 0.0), *([followed.get(name, 0.0)] if path else [])]
        table.add_row(PARTS[name] or name, *(f"{share * 100:5.1f} %" for share in shares), _bar(shares[-1]))
    return table


def _stacks(found: dict[str, Any] | None) -> list[tuple[str, Table | None]]:
    return [(stacks.title(found), stacks.table(found))] if found else []


def _functions(found: dict[str, Any] | None, top: int) -> list[tuple[str, Table | None]]:
    return [(functions.title(found), functions.table(found, top))] if found else []


def utilization(found: dict[str, Any] | None) -> list[str]:
    """Return lines with MFU, FLOP/s and tokens/s, if the user stated the operations and tokens of a step.

    Args:
        found: `utilization` of summary.json.
    """
    if not found:
        return []
    parts = []
    if found["mfu"] is not None:
        parts.append(f"MFU {found['mfu'] * 100:.2f} %")
    if found["flops_per_second"] is not None:
        parts.append(f"{found['flops_per_second'] / 1e12:,.6g} TFLOP/s")
    if found["tokens_per_second"] is not None:
        parts.append(f"{found['tokens_per_second']:,.2f} tokens/s")
    return [", ".join(parts)] if parts else ["no step was recorded, or too few numbers were given"]


def _packets(found: dict[str, Any] | None) -> list[str]:
    if not found:
        return []
    return [
        f"{found['small']} of {found['count']} exchanges are small packets, less than {found['half_bytes']:,} bytes: "
        f"{found['time_share'] * 100:.1f} % of their time for {found['bytes_share'] * 100:.1f} % of the bytes"
    ]


def _advice(number: int, item: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of one advice: first its evidence and the place of the evidence, then the action to take."""
    step = "" if item.get("step") is None else f"step {item['step']}"
    where = ", ".join(part for part in (step, item.get("lane", "")) if part)
    yield f"{number}. {item['what']}: {item['evidence']}{f' (see {where})' if where else ''}"
    yield f"   {item['action']}"


def _memory(memory: dict[str, Any] | None, tree: dict[str, Any] | None) -> list[str]:
    if not memory:
        return []
    text = f"{memory['component']}: at most {memory['peak_mb']:,.2f} MiB"
    if memory["peak_step"] is not None:
        inside = memory["peak_step_mb"] == memory["peak_mb"]
        text += "" if inside else f", outside of the recorded steps; in these at most {memory['peak_step_mb']:,.2f} MiB"
        text += f", in step {memory['peak_step']}; {memory['first_step_end_mb']:,.2f} MiB when the first step "
        text += f"ended, {memory['last_step_end_mb']:,.2f} MiB when the last did"
    if memory.get("at_peak"):
        return [text, *remarks.peak(memory)]
    why = tree["absent"].get("memory") if tree else None
    return [text, f"by module: {why}"] if why else [text]


def _modules(summary: dict[str, Any], top: int) -> tuple[str, Table | None]:
    tree = summary.get("module_tree")
    if not tree:
        return "", None
    recorded = 0 if summary["coverage"]["detailed_steps"] is None else summary["steps"]["recorded"]
    return modules.title(tree, len(summary.get("whole_run") or ()), recorded), modules.table(tree, top)


def _calls(rows: list[dict[str, Any]], column: str, top: int) -> Table | None:
    if not rows:
        return None
    table = widths.table(column, "total", "calls", "average", "longest")
    for row in rows[:top]:
        table.add_row(
            Text(row[column]),
            _ms(row["total_ms"]),
            str(row["count"]),
            _ms(row["average_us"] / 1000),
            _ms(row["max_us"] / 1000),
        )
    return table


def _pipelines(rows: list[dict[str, Any]]) -> Iterator[tuple[str, Table]]:
    for row in [row for row in rows if row["samples"]][:_PIPELINES]:
        table = widths.table("operator", "workers", "queue", "full", "empty", "processor")
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


def _bar(share: float) -> Text:
    return Text("█" * max(round(share * _BAR), 1 if share > 0 else 0), style="cyan")
