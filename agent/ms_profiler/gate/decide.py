"""Decide whether the new version of a job is worse: one verdict for each figure, and one for all of them.

The gate compares two sides: the runs of the old version (base) and the runs of the new version. A time is worse if the
ratio new / base is beyond the threshold and the difference is significant. Counts and peak memory hardly vary, so one
run on each side is enough for a decision about them.
"""

import statistics
from collections.abc import Sequence
from dataclasses import replace

from ms_profiler.errors import UsageError
from ms_profiler.gate import doubts, figures, noise, significance
from ms_profiler.gate.figures import Figure, Kind, Metric
from ms_profiler.gate.verdicts import RUNS, Decision, Judged, Rules, Verdict

_LISTED = 3  #: largest number of figures that the sentence about the verdict names
Runs = Sequence[dict[str, Figure]]
#: kinds of figures, in the order in which the verdict shows them
_ORDER = (Kind.TIME, Kind.SPEED, Kind.MEAN, Kind.COUNT, Kind.MEMORY, Kind.ADVISORY)


def decide(
    base: Runs,
    new: Runs,
    rules: Rules,
    floor_of: Sequence[float] = (),
    mean: bool = False,
    left_out: str = "",
    recorded: float | None = None,
) -> Decision:
    """Return the verdict on the runs of the two versions; the caller has checked that they can be compared.

    Args:
        base: the figures of each base run, by name.
        new: the figures of each new run, by name.
        rules: the rules that decide whether a figure is worse.
        floor_of: the step times of a stored baseline's runs. The threshold must not be smaller than their noise allows.
        mean: whether work that recurs in some steps changed, as `basis.by_mean` tells. Then the mean step decides with
            few runs, too.
        left_out: words for the steps that the mean steps leave out; empty for none.
        recorded: the ratio new / base of the recorded steps, if only some runs were sampled.

    Raises:
        UsageError: the threshold is too small for this noise.
    """
    refuse_low(rules, floor_of, len(new))
    judged = [found for name in figures.names([*base, *new]) if (found := _judge(name, base, new, rules)) is not None]
    judged = [_recurring(one, base, new, rules, mean) if one.metric.kind is Kind.MEAN else one for one in judged]
    if left_out:
        judged = [_without(one, left_out) if one.metric.name == figures.MEAN else one for one in judged]
    else:  # the two mean steps are the same
        judged = [one for one in judged if one.metric.name != figures.WHOLE]
    judged.sort(key=lambda one: _ORDER.index(one.metric.kind))
    sides = [[run[figures.STEP].value for run in side] for side in (base, new)]
    noise_here = doubts.noise_of(sides)
    judged = [doubts.doubted(one, judged, noise_here, rules) if one.metric.kind is Kind.TIME else one for one in judged]
    judged = [
        doubts.of_recording(one, recorded, rules, noise_here.runs) if one.metric.kind in (Kind.TIME, Kind.MEAN) else one
        for one in judged
    ]
    step = next(one for one in judged if one.metric.name == figures.STEP)
    if step.verdict is not Verdict.INCONCLUSIVE:
        judged = [_without_vote(one) if one.metric.kind is Kind.SPEED else one for one in judged]
    verdict = _worst([one.verdict for one in judged])
    return Decision(
        verdict=verdict,
        headline=_headline(verdict, judged, mean, left_out),
        judged=tuple(judged),
        notes=tuple(_notes(sides, noise_here, rules, verdict is Verdict.INCONCLUSIVE)),
        base_runs=len(base),
        new_runs=len(new),
        rules=rules,
        spread=noise_here.spread,
    )


def not_comparable(reasons: Sequence[str], rules: Rules) -> Decision:
    """Return the verdict on runs that cannot be compared.

    Args:
        reasons: the reasons, one sentence each.
        rules: the rules with which the gate was called, for the report.
    """
    return Decision(Verdict.NOT_COMPARABLE, reasons[0], reasons=tuple(reasons), rules=rules)


def with_notes(decision: Decision, *notes: str) -> Decision:
    """Return a copy of a decision with further notes."""
    return replace(decision, notes=(*decision.notes, *notes))


