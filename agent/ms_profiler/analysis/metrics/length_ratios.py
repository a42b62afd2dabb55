"""Find how the times of the recorded steps stand for those of all steps. The lengths of all steps are known.

Recorded steps are unlike the others in three ways, besides the cost of recording:

1. The machine was slower, or the work was longer, while a burst was recorded. So times are scaled by the ratio of the
   mean lengths of the other steps and of the recorded ones, in each part of the run.
2. The recorder's code is in no cache when a burst begins. In a loop with steps of 0.3 ms, the first step of a burst
   took 1.2 to 2.5 times as long as the third one, and the second step up to 1.1 times. So the times of these two steps
   are scaled down by the usual ratio.
3. One of 60 recorded steps was a long one, but only one of 200 other steps was: another program interrupted it, or it
   wrote a log. So long steps stand for long steps only, where they are rare. This is called poststratification.

A step is long if it is longer than `LONG` times the median of its window. Windows are `WINDOW` consecutive steps.
Bursts begin at multiples of `WINDOW` (`job.bursts`), so recorded and other steps have windows of the same kind.

Source: Cochran, Sampling Techniques, 5A.9 (poststratification) and 6.1 (ratio estimate).
"""

from math import isfinite
from typing import Final

import polars as pl

#: a burst of n recorded steps is compared with up to `BESIDE * n` steps on either side
BESIDE: Final = 2
#: A step that is longer than this multiple of the median counts as this multiple. This number is the largest ratio of
#: lengths, and 1 / this number the smallest.
LONGEST: Final = 8
#: number of steps of a window, and how many of the first ones of a burst may be slow because of cold caches
WINDOW, COLD = 4, 2
#: A step is long if it is longer than `LONG` times the median of its window. Steps of which at most the part `RARE` is
#: long are divided into long and other ones.
LONG, RARE = 1.25, 0.1
#: steps are alike if the ratio of their lengths is at most `ALIKE`; caches matter if it is more than `SLOWER`
ALIKE, SLOWER = 1.03, 1.1
#: largest ratio of the lengths of the steps of a window in a regular loop, without the longest step
NEAR: Final = 1.1
#: what cold caches do is known from at least `LEAST` bursts; at least `FEW` long steps may stand for more steps than
#: their stretches tell
LEAST, FEW = 4, 8
#: Up to this number of recorded steps have sums of their own. Of more steps, those of a stretch with the same weights
#: are added up: each stands for few others.
ALONE: Final = 2048


