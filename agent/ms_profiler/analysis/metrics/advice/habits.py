"""Advice about repeated events: compilations, leaks, garbage collections, slow steps."""

from collections.abc import Iterator
from typing import Final

import polars as pl

from ms_profiler.analysis.metrics import bounds
from ms_profiler.analysis.metrics.advice.base import SOME, Advice, Facts, length, percent, size, worst_step
from ms_profiler.analysis.metrics.diagnosis import Diagnosis

#: garbage collections are reported if there are at least this many of them
PAUSES: Final = 3
#: cause of the advice about growing memory
LEAKING: Final = "memory-growth"
#: growing memory is mentioned before all other advice if growth / memory before the growth is at least this
LEAK: Final = 0.5
#: steps are uneven if 95th percentile / median > `UNEVEN`; this is tested only with at least `UNEVEN_STEPS` steps
UNEVEN: Final = 2.0
UNEVEN_STEPS: Final = 20
_PROCESS: Final = "the process holds"


def compiling(found: Diagnosis, facts: Facts) -> Iterator[Advice]:
    """Yield advice about repeated compilations."""
    again = found.again
    if again is None or again.share < SOME:
        return
    steps = f"{again.of} {'recorded ' * (again.of < len(facts.numbers))}steps"
    evidence = (
        f"recompiling: {len(again.steps)} of {steps} compiled again, which took {percent(again.share)} of their time "
        f"(the first compilation left out){again.cause}"
    )
    yield Advice(
        "recompiling",
        bounds.COMPILE,
        again.share,
        evidence,
        "Keep shapes constant (drop_remainder, drop_last, padding, buckets) or declare them dynamic (dynamic=True, "
        "set_inputs), and make compiled objects once, so that a graph is reused.",
        facts.numbers[again.worst],
        facts.lane,
    )


def memory(found: Diagnosis, facts: Facts) -> Iterator[Advice]:
    """Yield advice about growing memory of the host, and of a device."""
    for leak in (found.on_device, found.growth):
        if leak is None:
            continue
        relative = leak.total / max(leak.held - leak.total, 1)
        whose = f"the memory of tensors{f' on {leak.device}' * bool(leak.device)} is" if leak.tensors else _PROCESS
        yield Advice(
            LEAKING,
            "memory",
            min(relative, 1.0),
            f"memory growth: {whose} {size(leak.per_step)} more after each step; from step {leak.first} to step "
            f"{leak.last} it grew by {size(leak.total)}, to {size(leak.held)}{'' if leak.device else facts.leak}",
            "Look for objects that outlive their step: lists of losses or outputs (keep numbers, or detach), caches, "
            "graphs that are kept for a backward pass that never runs.",
            leak.last,
            first=relative >= LEAK,
        )


def pauses(found: Diagnosis, facts: Facts) -> Iterator[Advice]:
    """Yield advice about Python's garbage collections. Without steps, they may all be part of imports or the set-up."""
    pauses, share = found.pauses, found.shares[bounds.GARBAGE]
    if pauses is None or found.whole or share < SOME or pauses.count < PAUSES:
        return
    yield Advice(
        "gc-pauses",
        bounds.GARBAGE,
        share,
        f"{pauses.count} long collections by Python take {percent(share)} of the steady steps; the longest took "
        f"{length(pauses.longest_ns)}",
        "Call gc.freeze() once the model is built, collect only between epochs (gc.disable, gc.collect), and make "
        "fewer objects in the loop.",
        facts.numbers[pauses.step],
        facts.lane,
    )


def uneven(found: Diagnosis, facts: Facts) -> Iterator[Advice]:
    """Yield advice about uneven steps. It names the part that takes at least half of the extra time of slow steps.

    If this part is computing or launching, there is no advice, because then the machine was busy.
    """
    median, tail = facts.statistics["median_ms"], facts.statistics["p95_ms"]
    if facts.statistics["count"] < UNEVEN_STEPS or not median or tail <= UNEVEN * median or found.crowd.busy:
        return
    steps = found.parts.group_by("step").agg(pl.col("duration_ns").sum().alias("whole"))
    slow = (pl.col("whole") > UNEVEN * median * 1e6).alias("slow")
    counts = dict(steps.group_by(slow).len().iter_rows())
    if not counts.get(True) or not counts.get(False):
        return
    means = found.parts.join(steps, on="step").group_by("part", slow).agg(pl.col("duration_ns").sum())
    excess: dict[str, float] = {}
    for part, is_slow, total in means.iter_rows():
        excess[part] = excess.get(part, 0.0) + (1 if is_slow else -1) * total / counts[is_slow]
    part = max(excess, key=lambda name: excess[name])
    if part in (bounds.COMPUTING, bounds.LAUNCH) or 2 * excess[part] < sum(excess.values()):
        return
    worst = worst_step(found, facts, part)
    yield Advice(
        "uneven-steps",
        "uneven steps",
        0.0,
        f"95th percentile {tail:.3f} ms, median {median:.3f} ms; {counts[True]} slow steps spend "
        f"{length(excess[part])} more on {part} than the others",
        f"Look at {part} in step {worst} of the trace.",
        worst,
        facts.lane,
    )
