"""Words for a run in which several processes have steps: whose steps are shown, and what the other processes did."""

from typing import Any, Final

from ms_profiler.analysis.driver import liveness
from ms_profiler.analysis.report import remarks
from ms_profiler.analysis.report.durations import milliseconds

#: number of other processes that the line of `others` names
_NAMED: Final = 3
#: usual ways in which a process ends, which the screen does not mention
_ENDED: Final = ("exit", "unknown")


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


def endings(summary: dict[str, Any]) -> list[str]:
    """Return how the processes of the run ended, without usual ends; another process than the main one is named.

    A worker that its parent ended has a usual end, unless the worker has steps.

    Args:
        summary: content of summary.json.
    """
    training = {process["pid"] for process in summary.get("whole_run") or ()}
    own: list[dict[str, Any]] = []
    others: list[dict[str, Any]] = []
    for process in summary["run"]["processes"]:
        steps = process["role"] in ("", "main") or process["pid"] in training
        if process["state"] not in (_ENDED if steps else (*_ENDED, liveness.BY_PARENT)):
            (own if steps else others).append(process)
    states = list(dict.fromkeys(process["state"] for process in own))
    for state in dict.fromkeys(process["state"] for process in others if process["state"] not in states):
        alike = [process for process in others if process["state"] == state]
        who = remarks.who(alike[0]) if len(alike) == 1 else f"{len(alike)} other processes"
        states.append(f"{who}: {state}")
    return states


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
