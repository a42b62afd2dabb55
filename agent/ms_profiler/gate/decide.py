"""Decide whether the new side is worse: one verdict for each figure, and one for all of them.

A time is worse if its estimate from several runs is both beyond the threshold and significant. Counts and peak memory
hardly vary, so one run on each side is enough for a decision about them.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import NamedTuple

from ms_profiler.errors import UsageError
from ms_profiler.gate import exits, figures, noise, significance
from ms_profiler.gate.figures import Figure, Kind, Metric

#: smallest number of runs on each side for a decision about time: with three, no order of the runs is significant
RUNS = 4
_LISTED = 3  #: largest number of figures that a sentence lists
THRESHOLD = 0.05
TRIPWIRE = 1.5


class Verdict(Enum):
    """The verdict of a gate; scripts may rely on the values, which never change."""

    PASS = "pass"
    REGRESSION = "regression"
    INCONCLUSIVE = "inconclusive"
    NOT_COMPARABLE = "not comparable"
    ADVISORY = "advisory"  # only for one figure, never for all: the figure is too uncertain to decide


@dataclass(frozen=True)
class Rules:
    """The rules that decide whether a figure is worse.

    Attributes:
        threshold: the share by which steps may take longer without a regression.
        tripwire: the smallest ratio new / base that is a regression even with few runs.
    """

    threshold: float = THRESHOLD
    tripwire: float = TRIPWIRE


@dataclass(frozen=True)
class Judged:
    """A figure of both sides.

    Attributes:
        metric: the metric.
        base: median over the base runs, in the metric's unit.
        new: median over the new runs, in the metric's unit.
        verdict: the verdict on this figure.
        why: the reason, in one sentence.
        ratio: `new` divided by `base`; None if `base` is 0.
        low, high, p: as in `significance.Estimate`; None if no estimate was computed.
    """

    metric: Metric
    base: float
    new: float
    verdict: Verdict
    why: str
    ratio: float | None
    low: float | None = None
    high: float | None = None
    p: float | None = None


@dataclass(frozen=True)
class Decision:
    """The verdict of a gate.

    Attributes:
        verdict: the verdict on all figures.
        headline: the verdict in one sentence.
        judged: the figures; figures that decide come first.
        reasons: the reasons why the runs are not comparable; empty if they are.
        notes: further notes for the reader.
        base_runs, new_runs: number of runs.
        rules: the rules that were applied.
        spread: the spread of the runs on the noisier side, as a share; None for too few runs.
    """

    verdict: Verdict
    headline: str
    judged: tuple[Judged, ...] = ()
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    base_runs: int = 0
    new_runs: int = 0
    rules: Rules = field(default_factory=Rules)
    spread: float | None = None

    @property
    def at_equal_speed(self) -> bool:
        """Return whether the figure `AT_SPEED` is a regression; it decides only if the step time does not decide."""
        return any(one.metric.kind is Kind.SPEED and one.verdict is Verdict.REGRESSION for one in self.judged)

    def exit_code(self, strict: bool) -> int:
        """Return the exit code of the command.

        Args:
            strict: whether an inconclusive verdict has a different exit code than a pass.
        """
        if self.verdict is Verdict.INCONCLUSIVE:
            return exits.INCONCLUSIVE if strict else exits.PASS
        codes = {Verdict.PASS: exits.PASS, Verdict.REGRESSION: exits.REGRESSION}
        return codes.get(self.verdict, exits.NOT_COMPARABLE)


Runs = Sequence[dict[str, Figure]]
#: kinds of figures in the order in which they are shown
_ORDER = (Kind.TIME, Kind.SPEED, Kind.COUNT, Kind.MEMORY, Kind.ADVISORY)


def decide(base: Runs, new: Runs, rules: Rules, floor_of: Sequence[float] = ()) -> Decision:
    """Return the verdict on runs that can be compared.

    Args:
        base: the figures of each base run, by name.
        new: the figures of each new run, by name.
        rules: the rules that decide whether a figure is worse.
        floor_of: the step times of a stored baseline's runs; the threshold must not be below the noise of these times.

    Raises:
        UsageError: the threshold is too small for this noise.
    """
    refuse_low(rules, floor_of, len(new))
    judged = [found for name in figures.names([*base, *new]) if (found := _judge(name, base, new, rules)) is not None]
    judged.sort(key=lambda one: _ORDER.index(one.metric.kind))
    sides = [[run[figures.STEP].value for run in side] for side in (base, new)]
    noise_here = _noise_of(sides)
    judged = [_doubted(one, judged, noise_here, rules) if one.metric.kind is Kind.TIME else one for one in judged]
    step = next(one for one in judged if one.metric.name == figures.STEP)
    if step.verdict is not Verdict.INCONCLUSIVE:
        judged = [_without_vote(one) if one.metric.kind is Kind.SPEED else one for one in judged]
    verdict = _worst([one.verdict for one in judged])
    return Decision(
        verdict=verdict,
        headline=_headline(verdict, judged),
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
        rules: the rules that would have applied.
    """
    return Decision(Verdict.NOT_COMPARABLE, reasons[0], reasons=tuple(reasons), rules=rules)


def with_notes(decision: Decision, *notes: str) -> Decision:
    """Return a copy of a decision with further notes."""
    return replace(decision, notes=(*decision.notes, *notes))


