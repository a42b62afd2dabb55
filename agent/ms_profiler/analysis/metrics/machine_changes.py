"""Find out whether the machine got busier where the steps became longer, and which modules this does not explain.

Other programs take the processor of a thread that computes, often at the same place of each step. The time until the
thread gets a processor again counts as time of the module or the kernel that it computes. So the share of one module
may grow although its work is the same, and although the machine slows the whole job down. The same holds if another
thread of the process, such as one that runs Python code all the time, keeps the stepping thread from running.
"""

import math
import statistics
from functools import cached_property
from typing import Any, Final, NamedTuple

import polars as pl

from ms_profiler.analysis.metrics import scheduling, shifts, strain
from ms_profiler.analysis.metrics.ownership import Ownership
from ms_profiler.analysis.metrics.steps import Steps, milliseconds
from ms_profiler.analysis.model import tables

#: Other processes keep the machine busier if they use `scheduling.OTHERS` more processors, and all processes use at
#: least the part `FULL` of the machine.
FULL: Final = 0.8
#: The job waits longer for processors if the part of a step in which the stepping thread waits grew by `WAITS`, or if
#: these waits grew by more than the time of any module did. If other processes keep the machine busier, they also have
#: to use processors because the job gets none, and not because the job sleeps. Then the waits are at least the part
#: `WAITS` of the change.
WAITS: Final = 0.1
#: Other threads of the process are named if they use `BESIDE` more processors, and if the stepping thread sleeps or is
#: blocked for at least the part `SLEPT` of the change: they hold what it waits for, such as Python's interpreter lock.
BESIDE: Final = 0.5
SLEPT: Final = 0.5
#: the median wait in a step is stated if it grew by more than this part of the growth of the mean wait
MEDIAN: Final = 0.5
#: a module takes longer for certain if waits for a processor make up at most this part of its growth
EXPLAINED: Final = 0.5


class _Sides(NamedTuple):
    """A number before a change and after it."""

    before: float
    after: float

    def rise(self, longer: bool) -> float:
        """Return how much larger the number is on the side with the longer steps.

        Args:
            longer: whether the steps are longer after the change.
        """
        return self.after - self.before if longer else self.before - self.after

    def stated(self) -> dict[str, float]:
        """Return both numbers as the summary has them."""
        return {"before": round(self.before, 3), "after": round(self.after, 3)}


class _Load:
    """The load of the machine in the steps before a change and after it.

    Args:
        recording: the run.
        steps: the steps in use.
        later: whether each step is after the change; None for a step of neither side.
        longer: whether the steps are longer after the change.
    """

    def __init__(self, recording: tables.Recording, steps: Steps, later: pl.Series, longer: bool) -> None:
        numbered = steps.table.select("number", later=later).drop_nulls()
        same = shifts.alike(steps).join(numbered, on="number").sort("start_ns")
        self._sides, self._longer = (~same["later"], same["later"]), longer
        self.load = strain.Load(recording, steps, same)
        self.known = all(bool(side.any()) for side in self._sides)

    def rate(self, amount: pl.Series) -> _Sides:
        """Return an amount per second of the steps on both sides."""
        length = self.load.length
        sums = ([math.fsum(each.filter(side).to_list()) for each in (amount, length)] for side in self._sides)
        return _Sides(*(used / max(took, 1e-9) for used, took in sums))

    def each(self, amount: pl.Series) -> _Sides:
        """Return the median of an amount in a step on both sides."""
        return _Sides(*(statistics.median(amount.filter(side).to_list()) for side in self._sides))

    def mean(self, amount: pl.Series) -> _Sides:
        """Return the mean of an amount in a step on both sides."""
        return _Sides(*(statistics.fmean(amount.filter(side).to_list()) for side in self._sides))

    @cached_property
    def risen(self) -> dict[str, _Sides]:
        """Return the processors that other processes or other virtual machines use, if they keep the machine busier."""
        load = self.load
        if load.busy is None or load.others is None:
            return {}
        busy, whole = (self.rate(amount)[int(self._longer)] for amount in (load.busy + load.stolen, load.machine))
        used = {"others": self.rate(load.others), "stolen": self.rate(load.stolen)}
        return {
            name: each
            for name, each in used.items()
            if busy >= FULL * whole and each.rise(self._longer) >= scheduling.OTHERS
        }

    @cached_property
    def beside(self) -> _Sides | None:
        """Return the processors that the process's other threads use, if the stepping thread seems to wait for them."""
        load = self.load
        if load.beside is None or not load.known:
            return None
        used, slept = self.rate(load.beside), self.each(load.slept).rise(self._longer)
        waiting = slept >= SLEPT * self.each(load.length).rise(self._longer)
        return used if waiting and used.rise(self._longer) >= BESIDE else None

    def waits(self, growth_ms: float) -> bool:
        """Return whether the job waits longer for processors.

        Args:
            growth_ms: by how much the module that changed most grew in a step.
        """
        load, more = self.load, self.each(self.load.queued).rise(self._longer)
        if not load.known:
            return bool(self.risen)
        part = more >= WAITS * self.each(load.length).rise(self._longer)
        longer = self.rate(load.queued).rise(self._longer) >= WAITS or more * 1e3 >= growth_ms
        return longer or (part and bool(self.risen))

    def stated(self) -> dict[str, Any] | None:
        """Return how the machine got busier, in the form of the summary; None if no number grew."""
        risen, waited, mean = self.risen, self.each(self.load.queued), self.mean(self.load.queued)
        # most short steps have no wait at all, and some have a long one
        if waited.rise(self._longer) <= MEDIAN * mean.rise(self._longer):
            waited = mean
        if not risen and self.beside is None and not (self.load.known and waited.rise(self._longer) > 0):
            return None
        before, after = (milliseconds(seconds * 1e9) for seconds in waited)
        waits = {"before": before, "after": after}
        return {
            "processors": round(max(self.rate(self.load.machine))),
            **{name: risen[name].stated() if name in risen else None for name in ("others", "stolen")},
            "threads": None if self.beside is None else self.beside.stated(),
            "waited_ms": waits if self.load.known and waited.rise(self._longer) > 0 else None,
        }

    def growth(self, amount: pl.Series) -> float:
        """Return by how much an amount grew in a step, at most: as the medians tell it, or the means."""
        return max(self.each(amount).rise(self._longer), self.mean(amount).rise(self._longer), 0.0)


