"""Find why a rank is late: the part of its steps that takes longer than on the other ranks.

The parts of steps are those of `metrics.bounds`, such as computing or waiting for data. Time between steps has parts,
too (`step_gaps`).

The parts of a step are known only if the step was examined: with `overhead_budget`, some steps are not sampled, and
ranks may sample different steps. Time between steps is known everywhere. So a rank is compared with ranks of which as
much is known in the step. If it is late in most steps, the examined steps stand for all of them.
"""

import statistics
from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from typing import Final

import polars as pl

from ms_profiler.analysis.cluster import exchange_steps, module_times, step_gaps
from ms_profiler.analysis.cluster.lateness import Late
from ms_profiler.analysis.cluster.rank_account import STILL
from ms_profiler.analysis.metrics import bounds, stretches

STOPPED: Final = "stopped"
UNKNOWN: Final = "unknown"
WORK: Final = "work"
#: a cause must explain at least this share of a rank's lateness
PART: Final = 0.3
#: parts in which the time may appear if the process was stopped in a single step
_STILL: Final = (STILL, bounds.BLOCKED)
#: causes due to other programs; for these causes, a rank that is late only in some steps is not reported
_OF_OTHERS: Final = (bounds.RUNNABLE,)
#: causes that take processor time, if the rank has no device
_ON_PROCESSOR: Final = (bounds.COMPUTING, bounds.LAUNCH, bounds.HOST)
#: cause -> the clause of a sentence about the rank
SENTENCES: Final = {
    bounds.DATA: "it waits for its input",
    bounds.COMPUTING: "it computes for longer",
    bounds.LAUNCH: "it takes longer to launch operators",
    bounds.HOST: "its Python code runs for longer",
    bounds.BLOCKED: "it sleeps or is blocked in Python code",
    bounds.RUNNABLE: "it waits for a processor that other programs use",
    bounds.GARBAGE: "Python collects garbage",
    bounds.COMPILE: "it compiles",
    bounds.CHECKPOINT: "it writes or reads checkpoints",
    bounds.SYNC: "it waits for results that its device or other threads still compute",
    STOPPED: "the whole process stood still: a signal stopped it, it was suspended, or it slept once",
    "free": "its device is idle for longer",
    stretches.EVALUATION: "it evaluates between steps",
    "rollout": "it plays in an environment between steps",
    "profiling": "it profiles between steps",
    stretches.NETWORK: "it calls a network between steps",
    stretches.BETWEEN: "it does other work between steps",
    WORK: "its process needs more processor time",
    UNKNOWN: "no single recorded part explains it",
}
#: A rank does more work than others if its processor time is at least `MORE` times the median of the other ranks, and
#: if the difference is at least the part `EXPLAINS` of its lateness. On a machine with too few processors, ranks with
#: more work had 1.5 to 3.0 times the processor time, and 0.47 to 1.1 of the lateness. Ranks with the same work that
#: were late by chance had 0.95 to 1.2 times, and up to 0.29.
MORE: Final = 1.35
EXPLAINS: Final = 0.4
#: what is known of a rank in a step: the parts of the time between steps only, or also those of the step; `_BETWEEN`
#: marks parts that only time between steps has
_BETWEEN, _EXAMINED, _UNSEEN = "between steps", "examined", "not examined"
_KEYS: Final = ["step", "part", "kind"]
#: times that are scaled by at least this factor are called estimates; the first steps are never examined
SCALED: Final = 1.1


@dataclass(frozen=True)
class Cause:
    """The reason why a rank is late: the part of its steps that takes longer than on other ranks.

    Attributes:
        rank: number of the rank.
        kind: a part of `metrics.bounds` or of `step_gaps`, `STOPPED`, `WORK` or `UNKNOWN`.
        excess_ns: the time of this part, minus the median of its times on the other ranks. For `WORK`, it is the
            process's processor time, minus that of other ranks. It is the whole lateness of a rank that would not be
            late without its waits for processors.
        parts: part -> its excess in ns (computed like `excess_ns`), the largest first.
        examined: number of steps from which these times are estimated; None if they are exact.
        name: the module or the operator that takes most of the part, or `module_times.OUTSIDE`; empty if unknown.
    """

    rank: int
    kind: str
    excess_ns: int
    parts: dict[str, int]
    name: str = ""
    examined: int | None = None

    @property
    def sentence(self) -> str:
        """Return the cause as a clause about the rank."""
        name = f", mostly in {self.name}" if self.kind in module_times.WORK else f" ({self.name})"
        return SENTENCES.get(self.kind, self.kind) + name * bool(self.name)


