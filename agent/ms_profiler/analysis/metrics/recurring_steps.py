"""Find steps that are longer at regular intervals, for example each seventh step or the steps of every other epoch."""

import itertools
import math
import statistics
from collections import Counter
from typing import Any, Final

import polars as pl

from ms_profiler.analysis.metrics import extra_phase, shifts
from ms_profiler.analysis.metrics.ownership import Ownership
from ms_profiler.analysis.metrics.steps import Steps, milliseconds
from ms_profiler.analysis.metrics.work_changes import SETTLED

#: smallest number of intervals in the run
TIMES: Final = 4
#: smallest ratio of the longer steps to the others (medians), and smallest part of the time that the difference takes
RATIO: Final = 1.3
PART: Final = 0.03
#: Single steps are compared; then single steps with the `NEAR` steps around them, because the speed of a processor may
#: change; and then medians of `SMOOTH` steps, which show longer series of steps despite noise.
NEAR: Final = 33
SMOOTH: Final = 9
#: a step is long if it takes this many times as long as usual; each limit is tried
LIMITS: Final = (1.15, 1.3, 1.5, 2.5, 5.0, 10.0, 30.0, 100.0)
#: number of series of long steps that are tried: three kinds of values, each with each limit
TRIALS: Final = 3 * len(LIMITS)
#: at least this part of the steps at the places found in the interval is long; and at most this part of the others
OFTEN: Final = 0.8
RARE: Final = 0.1
#: Long steps without any order may lie in an interval, too: of 60 steps with 8 long ones, the steps 12, 36 and 48. So
#: the expected number of such findings, from the share of long steps among the others, has to be at most this.
BY_CHANCE: Final = 0.01
#: if longer steps are at least this number of steps apart, step 0 does not tell whether it is one of them
RARELY: Final = 16


def summary(
    steps: Steps,
    found: Ownership | None,
    spans: pl.DataFrame,
    looks: pl.DataFrame | None = None,
    names: pl.Series | None = None,
) -> dict[str, Any] | None:
    """Return the steps that are longer at regular intervals, and what makes them longer; None without any.

    Args:
        steps: the steps in use.
        found: the owners of the time of sampled steps; None if no module is known.
        spans: table of the run's spans, with the columns of `tables.SPANS`.
        looks: the samples of threads, with the columns of `tables.LOOKS`; None if unknown.
        names: texts by row; None if the names of operators do not matter.

    Returns:
        `every` (the interval, in steps), `long` (how many steps of each interval are longer, one after another),
        `first` (number of the first longer step), `ms` and `others_ms` (medians of the longer steps and of the others),
        `share` (the part that the difference of the medians takes of the time of all steps), where most of the
        difference lies (`extra_phase.where`), and `modules`, as in the result of `shifts.shift`.
    """
    longer = places(steps.table)
    if longer is None:
        return None
    every, width, first, inside = longer
    lengths = [steps.table.filter(side)["duration_ns"].to_list() for side in (inside, ~inside)]
    medians = statistics.median(lengths[0]), statistics.median(lengths[1])
    share = (medians[0] - medians[1]) * len(lengths[0]) / sum(steps.table["duration_ns"])
    if medians[0] < RATIO * medians[1] or share < PART:
        return None
    settled = steps.table.select(pl.when(pl.int_range(pl.len()) >= SETTLED).then(inside)).to_series()
    return {
        "every": every,
        "long": width,
        "first": int(steps.table["number"][first]),
        "ms": milliseconds(medians[0]),
        "others_ms": milliseconds(medians[1]),
        "share": round(share, 6),
        **extra_phase.where(steps, inside, spans, looks, names),
        "modules": [] if found is None else shifts.modules(steps, found, settled, (medians[1], medians[0])),
    }


def places(table: pl.DataFrame) -> tuple[int, int, int, pl.Series] | None:
    """Return where steps are longer at regular intervals; None if nowhere.

    Records make a step longer. So each length is divided by the lower quartile of the steps with the same `content`.

    Args:
        table: the table of `Steps`.

    Returns:
        The interval, the number of longer steps in it, the row of the first of them, and for each step whether it is
        one of them.
    """
    usual = pl.col("duration_ns").quantile(0.25).over("content")
    lengths = table.select(pl.col("duration_ns") / pl.max_horizontal(usual, 1.0)).to_series()
    near, smooth = (lengths.rolling_median(size, min_samples=1, center=True) for size in (NEAR, SMOOTH))
    for values in (lengths, lengths / near, smooth):
        before = None
        for limit in LIMITS:
            long = values >= limit
            count = long.sum()
            if count == before:
                continue  # the limits rise, so the same number of steps are the same steps
            before = count
            found = _interval(values, long)
            if found is not None:
                return found
    return None


def _interval(lengths: pl.Series, long: pl.Series) -> tuple[int, int, int, pl.Series] | None:
    """Return the interval at which steps are long, as `places` does.

    Args:
        lengths: the length of each step, or another measure of it.
        long: whether each step is long.
    """
    begins = (long & ~long.shift(1, fill_value=False)).arg_true().to_list()
    gaps = Counter(later - one for one, later in itertools.pairwise(begins))
    every = max(gaps, key=lambda gap: (gaps[gap], -gap), default=0)
    if every < 2 or long.len() < TIMES * every:
        return None
    table = pl.DataFrame({"long": long}).with_columns(place=pl.int_range(pl.len()) % every)
    often = table.group_by("place").agg(pl.col("long").mean()).sort("place")["long"].to_list()
    kept = {place for place in range(every) if often[place] >= OFTEN}
    others = [share for place, share in enumerate(often) if place not in kept]
    starts = [place for place in kept if place - 1 not in kept and (place or every - 1 not in kept)]
    if not kept or not others or max(others) > OFTEN / 2 or math.fsum(others) > RARE * len(others) or len(starts) != 1:
        return None
    inside = table["place"].is_in(sorted(kept))
    if _by_chance(long, table["place"] == starts[0], inside) * every > BY_CHANCE:
        return None
    # the first interval may have no longer step: for example, no checkpoint precedes step 0
    limit = math.sqrt(math.prod(statistics.median(lengths.filter(side).to_list()) for side in (inside, ~inside)))
    alike = (lengths.filter(inside) >= limit).to_list()
    if sum(alike) < OFTEN * len(alike):
        return None  # some are far longer than others: their median would be the length of no step
    # the first steps of a job are long in any case
    first = (
        starts[0]
        if lengths[starts[0]] >= limit and (starts[0] or len(kept) > 1 or every < RARELY)
        else starts[0] + every
    )
    return every, len(kept), first, inside


def _by_chance(long: pl.Series, begins: pl.Series, inside: pl.Series) -> float:
    """Return how often as many steps at one place of an interval are expected to be long by chance, in all trials.

    The number of long steps there would have a binomial distribution, whose tail has an upper bound (Hoeffding, Journal
    of the American Statistical Association 58, 1963, theorem 1). The first step of a job is long in any case.

    Args:
        long: whether each step is long.
        begins: whether it is at the first place of longer steps in its interval.
        inside: whether it is at any place of longer steps.
    """
    others, seen = long.filter(~inside).to_list(), long[1:].filter(begins[1:]).to_list()
    rate = (sum(others) + 1) / (len(others) + 2)  # Laplace's rule of succession
    part = sum(seen) / max(len(seen), 1)
    if part <= rate:
        return float(TRIALS)
    rest = 0.0 if part == 1 else (1 - part) * math.log((1 - part) / (1 - rate))
    return TRIALS * math.exp(-len(seen) * (part * math.log(part / rate) + rest))