def refuse_low(rules: Rules, floor_of: Sequence[float], runs: int) -> None:
    """Raise an error if the threshold is too small for the noise of a stored baseline.

    Args:
        rules: the rules, which have the threshold.
        floor_of: the step times of the runs of the baseline.
        runs: the number of new runs. Too few runs do not decide about time; then any threshold is allowed.

    Raises:
        UsageError: the threshold is too small.
    """
    floor = noise.floor(floor_of, runs) if min(len(floor_of), runs) >= RUNS else None
    if floor is None or rules.threshold >= floor:
        return
    more = noise.runs_needed(floor_of, rules.threshold)
    remedy = f"Name --threshold {smallest_threshold(floor):g}"
    remedy += f", or store and gate {more} runs a side with --repeat {more}." if more else "."
    raise UsageError(
        f"{runs} runs cannot decide on a threshold of {rules.threshold:.1%}: equal runs of the baseline differ by "
        f"{noise.spread(floor_of) or 0:.1%}, which allows a threshold of {smallest_threshold(floor):.1%}.",
        remedy,
    )


def smallest_threshold(floor: float) -> float:
    """Return the smallest allowed threshold: the noise floor, rounded up to a tenth of a percent."""
    return (int(floor * 1000) + 1) / 1000


def _judge(name: str, base: Runs, new: Runs, rules: Rules) -> Judged | None:
    metric = figures.metric(name)
    sides = []
    for side in (base, new):
        known = [run[name] for run in side if name in run]
        if not known and figures.counted_once(name):
            known = [Figure(0.0, 0.0)]
        if not known:
            return None
        sides.append(known)
    before, after = sides
    values = [figure.value for figure in before], [figure.value for figure in after]
    middle = statistics.median(values[0]), statistics.median(values[1])
    ratio = middle[1] / middle[0] if middle[0] else None
    if metric.kind is Kind.SPEED and [len(side) for side in sides] != [len(base), len(new)]:
        return None
    if metric.kind in (Kind.TIME, Kind.SPEED, Kind.MEAN, Kind.ADVISORY):
        return _time(metric, *values, *middle, ratio, rules)
    return _single(metric, before, after, *middle, ratio)


def _time(
    metric: Metric,
    before: list[float],
    after: list[float],
    base: float,
    new: float,
    ratio: float | None,
    rules: Rules,
) -> Judged | None:
    decides = metric.kind is Kind.TIME
    if ratio is None or min(*before, *after) <= 0:
        return None
    found = significance.estimate(before, after)
    low, high, p = found.low, found.high, found.p
    beyond = ratio > 1 + rules.threshold
    if metric.kind is Kind.SPEED:
        # The gate makes two tests with the same runs: of the step time and of the step time at equal speed. Each false
        # alarm counts, so this test gets half of ALPHA.
        worse = beyond and p < significance.ALPHA / 2 and min(len(before), len(after)) >= RUNS
        verdict = Verdict.REGRESSION if worse else Verdict.ADVISORY
        why = f"beyond {rules.threshold:.1%}, p {p:.3f}" if worse else ""
    elif not decides:
        verdict, why = Verdict.ADVISORY, ""
    elif min(len(before), len(after)) < RUNS:
        tripped = ratio >= rules.tripwire
        verdict = Verdict.REGRESSION if tripped else Verdict.ADVISORY
        why = f"fewer than {RUNS} runs a side: advisory below x{rules.tripwire:g}"
    elif beyond and p < significance.ALPHA:
        verdict, why = Verdict.REGRESSION, f"beyond {rules.threshold:.1%}, p {p:.3f}"
    elif high is not None and high <= 1 + rules.threshold:
        verdict, why = Verdict.PASS, f"at most {high - 1:+.1%}, p {p:.3f}"
    else:
        verdict = Verdict.INCONCLUSIVE
        end = "" if high is None else f"may be {high - 1:+.1%}, "
        why = f"{end}p {p:.3f}: these runs are not enough to decide"
    return Judged(metric, base, new, verdict, why, ratio, low, high, p)


def _single(
    metric: Metric, before: list[Figure], after: list[Figure], base: float, new: float, ratio: float | None
) -> Judged:
    """Judge a figure that hardly varies, such as a count; a count must have grown in every step to be a regression."""
    most = max(figure.value for figure in before)
    grown = new > most * (1 + metric.room) and new > most + metric.least
    if metric.kind is Kind.COUNT and max(figure.least for figure in before) >= statistics.median(
        figure.least for figure in after
    ):
        grown = False
    if grown:
        return Judged(metric, base, new, Verdict.REGRESSION, f"{new - base:+,.6g}", ratio)
    return Judged(metric, base, new, Verdict.PASS, "" if new == base else f"{new - base:+,.6g}", ratio)


