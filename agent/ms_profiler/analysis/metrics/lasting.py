"""Find what changed for good during a run: the length of steps, or the work of a module."""

import itertools
import math
from dataclasses import replace
from typing import Any, Final

import polars as pl

from ms_profiler.analysis.metrics import (
    alike_changes,
    change_range,
    extra_phase,
    machine_changes,
    outside_work,
    phases,
    shifts,
    slowing,
    work_changes,
)
from ms_profiler.analysis.metrics.ownership import Ownership
from ms_profiler.analysis.metrics.steps import Steps
from ms_profiler.analysis.model import tables

#: Both kinds of changes are one change if they name the same module and are at most this part of the steps apart. On a
#: disturbed machine, the lengths of steps do not tell the place of a small change exactly.
NEAR: Final = 0.05
#: The lengths of steps tell the place of a change of the work only if the modules explain at least this part of the
#: change of the lengths. Otherwise the speed of the machine may have changed at another step.
EXPLAINED: Final = 0.5


def summary(
    steps: Steps,
    found: Ownership | None,
    spans: pl.DataFrame,
    on_host: Ownership | None = None,
    tasks: pl.DataFrame | None = None,
    recording: tables.Recording | None = None,
) -> dict[str, dict[str, Any] | None]:
    """Return the lasting changes of a run as the summary has them.

    Args:
        steps: the steps in use.
        found: the owners of the time of sampled steps; None if no module is known.
        spans: table of the run's spans, with the columns of `tables.SPANS`.
        on_host: the owners of the stepping thread's time, if launching bounds the steps and `found` has the times of
            kernels. The kernels of a module may then take little of a step, and launching them may take much of it.
        tasks: the number of a device's tasks in each step, `step` and `count`; None if unknown.
        recording: the run; None if nothing is known of the machine.

    Returns:
        `shift`, `work_change` and `slowing`, each None if nothing changed. If the lengths of steps show no sudden
        change, `shift` is the change of the modules' work, or of the operators that the script calls outside of them if
        these take more time. `work_change` is None if `shift` states the same change.
        If the lengths show a change, it also has `machine` (`machine_changes.told`) and `alike` (`alike_changes.told`),
        and if nothing explains it, where most of it lies (`extra_phase.where`).
    """
    # if launching takes most of a step, a module's kernels say little about its time
    owners = [found] if on_host is None else [on_host, found]
    shift, found = _of_lengths(steps, owners, spans)
    named = _modules(shift)
    changes = _changes(steps, shift, owners, spans, tasks, None if recording is None else recording.names)
    shift, gradual = changes["shift"], changes["slowing"]
    work, beside, owner = changes["work_change"], steps, found
    if shift is not None and work is not None and _far(steps, shift, work) and named & _modules(work):
        beside, (owner,) = _apart(steps, shift, work, [found])
    if shift is not None and (shift["before_ms"] is not None or "counted" not in shift):
        starts = steps.table.filter(pl.col("number").is_in([shift["earliest"], shift["latest"]]))["start_ns"]
        later = shifts.around(beside, (starts[0], starts[-1]))
        if shift["before_ms"] is None:
            told = _beyond_waits(shift, later, beside, owner, recording)
            changes["shift"], changes["work_change"] = (told, work) if told is not None else (work, None)
        else:
            lengths = shift["before_ms"], shift["after_ms"]
            changes["shift"] = _explained(shift, lengths, later, beside, owner, spans, recording)
    if gradual is not None:
        lengths = gradual["from_ms"], gradual["to_ms"]
        changes["slowing"] = _explained(gradual, lengths, slowing.sides(steps), steps, found, spans, recording)
    return changes