def causes(
    parts: pl.DataFrame,
    late: list[Late],
    hindered: Set[int] = frozenset(),
    worked: Mapping[int, int] | None = None,
    steps: int = 0,
) -> dict[int, Cause]:
    """Return the cause of each late rank, by rank.

    If a rank is late only in some steps, because other programs took its processor, it is left out.

    Args:
        parts: the parts of all ranks' steps, from `exchange_steps.gathered`.
        late: the late ranks, as `lateness` finds them.
        hindered: the ranks that would not be late if their threads had not waited for processors. These waits are the
            cause of their lateness, no matter what `parts` says.
        worked: rank -> by how much longer it worked on processors than other ranks, ns; 0 if hardly longer. A rank
            whose processor time is unknown is left out.
        steps: the number of steps in which the lateness is known; 0 if the parts are known in all of them.
    """
    worked = worked or {}
    excess = _excess(parts, [found.rank for found in late])
    found = {}
    for each in late:
        own = excess.filter(pl.col("rank") == each.rank)
        if each.moments:
            own = own.filter(pl.col("step").is_in(each.moments))
        examined = own.filter(pl.col("kind") == _EXAMINED)
        known = max(examined["step"].n_unique(), 1)
        factor = max((len(each.moments) or steps) / known, 1.0) if each.often else 1.0
        inside = pl.col("excess").filter(pl.col("kind") == _EXAMINED).sum()
        # where only the time between steps is known, a part may have more of it than the examined steps tell
        value = pl.max_horizontal(inside * factor, pl.col("excess").sum()).cast(pl.Int64)
        sums = own.group_by("part").agg(value.alias("excess")).sort("excess", "part", descending=[True, False])
        cause = _cause(each, dict(sums.iter_rows()))
        among = pl.col("step").is_in(examined["step"].unique().implode())
        counts = parts.filter(pl.col("rank") == each.rank, among).unique("step").select(exchange_steps.COUNTS).sum()
        every, seen = counts.row(0)
        found[each.rank] = replace(cause, examined=seen if factor * every >= SCALED * max(seen, 1) else None)
    for each in late:
        if each.rank in hindered:
            found[each.rank] = replace(found[each.rank], kind=bounds.RUNNABLE, excess_ns=each.excess_ns)
        elif each.often:
            found[each.rank] = _by_itself(each, found[each.rank], worked.get(each.rank))
    dropped = {each.rank for each in late if each.moments and found[each.rank].kind in _OF_OTHERS}
    return {rank: cause for rank, cause in found.items() if rank not in dropped}


def _excess(parts: pl.DataFrame, names: list[int]) -> pl.DataFrame:
    """Return the time of each part beyond that of the other ranks: `rank`, `step`, `part`, `kind`, `excess` in ns.

    Args:
        parts: the parts of all ranks' steps, from `exchange_steps.gathered`.
        names: the late ranks.
    """
    seen = (~pl.col("part").is_in(step_gaps.ALL)).any()
    kind = pl.when(seen).then(pl.lit(_EXAMINED)).otherwise(pl.lit(_UNSEEN)).alias("kind")
    states = parts.group_by("rank", "step").agg(kind)
    kinds = pl.concat([states, states.with_columns(kind=pl.lit(_BETWEEN))])
    between = pl.when(pl.col("part").is_in(step_gaps.PARTS)).then(pl.lit(_BETWEEN)).otherwise("kind").alias("kind")
    known = parts.filter(pl.col("part") != bounds.COMMUNICATION).join(states, on=["rank", "step"]).with_columns(between)
    is_late = pl.col("rank").is_in(names)
    usual = _medians(known.filter(~is_late), kinds.filter(~is_late))
    others = kinds.filter(~is_late).select("step", "kind").unique()
    mine = known.filter(is_late).join(others, on=["step", "kind"], how="semi")
    # if a rank's steps lack a part, its time counts as 0 ns
    lacking = kinds.filter(is_late).join(usual, on=["step", "kind"])
    # a part between steps may be compared with ranks of which more is known: the true excess is at least as large
    alone = known.filter(is_late, pl.col("kind") == _UNSEEN).join(others, on=["step", "kind"], how="anti")
    more = others.filter(pl.col("kind") == _EXAMINED).select("step")
    theirs = usual.filter(pl.col("kind") == _EXAMINED).drop("kind")
    least = alone.join(more, on="step", how="semi").join(theirs, on=["step", "part"], how="left")
    beyond = (pl.col("duration_ns") - pl.col("median").fill_null(0)).clip(lower_bound=0)
    columns = ["rank", *_KEYS]
    return pl.concat(
        [
            mine.select(*columns, excess="duration_ns"),
            lacking.select(*columns, excess=-pl.col("median")),
            least.select(*columns, excess=beyond),
        ]
    )