def _recurring(one: Judged, base: Runs, new: Runs, rules: Rules, mean: bool) -> Judged:
    """Return a mean step with a vote. Like the step time at equal speed, it gets half of `ALPHA`.

    Only the time beyond the median step decides, so a slower machine cannot. Where it is not known that work recurs in
    some steps, this time must be significant by itself.

    Args:
        one: the mean step.
        base: the figures of each base run, by name.
        new: the figures of each new run, by name.
        rules: the rules that decide whether a figure is worse.
        mean: whether work that recurs in some steps changed.
    """
    step = statistics.median(run[figures.STEP].value for run in base)
    before, after = (figures.excesses(side, step, one.metric.name) for side in (base, new))
    added = statistics.median(after) - statistics.median(before)
    share = added / one.base
    if min(len(before), len(after)) >= RUNS:
        sure = mean or significance.larger(before, after) < significance.ALPHA / 2
        longer = (one.ratio or 1) > 1 + rules.threshold and (one.p or 0) < significance.ALPHA / 2
        worse = sure and longer and share > rules.threshold
    else:
        worse = mean and one.metric.name == figures.MEAN and 1 + share >= rules.tripwire
    if not worse:
        return one
    why = f"work that only some steps have takes {added:.3g} ms a step ({share:.1%}) longer"
    return replace(one, verdict=Verdict.REGRESSION, why=why)


def _without(one: Judged, left_out: str) -> Judged:
    return replace(one, why=f"{one.why}{'; ' * bool(one.why)}without {left_out}")


def _without_vote(one: Judged) -> Judged:
    return replace(one, verdict=Verdict.ADVISORY, why="")


def _worst(verdicts: list[Verdict]) -> Verdict:
    for worst in (Verdict.REGRESSION, Verdict.INCONCLUSIVE):
        if worst in verdicts:
            return worst
    # if no figure decides, the verdict is inconclusive
    return Verdict.PASS if Verdict.PASS in verdicts else Verdict.INCONCLUSIVE


def _headline(verdict: Verdict, judged: list[Judged], mean: bool, left_out: str) -> str:
    step = next(one for one in judged if one.metric.name == figures.STEP)
    regressed = [one for one in judged if one.verdict is Verdict.REGRESSION and one is not step]
    worse = [one.metric.name for one in regressed if one.metric.kind not in (Kind.SPEED, Kind.MEAN)]
    change = f"Steps take {step.base:.4g} -> {step.new:.4g} ms ({(step.ratio or 1) - 1:+.1%})"
    change += "".join(
        f", at equal speed {one.ratio - 1:+.1%}"
        for one in regressed
        if one.ratio and one.metric.name == figures.AT_SPEED
    )
    change += "".join(
        f", on average {one.base:.4g} -> {one.new:.4g} ms ({one.ratio - 1:+.1%}{_which(one, left_out)})"
        for one in _means(judged, mean)
        if one.ratio
    )
    if verdict is Verdict.REGRESSION and worse:
        slower = step.verdict is Verdict.REGRESSION or len(worse) < len(regressed)
        grew = f"{_listed(worse)} grew"
        return f"{change}; {grew}." if slower else f"{grew[0].upper()}{grew[1:]}. {change}."
    if verdict is Verdict.INCONCLUSIVE:
        return f"{change}, which these runs do not decide."
    return f"{change}."


def _means(judged: list[Judged], mean: bool) -> list[Judged]:
    """Return the mean step that the sentence about the verdict tells; at most one."""
    known = [one for one in judged if one.metric.kind is Kind.MEAN]
    worse = [one for one in known if one.verdict is Verdict.REGRESSION]
    return worse[:1] or [one for one in known if mean and one.metric.name == figures.MEAN]


def _which(one: Judged, left_out: str) -> str:
    return f", {'with' if one.metric.name == figures.WHOLE else 'without'} {left_out}" if left_out else ""


def _listed(names: list[str]) -> str:
    if len(names) > _LISTED:
        names = [*names[:_LISTED], f"{len(names) - _LISTED} more"]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _notes(sides: list[list[float]], here: doubts.Noise, rules: Rules, unsure: bool) -> list[str]:
    if here.runs < RUNS:
        return [
            f"With fewer than {RUNS} runs a side, counts and memory decide, and a time only if it is "
            f"{rules.tripwire:g} times as long, or longer."
        ]
    notes = [
        f"Equal runs differ by {here.spread or 0:.1%} here; {here.runs} runs a side can decide on a threshold of "
        f"{here.allowed:.1%} or more."
    ]
    if unsure:
        # The distance of the ratio new / base from the threshold. A decision needs an interval of the ratio that is
        # narrower than this distance.
        away = abs(statistics.median(sides[1]) / statistics.median(sides[0]) / (1 + rules.threshold) - 1)
        more = noise.runs_needed(here.times, away, at_least=here.runs + 1)
        unknown = "No practical number of runs would be enough to decide: use a quieter machine, or a longer job."
        notes.append(f"About {more} runs a side would be enough to decide." if more else unknown)
    return notes