def _explained(
    change: dict[str, Any],
    lengths_ms: tuple[float, float],
    later: pl.Series,
    steps: Steps,
    found: Ownership | None,
    spans: pl.DataFrame,
    recording: tables.Recording | None,
) -> dict[str, Any]:
    """Return a change of the steps' length with what explains it: the machine, all parts alike, or the place of most.

    Args:
        change: the change, with `modules`.
        lengths_ms: the length of a step before the change and after it.
        later: whether each step is after the change; None for a step of neither side.
        steps: the steps in use.
        found: the owners of the time of `modules`; None if no module is known.
        spans: table of the run's spans, with the columns of `tables.SPANS`.
        recording: the run; None if nothing is known of the machine.
    """
    longer = lengths_ms[1] > lengths_ms[0]
    if recording is not None:
        change = _listed(machine_changes.told(change, later, longer, recording, steps, found), change)
    if change.get("machine"):
        return change
    change = _listed(alike_changes.told(change, lengths_ms, later, steps, found, spans), change)
    named = change["modules"] or change.get("operators") or change.get("phases")
    if named or change["alike"] or not later.any():
        return change
    known = () if recording is None else (recording.looks, recording.names)
    return change | extra_phase.where(steps, later if longer else ~later, spans, *known)


def _beyond_waits(
    change: dict[str, Any],
    later: pl.Series,
    steps: Steps,
    found: Ownership | None,
    recording: tables.Recording | None,
) -> dict[str, Any] | None:
    """Return a change that only the times of modules show, with `machine`; None if waits for a processor explain it.

    Args:
        change: the change, with `modules`.
        later: whether each step is after the change; None for a step of neither side.
        steps: the steps in use.
        found: the owners of the time of `modules`.
        recording: the run; None if nothing is known of the machine.
    """
    if recording is None:
        return change
    phased = [{"module": each["phase"], **each} for each in change.get("phases", ())]
    every = change | {"modules": change["modules"] + phased}
    longer = every["modules"][0]["after_ms"] > every["modules"][0]["before_ms"]
    told = machine_changes.told(every, later, longer, recording, steps, found)
    kept = [each for each in change["modules"] if each in told["modules"]]
    aside = [each for each, item in zip(change.get("phases", ()), phased, strict=True) if item in told["modules"]]
    told = _listed(told | {"modules": kept} | ({"phases": aside} if aside else {}), change)
    if not aside:
        told.pop("phases", None)
    return told if kept or aside else None


