"""Words for a run in which several processes have steps: whose steps are shown, and what the other processes did."""

from typing import Any, Final

from ms_profiler.analysis.report import remarks
from ms_profiler.analysis.report.durations import milliseconds

#: number of other processes that the line of `others` names
_NAMED: Final = 3


def whose(summary: dict[str, Any]) -> str:
    """Return words that name the process whose steps are shown; empty if no other process has steps.

    Args:
        summary: content of summary.json.
    """
    processes = summary.get("whole_run") or []
    if len(processes) < 2:
        return ""
    return f" of {remarks.who(processes[0])}, one of {len(processes)} processes that have steps"


def others(summary: dict[str, Any]) -> list[str]:
    """Return a line with the number of steps of each other process, and their median.

    Args:
        summary: content of summary.json.
    """
    rest: list[dict[str, Any]] = (summary.get("whole_run") or [])[1:]
    if not rest:
        return []
    named = [
        f"{remarks.who(each)} {each['steps']} steps, median {milliseconds(each['step_median_ms'])}"
        for each in rest[:_NAMED]
    ]
    more = f"; {len(rest) - _NAMED} more with --all" * (len(rest) > _NAMED)
    return [f"The other{'s' * (len(rest) > 1)}: {'; '.join(named)}{more}"]


def everywhere(summary: dict[str, Any]) -> str:
    """Return words for sums over all processes of the run; empty if only one process has steps.

    Args:
        summary: content of summary.json.
    """
    return " of all processes" * (len(summary.get("whole_run") or ()) > 1)


def counted(summary: dict[str, Any]) -> bool:
    """Return whether a run has steps that were marked or found. Otherwise the whole run counts as one step.

    Args:
        summary: content of summary.json.
    """
    return bool(summary["steps"]["source"] != "whole_run")


def unknown(summary: dict[str, Any]) -> bool:
    """Return whether a run has no steps, and nothing else is known about its time.

    Args:
        summary: content of summary.json.
    """
    return not counted(summary) and bool(summary["finding"]["kind"] == "nothing")
