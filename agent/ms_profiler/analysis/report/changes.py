"""Lasting changes of the step time, and few long steps, as text for people."""

from typing import Any, Final

from ms_profiler.analysis.metrics import wording
from ms_profiler.analysis.metrics.phases import NAMES, OTHER
from ms_profiler.analysis.report.durations import milliseconds
from ms_profiler.store.format import Category

DATA: Final = NAMES[Category.DATA]
#: the sleep in long steps is told if it takes at least this part of them
MUCH: Final = 0.1


def lines(summary: dict[str, Any]) -> list[str]:
    """Return lines about changes of the step time: lasting ones, a slow period, and steps that are long regularly."""
    lines = [_sudden(found) for name in ("shift", "work_change") if (found := summary.get(name))]
    if slowing := summary.get("slowing"):
        change = _change(slowing["from_ms"], slowing["to_ms"])
        lines.append(f"Steps become longer little by little: {change}; {_whose(slowing)}")
    if period := summary.get("slow_period"):
        lines.append(_period(period))
    if recurring := summary.get("recurring_steps"):
        lines.append(_recurring(recurring))
    return lines


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


def _period(found: dict[str, Any]) -> str:
    """Return a line about a period of steps that took longer than the others."""
    took, others = milliseconds(found["ms"]), milliseconds(found["others_ms"])
    text = f"Steps {found['first']} to {found['last']} take {took}, the others {others} (medians): "
    text += f"{found['share'] * 100:.0f} % of the time of all steps"
    return text + _where(found["phase"])


def _recurring(found: dict[str, Any]) -> str:
    """Return a line about steps that take longer at regular intervals."""
    took, others = milliseconds(found["ms"]), milliseconds(found["others_ms"])
    first, every, long = found["first"], found["every"], found["long"]
    if long == 1:
        what = f"One of {every} steps takes longer (steps {first}, {first + every}, {first + 2 * every}, ...)"
    else:
        series = ", ".join(f"{at} to {at + long - 1}" for at in (first, first + every))
        what = f"{long} of {every} steps take longer, one after another (steps {series}, ...)"
    text = f"{what}: {took}, the others {others} (medians); the difference is {found['share'] * 100:.0f} % of the time"
    modules = f"; {_whose(found)}" if found["modules"] else ""
    return f"{text} of all steps{modules or _where(found['phase'])}"


def _where(phase: str | None) -> str:
    """Return the end of a line about longer steps, which names the phase that makes them longer."""
    if phase is None:
        return ""
    return f"; most of the difference is in {'waiting for data' if phase == DATA else f'the phase {phase}'}"


def _change(before: float, after: float) -> str:
    return f"{milliseconds(before)} -> {milliseconds(after)}"


def _sudden(found: dict[str, Any]) -> str:
    seen = f", seen in {found['together']} sampled steps in a row" if found.get("together") else ""
    begin = f"From {_since(found)} on{seen}"
    if found["before_ms"] is None:
        return f"{begin}, a step does other work: {_whose(found)}"
    change = _change(found["before_ms"], found["after_ms"])
    return f"{begin}: {change} a step ({found['statistic']}); {_whose(found)}"


def _since(change: dict[str, Any]) -> str:
    """Return the step with which a change begins, and the range of this step if it is not known exactly."""
    step, earliest, latest = change["step"], change["earliest"], change["latest"]
    if earliest == latest:
        return f"step {step}"
    if "after_step" in change:
        unknown = latest - earliest
        return f"step {step} (or up to {unknown} step{'s' * (unknown > 1)} earlier, which were not sampled)"
    return f"about step {step} (between {earliest} and {latest})"


def _whose(found: dict[str, Any]) -> str:
    counted = found.get("counted", "")
    names = [
        f"{item['module']} {_change(item['before_ms'], item['after_ms'])}{_work(item, counted)}"
        for item in found["modules"]
    ]
    more = f", and {found['more']} more" if found.get("more") else ""
    return f"{', '.join(names)}{more}" if names else "no single module makes up much of it"


def _work(module: dict[str, Any], counted: str) -> str:
    if "count_after" not in module:
        return ""
    return f" ({module['count_after']} {counted} in place of {module['count_before']})"