def worked(steps: Mapping[int, pl.DataFrame], late: list[Late]) -> dict[int, int]:
    """Return by how much longer late ranks worked on processors than other ranks, in ns; 0 if hardly longer.

    These are the processor times of the processes. A shared processor also takes longer for the same work, but not
    `MORE` times as long as for other ranks. Ranks that are late in single steps are left out, and so are ranks whose
    processor time is unknown.

    Args:
        steps: the steps of each rank, by rank.
        late: the late ranks.
    """
    taken = {rank: known.drop_nulls("own_ns") for rank, known in steps.items()}
    found = {}
    for each in late:
        if not each.often:
            continue
        among = pl.col("step").is_in(each.moments) if each.moments else pl.lit(True)
        ran = {rank: known.filter(among)["processor_ns"].drop_nulls() for rank, known in taken.items()}
        means = {rank: float(times.mean()) for rank, times in ran.items() if len(times)}  # type: ignore[arg-type]
        others = [mean for rank, mean in means.items() if rank != each.rank]
        if each.rank in means and others:
            usual = statistics.median(others)
            more = int((means[each.rank] - usual) * len(ran[each.rank]))
            far = means[each.rank] >= MORE * usual and more >= EXPLAINS * each.excess_ns
            found[each.rank] = more if far else 0
    return found


def _by_itself(late: Late, found: Cause, more_ns: int | None) -> Cause:
    """Return the cause of a rank's lateness that remains without waits for a processor; `found` if none remains.

    A rank with more work also waits longer for a processor. So these waits are no cause of its lateness. But if it has
    no more work, it only seems to compute for longer, because other programs take its processor meanwhile.

    Args:
        late: the rank.
        found: the largest part of its lateness.
        more_ns: by how much longer it worked on processors, ns; 0: hardly longer; None: unknown.
    """
    alone = found
    if found.kind == bounds.RUNNABLE:
        left_out = (bounds.RUNNABLE, *_ON_PROCESSOR) if more_ns == 0 else (bounds.RUNNABLE,)
        others = {part: excess for part, excess in found.parts.items() if part not in left_out}
        alone = _cause(replace(late, excess_ns=late.excess_ns - found.excess_ns), others)
    if alone.kind == UNKNOWN and more_ns:
        alone = replace(alone, kind=WORK, excess_ns=more_ns)
    return found if alone.excess_ns <= 0 or alone.kind == UNKNOWN else replace(alone, parts=found.parts)


def _medians(parts: pl.DataFrame, kinds: pl.DataFrame) -> pl.DataFrame:
    """Return `step`, `part`, `kind` and `median` over the ranks of this kind. A rank without the part counts as 0 ns.

    Args:
        parts: the parts with `rank`, `kind` and the columns of `rank_account.PARTS`.
        kinds: what is known: `rank`, `step` and `kind`.
    """
    count = kinds.group_by("step", "kind").agg(pl.col("rank").n_unique().cast(pl.Int64).alias("count"))
    sorted_times = parts.group_by(_KEYS).agg(pl.col("duration_ns").sort()).join(count, on=["step", "kind"])
    none = pl.col("count") - pl.col("duration_ns").list.len().cast(pl.Int64)
    middles = []
    for less in (1, 0):
        place = (pl.col("count") - less) // 2 - none
        value = pl.col("duration_ns").list.get(place.clip(lower_bound=0), null_on_oob=True)
        middles.append(pl.when(place >= 0).then(value).otherwise(0))
    return sorted_times.select(*_KEYS, median=((middles[0] + middles[1]) // 2).cast(pl.Int64))


def _cause(late: Late, parts: dict[str, int]) -> Cause:
    kind, excess = next(iter(parts.items()), (UNKNOWN, 0))
    still = sum(max(parts.get(part, 0), 0) for part in _STILL)
    if len(late.moments) == 1 and still >= PART * late.excess_ns and still >= excess / 2:
        return Cause(late.rank, STOPPED, still, parts)
    if kind == STILL:
        kind, excess = bounds.BLOCKED, still
    if excess < PART * late.excess_ns:
        kind = UNKNOWN
    return Cause(late.rank, kind, excess, parts)