def told(
    change: dict[str, Any],
    later: pl.Series,
    longer: bool,
    recording: tables.Recording,
    steps: Steps,
    found: Ownership | None,
) -> dict[str, Any]:
    """Return a change with `machine`: how the machine got busier there; None if it did not, or if it is unknown.

    If it got busier, a module stays only if it executes another number of operators, or if it grew by more than waits
    for a processor explain. The threads that run kernels on a processor may have no samples. So if other processes keep
    the machine busier, a module with the time of such kernels does not stay, even if no waits are known.

    Args:
        change: the change, with `modules`, as `shifts.shift` or `slowing.slowing` returns it.
        later: whether each step is after the change; None for a step of neither side.
        longer: whether the steps are longer after the change.
        recording: the run.
        steps: the steps in use.
        found: the owners of the time of `modules`; None if no module is known.
    """
    modules = change["modules"]
    sides = _Load(recording, steps, later, longer)
    if not sides.known:
        return change | {"machine": None}
    growth_ms = max((abs(each["after_ms"] - each["before_ms"]) for each in modules), default=math.inf)
    waits = sides.waits(growth_ms)
    device = recording.device is not None and not recording.device.on_host
    on_host = found is None or found.basis == "host"
    if waits or sides.beside if on_host else bool(sides.risen or waits) and not device:
        exact = on_host and sides.beside is None
        most_ms = _most_ns(sides, recording, steps, device) / 1e6 if exact else math.inf
        modules = [
            each
            for each in modules
            if "count_after" in each or most_ms <= EXPLAINED * abs(each["after_ms"] - each["before_ms"])
        ]
    stated = waits or sides.beside or modules != change["modules"]
    return change | {"modules": modules, "machine": sides.stated() if stated else None}


def _most_ns(sides: _Load, recording: tables.Recording, steps: Steps, device: bool) -> float:
    """Return by how much waits for a processor may have made a step longer, ns; infinite if that is unknown.

    Several threads that compute an operator together wait for one another, and only one of them has samples.

    Args:
        sides: the load on both sides of the change.
        recording: the run.
        steps: the steps in use.
        device: whether a device other than the processor computes.
    """
    load, waits = sides.load, sides.load.queued
    if not load.known or (not device and recording.info.numbers().get("threads", 0) != 1):
        return math.inf
    for process, thread in scheduling.watched(recording.looks):
        if process == steps.process and thread != steps.thread:
            waits = waits + strain.waits(scheduling.cells(recording.looks, process, thread), load.during)
    return sides.growth(waits) * 1e9
