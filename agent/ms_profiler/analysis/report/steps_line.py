"""The line of a summary about the steps: their number, their source, and their lengths."""

from collections.abc import Callable, Iterable
from typing import Any, Final

from ms_profiler.analysis.metrics import wording
from ms_profiler.analysis.report import remarks, stepping
from ms_profiler.analysis.report.durations import milliseconds

#: The line states the cost of recording a step from this share of the median step on.
NOTICED: Final = 0.05
#: smallest time of calls between steps, as a share of the steps, for which the line says that the totals lack them
LACKING: Final = 0.01
#: title of a table -> how to get its rows from a summary; the rows say whether they are scaled to all steps
_SCALED: Final[dict[str, Callable[[dict[str, Any]], Iterable[dict[str, Any]]]]] = {
    "operators": lambda summary: summary["top_operators"],
    "kernels": lambda summary: [summary["kernels"] or {}],
    "modules": lambda summary: summary["modules"],
    "phases": lambda summary: summary["phases"].values(),
}


def line(summary: dict[str, Any]) -> str:
    """Return the line about the steps.

    Args:
        summary: content of summary.json.
    """
    steps, compiled = summary["steps"], summary["compile"]
    if not steps["count"]:
        return "No step was recorded."
    if not stepping.counted(summary):
        return f"{steps['why']}."
    steady = steps["steady"]
    text = f"{steps['count']} steps{stepping.whose(summary)} ({source(steps)}), {_recorded(summary)}: "
    text += f"first {milliseconds(steps['first_ms'])}, {remarks.typical(summary)}"
    if steady["left_out"] and not summary.get("sampling"):
        took = milliseconds(compiled["total_ms"])
        reason = f"compiled or came first, compiling took {took}" if compiled["steps"] else "came first"
        analysed = ", or that ms-profiler interrupted" if steady["interrupted"] else ""
        text += f" (without {steady['left_out']} that {reason}{analysed})"
    worst = ", ".join(f"{item['number']} ({milliseconds(item['ms'])})" for item in steps["slowest"][:3])
    return f"{text}; slowest: {worst}"


def source(steps: dict[str, Any]) -> str:
    """Return the source of the steps in words, with the calls of optimizers in a step that has several of them.

    Args:
        steps: `steps` of a summary.
    """
    name = str(steps["source"]).replace("_", " ")
    calls = [f"{count} {called}" for called, count in (steps.get("cycle") or {}).items()]
    return f"{name}, each of {wording.series(calls)}" if calls else name


def _recorded(summary: dict[str, Any]) -> str:
    """Return the number of recorded steps, and how they were chosen, in words."""
    found, count = summary.get("sampling"), summary["steps"]["recorded"]
    if not found:
        return f"{count} recorded"
    scaled = [title for title, rows in _SCALED.items() if any(row.get("scaled") for row in rows(summary))]
    text = f"{count} sampled in bursts from step {found['first_left_out']} on to keep to overhead_budget"
    if not scaled:
        return text
    titles = wording.series(scaled)
    text += f"; totals of {titles} are estimates for all steps, with standard errors where they are known"
    return f"{text}{_unseen(found)}{_extra(summary)}"


def _unseen(sampling: dict[str, Any]) -> str:
    """Return words that the totals lack the work between steps; empty if some was recorded, or if it hardly counts."""
    between = sampling["calls_between_steps"]
    if not between or between["recorded"] or between["share"] < LACKING:
        return ""
    return "; they lack the calls of networks between steps, because none was sampled"


def _extra(summary: dict[str, Any]) -> str:
    """Return words about the cost of recording that the totals contain; empty if it is small or unknown."""
    paired, usual = (summary.get("cost") or {}).get("paired"), summary["steps"]["steady"]["median_ms"]
    if not paired or not usual or paired["per_step_ms"] < NOTICED * usual:
        return ""
    return f"; they contain the cost of recording, {milliseconds(paired['per_step_ms'])} of a sampled step"
