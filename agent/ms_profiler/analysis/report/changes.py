"""Lasting changes of the step time, and few long steps, as text for people."""

from typing import Any, Final

from ms_profiler.analysis.metrics import bounds, wording
from ms_profiler.analysis.metrics.phases import NAMES, OTHER
from ms_profiler.analysis.report.durations import milliseconds
from ms_profiler.store.format import Category

DATA: Final = NAMES[Category.DATA]
#: the sleep in long steps is told if it takes at least this part of them
MUCH: Final = 0.1
#: modules come first if they make up at least this part of a difference, else the phase with most of it does
EXPLAINED: Final = 0.5
#: what the stepping thread does outside of all phases -> words for it
_OUTSIDE: Final = {
    bounds.BLOCKED: "the stepping thread is asleep or blocked",
    bounds.HOST: "the stepping thread runs code",
}
#: item of a change's `machine` -> words for those who used processors, and what else is known
_USERS: Final = {
    "others": ("other processes used", ""),
    "stolen": ("other virtual machines took", ""),
    "threads": (
        "other threads of this process used",
        ", while the stepping thread was asleep or blocked (it may wait for Python's global interpreter lock)",
    ),
}
#: part of a difference -> words for it; other parts are phases
_PARTS: Final = {
    bounds.BLOCKED: "time asleep or blocked outside of all phases",
    bounds.HOST: "code outside of all phases",
    DATA: "waiting for data",
}
#: phase of which only the time is known -> words for it
_PHASES: Final = {OTHER: "time outside of all phases", DATA: _PARTS[DATA]}


def lines(summary: dict[str, Any]) -> list[str]:
    """Return lines about changes of the step time: lasting ones, a slow period, and steps that are long regularly."""
    lines = [_sudden(found) for name in ("shift", "work_change") if (found := summary.get(name))]
    if slowing := summary.get("slowing"):
        change = _change(slowing["from_ms"], slowing["to_ms"])
        stages = [str(number) for number in slowing.get("stages", ())]
        how = f"in stages, from about steps {wording.series(stages)} on" if stages else "little by little"
        lines.append(f"Steps become longer {how}: {change}; {_causes(slowing, 'meanwhile')}")
    if found := summary.get("slow_period"):
        lines.append(period(found))
    if found := summary.get("recurring_steps"):
        lines.append(recurring(found))
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
    if found["collecting_ms"] >= found["total_ms"] / 2:
        known = f"Python collected garbage for {milliseconds(found['collecting_ms'])}"
    elif found["asleep_ms"] >= MUCH * found["total_ms"]:
        known += f"; the stepping thread was asleep or blocked for {milliseconds(found['asleep_ms'])}"
    were, their = ("were", "their") if found["count"] > 1 else ("was", "its")
    return [
        f"{what} took {found['share'] * 100:.0f} % of the time of all steps, but {were} not sampled, so {their} "
        f"operators and modules are unknown: {known}"
    ]


def period(found: dict[str, Any]) -> str:
    """Return a line about a period of steps that took longer than the others."""
    took, others = milliseconds(found["ms"]), milliseconds(found["others_ms"])
    what = f"Steps {found['first']} to {found['last']} take"
    if long := found.get("long"):
        what = f"{long} of the steps {found['first']} to {found['last']} take"
    text = f"{what} {took}, the others {others} (medians): {found['share'] * 100:.0f} % of the time of all steps"
    return _also(text, _where(found))


def recurring(found: dict[str, Any]) -> str:
    """Return a line about steps that take longer at regular intervals."""
    took, others = milliseconds(found["ms"]), milliseconds(found["others_ms"])
    first, every, long = found["first"], found["every"], found["long"]
    if long == 1:
        what = f"One of {every} steps takes longer (steps {first}, {first + every}, {first + 2 * every}, ...)"
    else:
        series = ", ".join(f"{at} to {at + long - 1}" for at in (first, first + every))
        what = f"{long} of {every} steps take longer, one after another (steps {series}, ...)"
    text = f"{what}: {took}, the others {others} (medians); the difference is {found['share'] * 100:.0f} % of the time"
    return _also(f"{text} of all steps", _mainly(found, found["ms"] - found["others_ms"]))


def _also(text: str, more: str) -> str:
    return f"{text}; {more}" if more else text


def _where(found: dict[str, Any]) -> str:
    """Return words about where most of the difference lies between longer steps and others; empty if unknown."""
    if phase := found.get("phase"):
        return f"most of the difference is in {_part(phase)}"
    if callback := found.get("callback"):
        return f"most of the difference is in the callback {callback}"
    if outside := found.get("outside"):
        calls = found.get("calls")
        mostly = f" (mostly {wording.series(calls['names'])})" if calls and calls["names"] else ""
        does = f", which calls {calls['more']:,.0f} more operators a step{mostly}" if calls else ""
        return f"most of the difference is outside of all phases: {_OUTSIDE[outside]}{does}"
    texts = [f"{_part(item['part'])} ({item['share'] * 100:.0f} %)" for item in found.get("parts", ())]
    return f"the difference is mostly {wording.series(texts)}" if texts else ""