def refuse_low(rules: Rules, floor_of: Sequence[float], runs: int) -> None:
    """Raise an error if the threshold is too small for the noise of a stored baseline.

    Args:
        rules: the rules with the threshold.
        floor_of: step times of the runs of the baseline.
        runs: the number of new runs; too few runs do not decide about time, so that any threshold is allowed.

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
    """Return the noise floor rounded up to a tenth of a percent, as the smallest allowed threshold."""
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
    if metric.kind in (Kind.TIME, Kind.SPEED, Kind.ADVISORY):
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
        # two tests of the same runs would double the false alarms, so each test gets half of ALPHA
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
    """Judge a figure that hardly varies; a count is a regression only if its smallest value of all steps grew."""
    most = max(figure.value for figure in before)
    grown = new > most * (1 + metric.room) + metric.least
    if metric.kind is Kind.COUNT and max(figure.least for figure in before) >= statistics.median(
        figure.least for figure in after
    ):
        grown = False
    if grown:
        return Judged(metric, base, new, Verdict.REGRESSION, f"{new - base:+,.6g}", ratio)
    return Judged(metric, base, new, Verdict.PASS, "" if new == base else f"{new - base:+,.6g}", ratio)


class _Noise(NamedTuple):
    """The noise of the noisier side.

    Attributes:
        spread: the spread of the side's runs, as a share; None for too few runs.
        allowed: the smallest threshold that can be used with this noise and number of runs.
        times: the step times of the side's runs, in ms.
        runs: the number of runs of the smaller side.
    """

    spread: float | None
    allowed: float
    times: list[float]
    runs: int


def _doubted(one: Judged, judged: list[Judged], here: _Noise, rules: Rules) -> Judged:
    """Make a regression of the step time inconclusive if a change of the machine's speed could explain it.

    The rule applies if equal runs differ by more than the threshold and the step is not slower at equal speed. Then the
    change has to exceed the smallest threshold that these runs allow, and p has to be below `ALPHA / 2`. Without this
    rule, two of twenty gates of equal jobs were false alarms on a machine whose speed changes by half. For simulated
    equal runs that differ by 8 %, the rule reduces false alarms from 3.9 % to 2.0 %.
    """
    at_speed = next((other for other in judged if other.metric.kind is Kind.SPEED), None)
    if one.verdict is not Verdict.REGRESSION or at_speed is None or here.runs < RUNS or here.spread is None:
        return one
    sure = (one.ratio or 1) - 1 >= here.allowed and (one.p or 0) < significance.ALPHA / 2
    if here.spread <= rules.threshold or sure or at_speed.high is None or at_speed.high > 1 + rules.threshold:
        return one
    why = f"all modules changed alike, and equal runs differ by {here.spread:.1%} here: these runs do not decide"
    return replace(one, verdict=Verdict.INCONCLUSIVE, why=why)


def _noise_of(sides: list[list[float]]) -> _Noise:
    runs = min(map(len, sides))
    spread, times = max(((noise.spread(side), side) for side in sides), key=lambda pair: pair[0] or 0.0)
    return _Noise(spread, noise.floor(times, runs) or 0.0, times, runs)


def _without_vote(one: Judged) -> Judged:
    return replace(one, verdict=Verdict.ADVISORY, why="")


def _worst(verdicts: list[Verdict]) -> Verdict:
    for worst in (Verdict.REGRESSION, Verdict.INCONCLUSIVE):
        if worst in verdicts:
            return worst
    # if no figure decides, the verdict is inconclusive
    return Verdict.PASS if Verdict.PASS in verdicts else Verdict.INCONCLUSIVE


def _headline(verdict: Verdict, judged: list[Judged]) -> str:
    step = next(one for one in judged if one.metric.name == figures.STEP)
    regressed = [one for one in judged if one.verdict is Verdict.REGRESSION and one is not step]
    worse = [one.metric.name for one in regressed if one.metric.kind is not Kind.SPEED]
    change = f"Steps take {step.base:.4g} -> {step.new:.4g} ms ({(step.ratio or 1) - 1:+.1%})"
    change += "".join(
        f", at equal speed {one.ratio - 1:+.1%}"
        for one in regressed
        if one.ratio and one.metric.name == figures.AT_SPEED
    )
    if verdict is Verdict.REGRESSION and worse:
        slower = step.verdict is Verdict.REGRESSION or any(one.metric.kind is Kind.SPEED for one in regressed)
        grew = f"{_listed(worse)} grew"
        return f"{change}; {grew}." if slower else f"{grew[0].upper()}{grew[1:]}. {change}."
    if verdict is Verdict.INCONCLUSIVE:
        return f"{change}, which these runs do not decide."
    return f"{change}."


def _listed(names: list[str]) -> str:
    if len(names) > _LISTED:
        names = [*names[:_LISTED], f"{len(names) - _LISTED} more"]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _notes(sides: list[list[float]], here: _Noise, rules: Rules, unsure: bool) -> list[str]:
    if here.runs < RUNS:
        return [f"With fewer than {RUNS} runs a side, only counts and memory decide."]
    notes = [
        f"Equal runs differ by {here.spread or 0:.1%} here; {here.runs} runs a side can decide on a threshold of "
        f"{here.allowed:.1%} or more."
    ]
    if unsure:
        # the distance of the estimated ratio from the threshold; a decision needs an interval narrower than this
        away = abs(statistics.median(sides[1]) / statistics.median(sides[0]) / (1 + rules.threshold) - 1)
        more = noise.runs_needed(here.times, away, at_least=here.runs + 1)
        unknown = "No practical number of runs would be enough to decide: use a quieter machine, or a longer job."
        notes.append(f"About {more} runs a side would be enough to decide." if more else unknown)
    return notes