def _listed(change: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    """Return a change without the number of further modules if some of its modules were left out."""
    fewer = "more" in change and len(change["modules"]) < len(before["modules"])
    return change | {"more": 0} if fewer else change


def _of_lengths(
    steps: Steps, owners: list[Ownership | None], spans: pl.DataFrame
) -> tuple[dict[str, Any] | None, Ownership | None]:
    """Return the change of the steps' length, and the owners of the time of its modules.

    Args:
        steps: the steps in use.
        owners: the owners of the time of sampled steps, the preferred ones first.
        spans: table of the run's spans.
    """
    first = shifts.shift(steps, owners[0], spans), owners[0]
    found = itertools.chain([first], ((shifts.shift(steps, each, spans), each) for each in owners[1:]))
    return next((each for each in found if each[0] is not None and each[0]["modules"]), first)


def _changes(
    steps: Steps,
    shift: dict[str, Any] | None,
    owners: list[Ownership | None],
    spans: pl.DataFrame,
    tasks: pl.DataFrame | None,
    names: pl.Series | None,
) -> dict[str, dict[str, Any] | None]:
    """Return the lasting changes as `summary` does, before the records of the machine are examined.

    Args:
        steps: the steps in use.
        shift: the change of the steps' length.
        owners: the owners of the time of sampled steps, the preferred ones first, those of a device's time last.
        spans: table of the run's spans.
        tasks: the number of a device's tasks in each step; None if unknown.
        names: texts by row; None if they are unknown.
    """
    gradual = slowing.slowing(steps, owners[0]) if shift is None else None
    same = shifts.alike(steps)
    found = (work_changes.shift(same, steps, each, spans, tasks, owners[-1]) for each in owners)
    work = next((each for each in found if each is not None), None)
    outside = None if names is None else outside_work.shift(same, steps, spans, names)
    if outside is not None and (work is None or _gain_ms(outside) > _gain_ms(work)):
        work = outside
    if shift is None or work is None:
        return {"shift": shift or work, "work_change": None, "slowing": gradual}
    counted = {each["module"]: each for each in work["modules"]}
    both = [each | counted.get(each["module"], {}) for each in shift["modules"]]
    far, common = _far(steps, shift, work), any("count_after" in each for each in both)
    if far and common:
        # the steps after the other change have another work: without them, the module may not have changed
        shift = _of_lengths(*_apart(steps, shift, work, owners), spans)[0]
        return {"shift": shift or work, "work_change": work if shift else None, "slowing": None}
    if not far and not shift["modules"] and "operators" in work:
        told = {name: work[name] for name in ("operators", "counted", "more")}
        aside = [each for each in shift.pop("phases", ()) if each["phase"] != phases.OTHER]  # the operators are there
        return {"shift": shift | told | ({"phases": aside} if aside else {}), "work_change": None, "slowing": None}
    if far or not common:
        return {"shift": shift, "work_change": work, "slowing": None}
    # both tell one change; the numbers of operators tell for certain between which steps it lies
    if shift["before_ms"] is None:
        return {"shift": work, "work_change": None, "slowing": None}
    numbers = steps.table["number"]
    bounds = numbers.index_of(work["earliest"]), numbers.index_of(work["latest"])
    assert bounds[0] is not None and bounds[1] is not None
    more = sum(each["after_ms"] - each["before_ms"] for each in both if "count_after" in each)
    explained = more / (shift["after_ms"] - shift["before_ms"]) >= EXPLAINED
    outside = shift["latest"] < work["earliest"] or shift["earliest"] > work["latest"]
    if outside or not explained or not change_range.is_clear(steps, (bounds[0], bounds[1])):
        return {"shift": work, "work_change": None, "slowing": None}
    moment = int(steps.table["start_ns"][numbers.index_of(shift["step"]) or 0])
    place = change_range.numbers(steps, change_range.of_lengths(steps, moment, (bounds[0], bounds[1])))
    one = shift | place | {"modules": both, "counted": work["counted"]}
    return {"shift": one, "work_change": None, "slowing": None}


def _gain_ms(work: dict[str, Any]) -> float:
    """Return by how much the named modules and operators change a step, milliseconds."""
    parts = [*work["modules"], *work.get("operators", ())]
    return abs(math.fsum(each["after_ms"] - each["before_ms"] for each in parts))


def _modules(change: dict[str, Any] | None) -> set[str]:
    return {each["module"] for each in change["modules"]} if change else set()


def _far(steps: Steps, shift: dict[str, Any], work: dict[str, Any]) -> bool:
    """Return whether a change of the steps' length and one of the work lie too far from each other to be one."""
    apart = max(work["after_step"] - shift["step"], shift["step"] - work["step"])
    return bool(apart > steps.table.height * NEAR)


def _apart(
    steps: Steps, shift: dict[str, Any], work: dict[str, Any], owners: list[Ownership | None]
) -> tuple[Steps, list[Ownership | None]]:
    """Return the steps on that side of a change of the work on which another change lies, and the owners of their time.

    Args:
        steps: the steps in use.
        shift: the other change.
        work: the change of the work.
        owners: the owners of the time of sampled steps; None if no module is known.
    """
    numbers = steps.table["number"]
    earlier = shift["step"] < work["step"]
    first, last = (0, numbers.index_of(work["earliest"])) if earlier else (numbers.index_of(work["latest"]) or 0, None)
    row = pl.col("step").cast(pl.Int64) - first
    kept = [
        each and replace(each, sums=each.sums.filter(row >= 0).with_columns(step=row.cast(each.sums.schema["step"])))
        for each in owners
    ]
    return replace(steps, table=steps.table[first:last]), kept
