"""Lasting changes of the step time, as text for people."""

from typing import Any

from ms_profiler.analysis.report.durations import milliseconds


def lines(summary: dict[str, Any]) -> list[str]:
    """Return a line about the sudden or the gradual change of the step time in a summary; nothing if there is none."""
    if shift := summary.get("shift"):
        change = _change(shift["before_ms"], shift["after_ms"])
        return [f"From step {shift['step']} on: {change} a step ({shift['statistic']}); {_whose(shift)}"]
    if slowing := summary.get("slowing"):
        change = _change(slowing["from_ms"], slowing["to_ms"])
        return [f"Steps become longer little by little: {change}; {_whose(slowing)}"]
    return []


def _change(before: float, after: float) -> str:
    return f"{milliseconds(before)} -> {milliseconds(after)}"


def _whose(found: dict[str, Any]) -> str:
    names = [f"{item['module']} {_change(item['before_ms'], item['after_ms'])}" for item in found["modules"]]
    return ", ".join(names) or "no single module makes up much of it"
