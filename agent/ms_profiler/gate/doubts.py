"""Make a verdict about the step time inconclusive where noise, or the cost of recording, may explain the change."""

from dataclasses import replace
from typing import NamedTuple

from ms_profiler.gate import noise, significance
from ms_profiler.gate.figures import Kind
from ms_profiler.gate.verdicts import RUNS, Judged, Rules, Verdict


class Noise(NamedTuple):
    """How much equal runs differ, on the side on which they differ more.

    Attributes:
        spread: the typical difference between the step times of this side's runs, as a share; None for too few runs.
        allowed: the smallest threshold that can be used with this noise and number of runs.
        times: the step times of this side's runs, in ms.
        runs: the number of runs of the side that has fewer runs.
    """

    spread: float | None
    allowed: float
    times: list[float]
    runs: int


def doubted(one: Judged, judged: list[Judged], here: Noise, rules: Rules) -> Judged:
    """Make a regression of the step time inconclusive if a change of the machine's speed could explain it.

    The rule applies if equal runs differ by more than the threshold, and the step is not slower at equal speed of the
    machine. A regression then stays one only if the change exceeds the smallest threshold that these runs allow, and p
    is below `ALPHA / 2`. Without this rule, two of twenty gates of equal jobs were false alarms on a machine whose
    speed changes by half. For simulated equal runs that differ by 8 %, the rule reduces false alarms from 3.9 % to
    2.0 %.

    With fewer than `RUNS` runs a side, the step must be longer than the tripwire allows at equal speed, too.
    """
    at_speed = next((other for other in judged if other.metric.kind is Kind.SPEED), None)
    if one.verdict is not Verdict.REGRESSION or at_speed is None or at_speed.ratio is None:
        return one
    if here.runs < RUNS:
        if at_speed.ratio >= rules.tripwire:
            return one
        why = f"at equal speed {at_speed.ratio - 1:+.1%}, so the machine may be slower: these runs do not decide"
        return replace(one, verdict=Verdict.INCONCLUSIVE, why=f"{why}, {RUNS} or more a side do")
    if here.spread is None:
        return one
    sure = (one.ratio or 1) - 1 >= here.allowed and (one.p or 0) < significance.ALPHA / 2
    if here.spread <= rules.threshold or sure or at_speed.high is None or at_speed.high > 1 + rules.threshold:
        return one
    why = f"all modules changed alike, and equal runs differ by {here.spread:.1%} here: these runs do not decide"
    return replace(one, verdict=Verdict.INCONCLUSIVE, why=why)


def noise_of(sides: list[list[float]]) -> Noise:
    """Return how much equal runs differ on the side on which they differ more.

    Args:
        sides: the step times of the base runs and of the new runs, in ms.
    """
    runs = min(map(len, sides))
    spread, times = max(((noise.spread(side), side) for side in sides), key=lambda pair: pair[0] or 0.0)
    return Noise(spread, noise.floor(times, runs) or 0.0, times, runs)


def of_recording(one: Judged, recorded: float | None, rules: Rules, runs: int) -> Judged:
    """Make a verdict on the step time inconclusive if the recorded steps do not agree with it.

    If only some runs were sampled, only the others' step times contain the cost of recording. This cost alone must not
    decide. So the recorded steps, which contain it in all runs, must show a regression, or a pass, as well.

    Args:
        one: the step time or the mean step time, with its verdict.
        recorded: the ratio new / base of the recorded steps; None if all runs were sampled, or none.
        rules: the rules of the gate.
        runs: the number of runs of the side that has fewer runs.
    """
    if recorded is None or one.verdict not in (Verdict.REGRESSION, Verdict.PASS):
        return one
    beyond = recorded >= rules.tripwire if runs < RUNS else recorded > 1 + rules.threshold
    if beyond == (one.verdict is Verdict.REGRESSION):
        return one
    why = f"steps were sampled in some runs only, and the recorded steps changed by {recorded - 1:+.1%}"
    unsure = Verdict.ADVISORY if runs < RUNS else Verdict.INCONCLUSIVE
    return replace(one, verdict=unsure, why=f"{why}: these runs do not decide")