def _part(part: str) -> str:
    return _PARTS.get(part) or f"the phase {part}"


def _machine(found: dict[str, Any] | None, when: str) -> str:
    """Return words about a machine that got busier at a change; empty if it did not.

    Args:
        found: the item `machine` of a change.
        when: words for the time after the change.
    """
    if not found:
        return ""
    words = []
    for name, (what, more) in _USERS.items():
        if each := found.get(name):
            before, after = (f"{each[side]:.2f}" for side in ("before", "after"))
            words.append(f"{what} {after} of {found['processors']} processors ({before} before){more}")
    if waited := found["waited_ms"]:
        times = f"{milliseconds(waited['after'])} of a step ({milliseconds(waited['before'])} before)"
        words.append(f"the stepping thread waited for a processor for {times}")
    return f"{when}, {wording.series(words)}"


def _alike(found: dict[str, Any]) -> str:
    """Return words about a factor by which everything but the named modules changed; empty without one."""
    if not (factor := found.get("alike")):
        return ""
    what, way = "all else" if found["modules"] else "everything", "slower" if factor > 1 else "faster"
    return f"{what} alike, by a factor of {factor:.2f}: the machine became {way}, or all work did"


def _change(before: float, after: float) -> str:
    return f"{milliseconds(before)} -> {milliseconds(after)}"


def _sudden(found: dict[str, Any]) -> str:
    seen = f", seen in {found['together']} sampled steps in a row" if found.get("together") else ""
    begin = f"From {_since(found)} on{seen}"
    if found["before_ms"] is None:
        return f"{begin}, {_other_work(found)}"
    change = _change(found["before_ms"], found["after_ms"])
    return f"{begin}: {change} a step ({found['statistic']}); {_causes(found)}"


def _other_work(found: dict[str, Any]) -> str:
    """Return words about a change that the lengths of the steps do not show."""
    if "counted" in found:
        return f"a step does other work: {_causes(found)}"
    parts = [*found["modules"], *found.get("phases", ())]
    longer = "longer" if parts[0]["after_ms"] > parts[0]["before_ms"] else "less time"
    noun = "part" if found.get("phases") else "module"
    what = f"one {noun} takes" if len(parts) == 1 else f"these {noun}s take"
    return f"{what} {longer}: {_causes(found)}; the lengths of the steps vary too much to show it"


def _since(change: dict[str, Any]) -> str:
    """Return the step with which a change begins, and the range of this step if it is not known exactly."""
    step, earliest, latest = change["step"], change["earliest"], change["latest"]
    if earliest == latest:
        return f"step {step}"
    if "after_step" in change:
        unknown = latest - earliest
        return f"step {step} (or up to {unknown} step{'s' * (unknown > 1)} earlier, which were not sampled)"
    return f"about step {step} (between {earliest} and {latest})"


def _causes(found: dict[str, Any], when: str = "from there on") -> str:
    """Return words about what explains a change: modules, operators, the machine, or where most of the difference lies.

    Args:
        found: the change.
        when: words for the time after the change.
    """
    known = [words for words in (_whose(found), _alike(found), _machine(found.get("machine"), when)) if words]
    return "; ".join(known) or _where(found) or "no single module makes up much of it"


def _mainly(found: dict[str, Any], change_ms: float) -> str:
    """Return words about where a difference lies: modules, after the phase if they make up less than half of it.

    Args:
        found: the difference, with `modules`.
        change_ms: the difference of a step, in milliseconds.
    """
    explained = sum(item["after_ms"] - item["before_ms"] for item in found["modules"])
    whose, where = _whose(found), _where(found)
    if not whose or abs(explained) >= EXPLAINED * abs(change_ms):
        return whose or where
    return f"{where}; {whose}" if where else whose


def _whose(found: dict[str, Any]) -> str:
    counted = found.get("counted", "")
    operators = found.get("operators", ())
    parts = [(item["module"], item) for item in found["modules"]]
    parts += [(_PHASES.get(item["phase"], item["phase"]), item) for item in found.get("phases", ())]
    parts += [(item["operator"], item) for item in operators]
    names = [f"{name} {_change(item['before_ms'], item['after_ms'])}{_work(item, counted)}" for name, item in parts]
    more = f", and {found['more']} more" if found.get("more") else ""
    where = "outside of all phases: " if operators else ""
    return f"{where}{', '.join(names)}{more}"


def _work(part: dict[str, Any], counted: str) -> str:
    if "count_after" not in part:
        return ""
    return f" ({part['count_after']} {counted} in place of {part['count_before']})"
