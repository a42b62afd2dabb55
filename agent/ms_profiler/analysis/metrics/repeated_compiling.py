"""Find whether a run spends its time on compiling: once at its begin, or again and again in its steps."""

from collections.abc import Mapping
from typing import Final, NamedTuple

import polars as pl

from ms_profiler.analysis.metrics import bounds, recompilations
from ms_profiler.analysis.metrics.steps import Steps
from ms_profiler.analysis.metrics.verdict import Finding

#: compiling is the biggest finding if it takes at least this part of the run, or repeated compiling this part of the
#: steps
MUCH: Final = 0.5
#: the end of the last compilation is told only if it lies within this part of the run; otherwise little was left
EARLY: Final = 0.95
#: if at most this number of steps compiled something, compiling counts as warm-up
WARM_UP_STEPS: Final = 2
#: largest number of characters of the text about the cause of a recompilation; the rest is cut off
LONGEST: Final = 160


class Again(NamedTuple):
    """Compilations of steps after the first compilation.

    Attributes:
        steps: the rows of the steps that compiled again.
        of: number of steps in which compiling is known.
        ns: time of these compilations.
        share: time of these compilations / time of the steps without the first compilation.
        worst: row of the step that compiled again for longest.
        cause: the most frequent reason with its number, as text that begins with "; "; empty if unknown.
    """

    steps: set[int]
    of: int
    ns: int
    share: float
    worst: int
    cause: str


def of_steps(recompiles: pl.DataFrame, spans: pl.DataFrame, steps: Steps) -> Again | None:
    """Return what the steps of a run compiled after the first compilation; None if this was warm-up.

    Args:
        recompiles: the repeated compilations, from `recompilations.recompilations`.
        spans: table of the run's spans, with the columns of `tables.SPANS`.
        steps: the steps in use.
    """
    return again(recompiles, recompilations.times(spans, steps), recompilations.known(steps)["duration_ns"])


def again(recompiles: pl.DataFrame, compile_ns: Mapping[int, int], lengths: pl.Series) -> Again | None:
    """Return what the steps compiled after the first compilation; None if this was warm-up.

    Args:
        recompiles: the repeated compilations, from `recompilations.recompilations`.
        compile_ns: the time of compiling by step, from `recompilations.times`.
        lengths: the durations of the steps in which compiling was recorded, in ns.
    """
    steps = set(recompiles["step"].to_list())
    if not steps and len(compile_ns) > WARM_UP_STEPS:
        steps = set(sorted(compile_ns)[1:])
    if len(compile_ns) <= WARM_UP_STEPS or not steps:
        return None
    first = sum(time for step, time in compile_ns.items() if step not in steps)
    repeated = sum(compile_ns.get(step, 0) for step in steps)
    causes = recompiles.group_by("text").len().sort("len", "text", descending=[True, False])
    cause = ""
    if not causes.is_empty():
        text, count = causes.row(0)
        cause = f"; {count} times: {text[:LONGEST]}" if count > 1 else f"; {text[:LONGEST]}"
    # the first compilation is left out, because the job uses the compiled graph until the end
    whole = max(int(lengths.sum()) - first, 1)
    worst = max(steps, key=lambda step: (compile_ns.get(step, 0), -step))
    return Again(steps, lengths.len(), repeated, repeated / whole, worst, cause)


def finding(compile_ns: int, before_ns: int, run_ns: int, whole: bool, repeated: Again | None) -> Finding | None:
    """Return compiling as the biggest finding of a run; None if it takes less time.

    Args:
        compile_ns: time in which something was compiled.
        before_ns: time from the start of the run to the end of the last compilation, if anything was compiled.
        run_ns: duration of the run.
        whole: whether the run has no steps.
        repeated: the compilations after the first one, from `again`.
    """
    over = compile_ns > 0 and run_ns > 0 and compile_ns / run_ns >= MUCH
    if repeated is not None and repeated.share >= MUCH and not whole and (not over or 2 * repeated.ns >= compile_ns):
        took = f"{repeated.share * 100:.0f} % of the steps' time was spent compiling again"
        where = f"in {len(repeated.steps)} of {repeated.of} steps (the first compilation left out)"
        return Finding(bounds.COMPILE, repeated.share, f"{took}, {where}{repeated.cause}.")
    if not over:
        return None
    first = f"the first {_seconds(before_ns)} of the run; nothing was compiled after that"
    total = first if 0 < before_ns < EARLY * run_ns and not whole else f"the run of {_seconds(run_ns)}"
    return Finding(bounds.COMPILE, compile_ns / run_ns, f"Compiling took {_seconds(compile_ns)} of {total}.")


def _seconds(nanoseconds: int) -> str:
    seconds = nanoseconds / 1e9
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"
