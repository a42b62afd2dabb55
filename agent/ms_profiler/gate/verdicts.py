"""The verdicts of a gate, about one figure and about all of them, and the rules by which they are made."""

from dataclasses import dataclass, field
from enum import Enum

from ms_profiler.gate import exits
from ms_profiler.gate.figures import Kind, Metric

#: Smallest number of runs on each side for a decision about time. With three runs on each side, no difference could be
#: significant.
RUNS = 4
THRESHOLD = 0.05
TRIPWIRE = 1.5


class Verdict(Enum):
    """The verdicts of a gate; their values never change, so scripts may rely on them."""

    PASS = "pass"
    REGRESSION = "regression"
    INCONCLUSIVE = "inconclusive"
    NOT_COMPARABLE = "not comparable"
    ADVISORY = "advisory"  # for one figure, never for the whole gate: the figure is shown and does not decide


@dataclass(frozen=True)
class Rules:
    """The rules that decide whether a figure is worse.

    Attributes:
        threshold: the share by which steps may take longer without a regression, for example 0.05.
        tripwire: limit for the case of too few runs for a test: the step time is a regression if its ratio new / base
            is this or more.
    """

    threshold: float = THRESHOLD
    tripwire: float = TRIPWIRE


@dataclass(frozen=True)
class Judged:
    """A figure of both sides, such as the step time, and the verdict on it.

    Attributes:
        metric: name, unit and rule of the figure.
        base: median over the base runs, in the metric's unit.
        new: median over the new runs, in the metric's unit.
        verdict: the verdict on this figure.
        why: the reason for the verdict, in one sentence.
        ratio: `new` divided by `base`; None if `base` is 0.
        low, high: ends of the interval in which the true ratio probably lies; None if it was not computed.
        p: p-value of the test whether the new runs are slower; None without a test.
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
        verdict: the verdict on all figures together.
        headline: the verdict in one sentence.
        judged: the figures with their verdicts; figures that decide come first.
        reasons: the reasons why the runs are not comparable; empty if they are.
        notes: further notes for the reader.
        base_runs, new_runs: number of runs of the old and of the new version.
        rules: the rules that were applied.
        spread: how much equal runs differ on the side where they differ more, as a share; None for too few runs.
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
        """Return whether the step time at equal speed of the machine is a regression.

        This figure decides only if the plain step time is inconclusive.
        """
        return any(one.metric.kind is Kind.SPEED and one.verdict is Verdict.REGRESSION for one in self.judged)

    def exit_code(self, strict: bool) -> int:
        """Return the exit code of `ms-profiler gate` for this verdict.

        Args:
            strict: whether an inconclusive verdict gets an exit code of its own. If not, it gets the code of a pass.
        """
        if self.verdict is Verdict.INCONCLUSIVE:
            return exits.INCONCLUSIVE if strict else exits.PASS
        codes = {Verdict.PASS: exits.PASS, Verdict.REGRESSION: exits.REGRESSION}
        return codes.get(self.verdict, exits.NOT_COMPARABLE)
