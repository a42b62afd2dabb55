"""The durations of a run's steps, as a part of its digest."""

from dataclasses import dataclass


@dataclass(frozen=True)
class StepTime:
    """The durations of a run's steps.

    Attributes:
        median_ns: the median of the steady steps. The first step and steps that compiled are not steady. However, if
            more than a tenth of the steps after the fifth one compiled, all steps after the fifth one are steady.
        first_ns: the time from the first record of the run to the end of its first step; None if another tool recorded
            the run.
        durations_ns: the duration of each steady step of the slowest rank, in order.
        count: the number of steady steps.
        total: the number of all steps of the run.
        source: the source of the step marks, which tell where a step ends.
        mean_ns: the mean of the steady steps without those that `recurrence.kept` leaves out; 0 if unknown. If steps
            were sampled, it has the waits for data and the checkpoints of all steady steps (`step_waits`).
        sampled: the number of steady steps that were sampled, which alone have parts and counts. Then `median_ns`,
            `durations_ns`, `count` and `mean_ns` are those of the other steps (`sampled.others`). 0 if all steps were
            recorded.
        recorded_ns: the median of the steady steps that were sampled; 0 if all steps were recorded.
        own_first_ns: the duration of the first step; None if unknown.
        long_sampled_ns: the durations of single long steps among the sampled steady steps, which `durations_ns` lacks.
            They are found like those in `durations_ns`, but among the sampled steps alone, because recording makes
            these longer. Empty if all steps were recorded.
        excesses: (mean - median step) / median step in each block of all steady steps, sampled or not
            (`recurrence.excesses`). A sampled step is shortened by what recording takes in the median step. Empty if
            all steps were recorded.
        wait_blocks: phase of `known_waits.KNOWN` -> its mean time in each block of all steady steps, ns; lacks phases
            that no step has. None if it is unknown.
        queued_ns: the mean time for which the stepping thread waited for a processor in the usual steps (those of the
            cells). None if it is unknown, or if other threads compute.
    """

    median_ns: int
    first_ns: int | None
    durations_ns: tuple[int, ...]
    count: int
    total: int
    source: str
    mean_ns: int = 0
    sampled: int = 0
    recorded_ns: int = 0
    own_first_ns: int | None = None
    long_sampled_ns: tuple[int, ...] = ()
    excesses: tuple[float, ...] = ()
    wait_blocks: dict[str, tuple[float, ...]] | None = None
    queued_ns: int | None = None
