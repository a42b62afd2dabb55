"""Build the table of modules: a tree with the time of each module in a step."""

from typing import Any, Final

from rich.table import Table
from rich.text import Text

from ms_profiler.analysis.metrics import wording
from ms_profiler.analysis.report import widths
from ms_profiler.analysis.report.durations import milliseconds

#: number of rows shown by default; the modules with most time are shown
ROWS: Final = 14
_THOUSANDS: Final = ("", " k", " M", " G", " T")
#: title -> column; a column is shown if any row has a value in it
_FURTHER: Final = {"parameters": "parameters", "forward FLOPs": "forward_flops"}
#: phase -> its name in a sentence
_PHASES: Final = {
    "data": "waiting for data",
    "sync": "waiting for values of tensors",
    "other": "code outside of modules",
}

#: reason for which longer steps are left out -> words for one step, and for several
_LEFT_OUT: Final = {
    "unsteady": ("it compiled, or was among the first", "they compiled, or were among the first"),
    "not recorded": ("it was not recorded", "they were not recorded"),
    "no modules": ("its modules were not recorded", "their modules were not recorded"),
}


def title(tree: dict[str, Any], processes: int, recorded: int = 0) -> str:
    """Return the title of the table.

    Args:
        tree: `module_tree` of the summary.
        processes: the number of processes that have steps.
        recorded: the number of recorded steps, if the modules are only known in some of them; otherwise 0.
    """
    inferred = sum(row["inferred_ms"] for row in tree["rows"] if row["depth"] == 0)
    total = sum(row["total_ms"] for row in tree["rows"] if row["depth"] == 0)
    how = f"; {inferred / total * 100:.0f} % of it inferred from order or parameters" if inferred and total else ""
    if tree["estimated_share"]:
        how += f"; {tree['estimated_share'] * 100:.0f} % of it estimated from the sampled steps"
    of = (
        "by their kernels in the recorded steps"
        if tree["basis"] == "kernels"
        else "time of a step on the stepping thread"
    )
    if recorded and tree["basis"] == "host":
        of += f", in the first, the slowest, the last and some other steps ({tree['steps']} of {recorded})"
    if tree["host"]:
        how += "; host: time of a step on the stepping thread"
    whose = f" of pid {tree['process']}" if processes > 1 else ""
    return f"Modules{whose}, {of}{how}"


def table(tree: dict[str, Any], top: int = ROWS) -> Table:
    """Return a table of the modules with most time. Each module is below the module that contains it.

    Args:
        tree: `module_tree` of the summary.
        top: the number of modules to show.
    """
    further = [name for name in _FURTHER if any(row[_FURTHER[name]] is not None for row in tree["rows"])]
    on_host = ("host", "host self") if tree["host"] else ()
    titles = ("module", "forward", "backward", "optimizer", "total", "self", "share", *on_host, "calls", *further)
    table = widths.table(*titles)
    ranked = sorted(tree["rows"], key=lambda row: -_weight(row, tree))
    shown = sorted(ranked[:top], key=tree["rows"].index)
    for row in shown:
        name = row["module"].rpartition(".")[2] if row["depth"] else row["module"]
        times = (_time(row[f"{part}_ms"]) for part in ("forward", "backward", "optimizer", "total", "self"))
        calls = "-" if row["calls"] is None else str(row["calls"])
        table.add_row(
            Text("  " * row["depth"] + name),
            *times,
            f"{row['share'] * 100:5.1f} %",
            *(_time(row[f"{title.replace(' ', '_')}_ms"]) for title in on_host),
            calls,
            *(_count(row[_FURTHER[name]]) for name in further),
        )
    share = f"{tree['outside_share'] * 100:5.1f} %"
    table.add_row(
        Text("(in no module)", style="dim"),
        "",
        "",
        "",
        milliseconds(tree["outside_ms"]),
        "",
        share,
        *("" for _ in (*on_host, "calls", *further)),
    )
    return table


def _weight(row: dict[str, Any], tree: dict[str, Any]) -> float:
    """Return the share of a module in the time of kernels, or in that of the stepping thread if that is larger."""
    on_host = row["host_ms"] / (tree["host"]["whole_ms"] or 1) if tree["host"] else 0.0
    return max(float(row["share"]), float(on_host))


def slow(tree: dict[str, Any] | None) -> list[str]:
    """Return a line about the cause of the slowest step; no line if the summary has no such step.

    The search for the slowest step leaves some steps out. If some of them took longer, further lines say so.

    Args:
        tree: `module_tree` of the summary; None where no module is known.
    """
    found = tree["slow_step"] if tree else None
    if not found:
        return []
    return [_slow(found), *(_longer(reason, each) for reason, each in found["longer"].items())]


def _longer(reason: str, longer: dict[str, Any]) -> str:
    """Return a sentence about steps that took longer than the slowest compared step, and why they are left out."""
    several, count = longer["count"] > 1, longer["count"]
    numbers = wording.series([str(number) for number in longer["steps"]])
    what = f"steps {numbers}" if several else f"step {numbers}"
    if count > len(longer["steps"]):
        what = f"{count} steps, the longest of them {numbers},"
    return f"{what} took longer, but {'are' if several else 'is'} left out here: {_LEFT_OUT[reason][several]}"


def _slow(found: dict[str, Any]) -> str:
    """Return a sentence that says why a step took longer than the median step.

    Args:
        found: `module_tree.slow_step` of the summary.
    """
    longer = milliseconds(found["longer_ms"])
    what = f"step {found['step']} took {longer} longer than the median step"
    if found["earlier_steps"] is not None:
        first, last = found["earlier_steps"]
        steps = f"step {first}" if first == last else f"steps {first} to {last}"
        return f"{what}; kernels that {steps} had queued ran in it for {milliseconds(found['earlier_ms'])}"
    if found["module"] is not None:
        where, part_ms = found["module"], found["module_longer_ms"]
    elif found["phase"] is not None:
        where, part_ms = _PHASES.get(found["phase"], found["phase"]), found["phase_longer_ms"]
    else:
        return f"{what}; no module and no phase accounts for most of that"
    part = milliseconds(part_ms)
    if part == longer:
        return f"{what}, all of it in {where}"
    if part_ms > found["longer_ms"]:
        return f"{what}, all of it in {where} (+{part}; the rest of the step was shorter than usual)"
    return f"{what}, of which {part} in {where}"


def gaps(tree: dict[str, Any] | None) -> list[str]:
    """Return a line that says why the table has empty cells; an empty list if no cell is empty.

    Args:
        tree: `module_tree` of the summary; None where no module is known.
    """
    rows = [] if tree is None else [row for row in tree["rows"] if row["forward_ms"] + row["backward_ms"] > 0]
    found = []
    for title, name in _FURTHER.items():
        missing = sum(row[name] is None for row in rows)
        why = tree["absent"].get("flops" if name.endswith("flops") else name) if tree else None
        if why and 0 < missing < len(rows):
            found.append(f"{title} of {missing} modules: {why}")
    return found


def _count(value: float | None) -> str:
    """Return a count as text with three digits and a letter for thousands, millions and so on."""
    if value is None:
        return "-"
    place = 0
    while value >= 999.5 and place < len(_THOUSANDS) - 1:
        value, place = value / 1000, place + 1
    return f"{value:.3g}{_THOUSANDS[place]}"


def _time(value: float) -> str:
    return milliseconds(value) if value else "-"
