"""Lasting changes of the step time, and few long steps, as text for people."""

from typing import Any, Final

from ms_profiler.analysis.metrics import wording
from ms_profiler.analysis.metrics.phases import OTHER
from ms_profiler.analysis.report.durations import milliseconds

#: the sleep in long steps is told if it takes at least this part of them
MUCH: Final = 0.1


def lines(summary: dict[str, Any]) -> list[str]:
    """Return a line about the sudden or the gradual change of the step time in a summary; nothing if there is none."""
    if shift := summary.get("shift"):
        change = _change(shift["before_ms"], shift["after_ms"])
        return [f"From step {shift['step']} on: {change} a step ({shift['statistic']}); {_whose(shift)}"]
    if slowing := summary.get("slowing"):
        change = _change(slowing["from_ms"], slowing["to_ms"])
        return [f"Steps become longer little by little: {change}; {_whose(slowing)}"]
    return []


def long(summary: dict[str, Any]) -> list[str]:
    """Return a line about few steps that were not sampled and take much of the time; nothing if there are none."""
    found = summary.get("long_steps")
    if not found:
        return []
    listed = [f"{item['number']} ({milliseconds(item['ms'])})" for item in found["steps"]]
    what = f"Step{'s' * (found['count'] > 1)} {wording.some(listed, found['count'])}"
    phase, most = next(iter(found["contains_ms"].items()))
    where = "outside of the recorded phases" if phase == OTHER else f"in the phase {phase}"
    known = f"{milliseconds(most)} lie {where}"
    if found["asleep_ms"] >= MUCH * found["total_ms"]:
        known += f"; the stepping thread was asleep or blocked for {milliseconds(found['asleep_ms'])}"
    were, their = ("were", "their") if found["count"] > 1 else ("was", "its")
    return [
        f"{what} took {found['share'] * 100:.0f} % of the time of all steps, but {were} not sampled, so {their} "
        f"operators and modules are unknown: {known}"
    ]


def _change(before: float, after: float) -> str:
    return f"{milliseconds(before)} -> {milliseconds(after)}"


def _whose(found: dict[str, Any]) -> str:
    names = [f"{item['module']} {_change(item['before_ms'], item['after_ms'])}" for item in found["modules"]]
    return ", ".join(names) or "no single module makes up much of it"
