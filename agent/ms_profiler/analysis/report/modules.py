"""Modules as a person reads them: a tree with the time of each in a step."""

from typing import Any, Final

from rich.table import Table
from rich.text import Text

from ms_profiler.analysis.report import widths
from ms_profiler.analysis.report.durations import milliseconds

#: rows shown by default, those with most time
ROWS: Final = 14


def title(tree: dict[str, Any]) -> str:
    """Return the title of the table.

    Args:
        tree: `module_tree` of the summary.
    """
    inferred = sum(row["inferred_ms"] for row in tree["rows"] if row["depth"] == 0)
    total = sum(row["total_ms"] for row in tree["rows"] if row["depth"] == 0)
    how = f"; {inferred / total * 100:.0f} % of it inferred from order or parameters" if inferred and total else ""
    of = "by their kernels" if tree["basis"] == "kernels" else "time of a step on the stepping thread"
    return f"Modules, {of}{how}"


def table(tree: dict[str, Any], top: int = ROWS) -> Table:
    """Return the modules with most time, each below the module that contains it.

    Args:
        tree: `module_tree` of the summary.
        top: modules to show.
    """
    table = widths.table("module", "forward", "backward", "optimizer", "total", "self", "share", "calls")
    shown = sorted(sorted(tree["rows"], key=lambda row: -row["total_ms"])[:top], key=tree["rows"].index)
    for row in shown:
        name = row["module"].rpartition(".")[2] if row["depth"] else row["module"]
        times = (_time(row[f"{part}_ms"]) for part in ("forward", "backward", "optimizer", "total", "self"))
        calls = "-" if row["calls"] is None else str(row["calls"])
        table.add_row(Text("  " * row["depth"] + name), *times, f"{row['share'] * 100:5.1f} %", calls)
    share = f"{tree['outside_share'] * 100:5.1f} %"
    table.add_row(Text("(in no module)", style="dim"), "", "", "", milliseconds(tree["outside_ms"]), "", share, "")
    return table


def slow(tree: dict[str, Any] | None) -> list[str]:
    """Return which module made the slowest step slow, if a step was slow.

    Args:
        tree: `module_tree` of the summary; None where no module is known.
    """
    found = tree["slow_step"] if tree else None
    if not found:
        return []
    what = f"step {found['step']} took {milliseconds(found['longer_ms'])} longer than the median step"
    if found["module"] is None:
        return [f"{what}, most of that in no module"]
    return [f"{what}, of which {milliseconds(found['module_longer_ms'])} in {found['module']}"]


def _time(value: float) -> str:
    return milliseconds(value) if value else "-"
