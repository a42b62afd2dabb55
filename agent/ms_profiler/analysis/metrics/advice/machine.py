"""Advice about the machine: other programs, a limit of the control group, swapping."""

from collections.abc import Iterator
from typing import Final

from ms_profiler.analysis.metrics import bounds, scheduling, strain
from ms_profiler.analysis.metrics.advice.base import Advice, Facts, percent, size
from ms_profiler.analysis.metrics.diagnosis import Diagnosis
from ms_profiler.analysis.metrics.strain import Strain

#: cause of `metrics.strain` -> name of the cause in the advice, for programs
CAUSES: Final = {strain.BUSY: "busy-machine", strain.THROTTLED: "throttled", strain.SWAPPING: "swapping"}


def machine(found: Diagnosis, facts: Facts) -> Iterator[Advice]:
    """Yield advice about slow steps whose cause is the machine."""
    for item in found.strains:
        evidence, action = {
            strain.BUSY: _busy,
            strain.THROTTLED: _throttled,
            strain.SWAPPING: _swapping,
        }[item.cause](item, facts)
        step = facts.numbers[item.steps[0]] if item.steps else None
        part = "memory" if item.cause == strain.SWAPPING else bounds.RUNNABLE
        lane = facts.lane
        yield Advice(CAUSES[item.cause], part, item.share, f"{item.cause}: {evidence}", action, step, lane)


def _when(item: Strain, facts: Facts) -> str:
    if not item.steps:
        return "in the steady steps"
    numbers = ", ".join(str(facts.numbers[row]) for row in item.steps[:5])
    more = f" and {len(item.steps) - 5} more" if len(item.steps) > 5 else ""
    return f"in step{'s' if len(item.steps) > 1 else ''} {numbers}{more}, {item.slower:.1f} times the median step,"


def _waits(item: Strain, facts: Facts) -> str:
    return "" if item.waits is None else f"; {facts.lane} waited for a processor in {percent(item.waits)} of that time"


def _busy(item: Strain, facts: Facts) -> tuple[str, str]:
    evidence = (
        f"{_when(item, facts)} other processes used {item.others or 0.0:.2f} of {round(item.processors)} processors, "
        f"the job {item.own:.2f}{_waits(item, facts)}"
    )
    if item.stolen >= scheduling.OTHERS:
        evidence += f"; other virtual machines took {item.stolen:.2f}"
    return evidence, "Find these processes (top), move them, or reserve processors for the job (taskset, a cpuset)."


def _throttled(item: Strain, facts: Facts) -> tuple[str, str]:
    may = "" if item.quota is None else f" of {item.quota:.2f} processors"
    return (
        f"{_when(item, facts)} the limit{may} of the control group (container) stopped the job in "
        f"{percent(item.throttled)} of the periods; it used {item.own:.2f} processors{_waits(item, facts)}",
        "Raise the limit (docker --cpus, limits.cpu of Kubernetes), or let no more threads compute than it allows "
        "(OMP_NUM_THREADS, torch.set_num_threads, workers of data).",
    )


def _swapping(item: Strain, facts: Facts) -> tuple[str, str]:
    stalled = f"; in {percent(item.stalled)} of that time a task waited for memory or disks" if item.stalled else ""
    return (
        f"{_when(item, facts)} the job had {item.faults:,.0f} major page faults a second, and the machine swapped "
        f"{size(item.swapped)}/s{stalled}",
        "Take less memory (smaller batches, fewer workers or less prefetching, no copies of the data set in each "
        "worker), end other programs that take it, or raise the limit of the container.",
    )
