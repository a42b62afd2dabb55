"""One side of a comparison: one run, or several runs of one job."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from ms_profiler.analysis.comparison import recurrence
from ms_profiler.analysis.comparison.digest import Digest


@dataclass(frozen=True)
class Side:
    """One side of the comparison: one run, or several runs of one job.

    Attributes:
        source: directory or file, as the user named it.
        runs: number of runs.
        step_ns: median step of the side: the median of the runs' median steady steps.
        least_ns: smallest median step of a run.
        most_ns: largest median step of a run.
        mean_ns: mean step of the side, without single disturbed steps: the median of the runs' mean steps; 0 if
            unknown.
        steps: the number of steady steps in the run with the fewest of them.
        total: the number of all steps in the run with the fewest of them.
        sampled: if steps were sampled, the number of sampled steady steps in the run with the fewest of them; the step
            times are then those of the other steps. 0 if all steps were recorded.
        left_out: number of single long steps of all runs, which `mean_ns` leaves out.
        left_out_ns: by how much these steps are longer than the median step of their run.
        longer: number of the other steps that take more than twice as long as the median step of their run.
        first_ns: the time from the first record to the end of the first step; None if unknown.
        own_first_ns: the duration of the first step; None if unknown.
        ranks: numbers of the ranks that were read.
        expected: number of ranks of the launch.
        dropped: number of records, over all runs, that were dropped for lack of room.
    """

    source: str
    runs: int
    step_ns: int
    least_ns: int
    most_ns: int
    mean_ns: int
    steps: int
    total: int
    sampled: int
    left_out: int
    left_out_ns: int
    longer: int
    first_ns: int | None
    own_first_ns: int | None
    ranks: tuple[int, ...]
    expected: int
    dropped: int


def of(name: str, found: Sequence[Digest], one: Digest) -> Side:
    """Return one side of a comparison.

    Args:
        name: directory or file, as the user named it.
        found: the digests of the side's runs, at least one.
        one: the digest that stands for these runs.
    """
    medians, means = ([getattr(run.step, name) for run in found] for name in ("median_ns", "mean_ns"))
    whole, durations = one.completeness, [run.step.durations_ns for run in found]
    kept = [recurrence.kept(each, each) for each in durations]
    return Side(
        source=name,
        runs=len(found),
        step_ns=round(median(medians)),
        least_ns=min(medians),
        most_ns=max(medians),
        mean_ns=round(median(means)) if all(means) else 0,
        steps=one.step.count,
        total=min(run.step.total for run in found),
        sampled=one.step.sampled,
        left_out=recurrence.left_out(found),
        left_out_ns=sum(duration - run.step.median_ns for run in found for duration in recurrence.singles(run.step)),
        longer=sum(ns > 2 * middle for each, middle in zip(kept, medians, strict=True) for ns in each),
        first_ns=one.step.first_ns,
        own_first_ns=one.step.own_first_ns,
        ranks=whole.present,
        expected=whole.expected,
        dropped=whole.dropped,
    )