def weighted(marked: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return how the times of each recorded step count in sums over all steps.

        time weight  = 1 + (w - 1) * g * s * r
        plain weight = 1 + (w - 1) * g * s

    w is the number of steps that a step stands for by its stretch. g corrects this number, so that the long steps, and
    the other steps of each part, stand for as many steps as were not recorded. If fewer than `FEW` long steps were
    recorded, g is at most 1 for them; other recorded steps then stand for the rest of the long steps. s is the factor
    of a step with cold caches. r is a ratio of lengths, for the long steps and for the others of each part:

        r = (mean length of the steps that they stand for + c) / mean length of the recorded ones
        c = median over strata of (median length of the recorded steps - median length of the steps next to them),
            at least 0

    So c is the cost of recording, which the times of the recorded steps contain. Steps next to a burst ran at nearly
    the same time as the burst (`_beside`).

    Args:
        marked: the steps in their order, with `row`, `weight`, `part`, `stratum`, `recorded` and `length` in ns.

    Returns:
        The recorded steps: `row`, `part`, `run` (number of the burst), `long`, `cold`, `warm` (s), `weight` (w),
        `plain` and `timed` (the two weights above), `first`: the row of the step with which its sums are added up, and
        `regular`: whether most neighbouring steps of the run are alike. And for each `part` its `doubt`, which is
        (standard error of c) / (mean length of its recorded steps).
    """
    length, recorded, long = pl.col("length"), pl.col("recorded"), pl.col("long")
    capped = marked.with_columns(pl.min_horizontal("length", LONGEST * length.median()), beside=_beside(marked))
    placed = _windows(capped)
    regular = _regular(placed)
    factors = _warm(placed, _cost(placed)[0], regular)
    table = placed.join(factors, on="place", how="left", maintain_order="left")
    warm, cold = pl.col("warm").fill_null(1.0), pl.col("cold").fill_null(False)
    table = table.with_columns(warm, cold, length * warm)
    # times in these steps are replaced by the usual ones of the burst, see `interruptions`
    table = table.with_columns(pl.when("cold").then(length.filter(~cold).median().over("window")).otherwise(length))
    cost, error = _cost(table)
    # the cost would hide how much longer a recorded step is than its neighbours
    paid = cost * recorded.cast(pl.Float64)
    middle = (length - paid).median().over("window")
    far = pl.col("whole") & ~pl.col("cold") & (length - paid > LONG * middle)
    table = table.with_columns(long=far, rest=pl.col("weight").fill_null(1.0) - 1)
    table = table.with_columns(long & _divided(table))
    rest, left = pl.col("rest"), _left(table)
    counted = pl.when(recorded).then(0.0).when(long).then(left).otherwise(1.0)
    usual = _classed(table.with_columns(counted=counted).filter(~(recorded & long)), ["part"], cost)
    counted = pl.lit(1 - left)
    slow = _classed(table.filter("long").with_columns(counted=pl.when(recorded).then(0.0).otherwise(counted)), [], cost)
    rows = table.filter("recorded").join(usual, on="part", how="left", maintain_order="left")
    share, ratio = (pl.when(long).then(slow[name].item()).otherwise(name) for name in ("share", "ratio"))
    plain = rest * share * pl.col("warm")
    doubts = table.filter("recorded").group_by("part").agg(doubt=error / length.mean())
    known = pl.col("doubt").is_finite()  # the recorded steps of a part may only wait
    first = pl.col("row").min().over("stratum", "long", "warm")
    if rows.filter(rest > 0).height <= ALONE:
        first = pl.when(rest > 0).then("row").otherwise(first)
    weights = {"weight": pl.col("weight"), "plain": 1 + plain, "timed": 1 + plain * ratio}
    return (
        rows.select("row", "part", "run", "long", "cold", "warm", **weights, first=first, regular=pl.lit(regular)),
        doubts.with_columns(pl.when(known).then("doubt").fill_null(0.0)),
    )


def _classed(table: pl.DataFrame, keys: list[str], cost: float) -> pl.DataFrame:
    """Return for each class of steps `share` and `ratio`, which are g and r of `weighted`; 1 if they are unknown.

    Args:
        table: the steps of the classes; `counted` tells which part of a step the recorded steps have to stand for.
        keys: the columns that divide the steps into classes.
        cost: the cost of recording a step, ns.
    """
    length, rest, counted = pl.col("length"), pl.col("rest"), pl.col("counted")
    own, others = (rest * length).sum() / rest.sum(), (counted * length).sum() / counted.sum()
    found = (
        table.with_columns(pl.lit(0).alias("class"))
        .group_by("class", *keys)
        .agg(share=counted.sum() / rest.sum(), ratio=((others + cost) / own).clip(1 / LONGEST, LONGEST))
    )
    if found.is_empty():
        return pl.DataFrame({"share": [1.0], "ratio": [1.0]})
    known = {name: pl.when(pl.col(name).is_finite()).then(name).fill_null(1.0) for name in ("share", "ratio")}
    return found.with_columns(**known)


def _regular(table: pl.DataFrame) -> bool:
    """Return whether most windows of steps that were not recorded are alike: all but their longest step, by `NEAR`."""
    length = pl.col("length").sort()
    near = table.filter("whole", ~pl.col("recorded")).group_by("window").agg(length.get(WINDOW - 2) / length.first())
    return near.height >= LEAST and near.select((pl.col("length") <= NEAR).mean() > 0.5).item()


def _divided(table: pl.DataFrame) -> bool:
    """Return whether long steps are rare, and chance explains how many of the recorded steps are long.

    The number of long steps among n chosen ones has a binomial distribution. A larger number than its mean plus three
    standard deviations plus one is no chance: for example, recording makes longer steps still longer.
    """
    drawn, long = pl.col("rest") > 0, pl.col("long")
    part = (long & ~pl.col("recorded")).sum() / (~pl.col("recorded")).sum()
    part, found, number = table.select(part.alias("part"), (drawn & long).sum(), drawn.sum().alias("number")).row(0)
    chance = number * part + 3 * (number * part * (1 - part)) ** 0.5 + 1
    return bool(part <= RARE and found <= chance)


def _left(table: pl.DataFrame) -> float:
    """Return for which part of the long steps that were not recorded the usual steps have to stand, from 0 to 1."""
    long = table.filter("long")
    number, stands = int((~long["recorded"]).sum()), float(long["rest"].sum())
    if not number or (stands and int(long["recorded"].sum()) >= FEW):
        return 0.0
    return max(1 - stands / number, 0.0)


def _windows(table: pl.DataFrame) -> pl.DataFrame:
    """Add `place` (number of the step), `window`, `first` (place in its burst) and `whole`.

    `whole` tells whether the window has all of its steps, and either all or none of them were recorded.
    """
    numbered = table.with_row_index("place").with_columns(run=pl.col("recorded").rle_id())
    numbered = numbered.with_columns(first=pl.int_range(pl.len()).over("run"))
    begins = numbered.filter("recorded", pl.col("first") == 0, pl.col("run") > 0)["place"] % WINDOW
    begin = int(begins.mode().min()) if len(begins) else 0  # type: ignore[arg-type]
    numbered = numbered.with_columns(window=(pl.col("place") + WINDOW - begin) // WINDOW)
    alike = (pl.len() == WINDOW) & (pl.col("recorded").n_unique() == 1)
    return numbered.with_columns(whole=alike.over("window"))


def _warm(table: pl.DataFrame, cost: float, regular: bool) -> pl.DataFrame:
    """Return the factor `warm` of the first `COLD` steps of each burst, by `place`; no rows if it is unknown.

        factor = (k * b + c) / (m * b + c), at most 1

    c is the cost of recording. m is the median over bursts of (length of this step - c) / (mean length of the last
    steps of its window - c), and b the median of this divisor. k is the same as m for the windows that were not
    recorded: for example, each fourth step of the job may be longer. The column `cold` tells whether only caches make
    the step slower: steps are regular, k is 1 as far as `ALIKE` tells, and the factor is less than 1 / `SLOWER`.

    Args:
        table: the steps with the columns of `_windows`.
        cost: the cost of recording a step, ns.
        regular: whether steps are regular.
    """
    bare = pl.col("length") - cost * pl.col("recorded").cast(pl.Float64)
    windows = table.filter("whole").with_columns(bare).group_by("window", maintain_order=True)
    lengths = windows.agg(pl.col("recorded", "run", "first", "place").first(), "length")
    lengths = lengths.with_columns(last=pl.col("length").list.slice(COLD).list.mean())
    # the first steps of the job are no burst
    bursts = lengths.filter("recorded", pl.col("first") == 0, pl.col("run") > 0)
    others = lengths.filter(~pl.col("recorded"))
    found = [pl.DataFrame(schema={"place": pl.UInt32, "warm": pl.Float64, "cold": pl.Boolean})]
    if min(bursts.height, others.height) >= LEAST:
        usual = float(bursts["last"].median())  # type: ignore[arg-type]
        for place in range(COLD):
            each = (pl.col("length").list.get(place) / pl.col("last")).median()
            other, own = others.select(each).item(), bursts.select(each).item()
            warm = (other * usual + cost) / max(own * usual + cost, 1.0)
            if not isfinite(warm):  # the steps of a burst only wait
                continue
            cold = regular and 1 / ALIKE <= other <= ALIKE and warm < 1 / SLOWER
            warm = min(max(warm, 1 / LONGEST), 1.0)
            found.append(bursts.select(pl.col("place") + place, warm=pl.lit(warm), cold=pl.lit(cold)))
    return pl.concat(found)


def _cost(table: pl.DataFrame) -> tuple[float, float]:
    """Return the cost of recording a step in ns, c of `weighted`, and its standard error.

    The standard error of a median is 1.2533 times that of a mean, and 1.4826 times the median absolute deviation is
    the standard deviation of a normal distribution.

    Args:
        table: the steps with `stratum`, `recorded`, `beside` and `length`.
    """
    length = pl.col("length")
    both = table.group_by("stratum").agg(cost=length.filter("recorded").median() - length.filter("beside").median())
    both = both.drop_nulls("cost")
    away = (pl.col("cost") - pl.col("cost").median()).abs().median()
    cost, spread, number = both.select(pl.col("cost").median(), away.alias("spread"), pl.len()).fill_null(0.0).row(0)
    return max(cost, 0.0), 1.2533 * 1.4826 * spread / max(number, 1) ** 0.5


def _beside(marked: pl.DataFrame) -> pl.Series:
    """Return for each step whether it is next to a burst and was not recorded, Boolean.

    Next to a burst of n steps are `BESIDE` * n steps on either side, but not the step after it: there, records are
    switched off, which takes time.

    Args:
        marked: the steps with `recorded`.
    """
    numbered = marked.select("recorded", run=pl.col("recorded").rle_id())
    table = numbered.with_columns(size=pl.len().over("run"), place=pl.int_range(pl.len()).over("run"))
    runs = table.group_by("run", maintain_order=True).agg(pl.col("size").first())
    around = runs.select("run", before=pl.col("size").shift(1), after=pl.col("size").shift(-1))
    before = pl.col("place").is_between(1, BESIDE * pl.col("before")).fill_null(False)
    after = (pl.col("size") - pl.col("place") <= BESIDE * pl.col("after")).fill_null(False)
    both = table.join(around, on="run", maintain_order="left")
    return both.select(beside=(before | after) & ~pl.col("recorded")).to_series()
