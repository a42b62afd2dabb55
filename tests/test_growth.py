"""Growth of memory is found if each step adds memory, and not otherwise."""

import polars as pl
import pytest
from ms_profiler.analysis.metrics.growth import growth
from ms_profiler.analysis.metrics.steps import Steps
from ms_profiler.analysis.model import tables
from ms_profiler.store.format import StepSource

MB = 1 << 20
MS = 1_000_000


def found(held, compiled=(), every=1):
    """Return the growth of memory in a run with steps of 1 ms.

    Args:
        held: megabytes that the process holds at each sample.
        compiled: numbers of steps that compile.
        every: number of steps between two samples.
    """
    count = len(held) * every
    rows = [(1, 1, number, number * MS, (number + 1) * MS, 1, True, "all", 0) for number in range(count)]
    steps = Steps(1, 1, StepSource.SCRIPT, pl.DataFrame(rows, schema=tables.STEPS, orient="row"))
    times = [(place + 1) * every * MS + 1000 for place in range(len(held))]
    samples = pl.DataFrame({"time_ns": times, "held": [round(size * MB) for size in held]})
    return growth(samples, steps, list(compiled))


@pytest.mark.parametrize("every", [1, 5])
def test_growth_per_step(every):
    leak = found([100 + 2 * step for step in range(41)], every=every)
    # the first quarter of the samples does not count, so the growth is from sample 10 to sample 40
    assert leak.per_step == pytest.approx(2 * MB / every)
    assert (leak.total, leak.held) == (60 * MB, 180 * MB)
    assert (leak.first, leak.last) == (11 * every - 1, 41 * every - 1)


@pytest.mark.parametrize("rates", [(1, 8), (8, 1)])
def test_growth_that_changes_its_rate_goes_on(rates):
    """The rate changes in the middle of the run."""
    leak = found([100 + rates[0] * min(step, 50) + rates[1] * max(step - 50, 0) for step in range(101)])
    assert leak.per_step == pytest.approx(rates[1] * MB)
    assert leak.first > 50 and leak.last == 100


@pytest.mark.parametrize(
    "held",
    [
        [100.0] * 40,
        [100 + 50 * (1 - 0.8**step) for step in range(40)],
        [100 + (step % 10) * 8 for step in range(40)],
        [100 + (step % 20) * 8 for step in range(40)],
        [100 + (step % 50) * 8 for step in range(100)],
        [100 + 100 * (1 - 0.96**step) for step in range(100)],
        [100 if step < 30 else 200 for step in range(40)],
        [100 + 0.05 * step for step in range(40)],
        [100 + 10 * step for step in range(7)],
        [300 - 2 * step for step in range(40)],
        # measured: batches of 8.5 MB come and go
        [252.5, 257.2, *(held for held in (261.4, 274.2, 257.2, 265.7, 261.1, 260.7, 257.2, 265.7) for _ in "12")]
        + [274.2] * 6,
    ],
    ids=["flat", "settles", "saw", "two", "epochs", "slowly", "once", "little", "few", "shrinks", "batches"],
)
def test_no_growth_without_evidence(held):
    assert found(held) is None


def test_samples_close_together_in_slow_steps_form_no_own_block():
    rows = [(1, 1, number, number * MS, (number + 1) * MS, 1, True, "all", 0) for number in range(120)]
    steps = Steps(1, 1, StepSource.SCRIPT, pl.DataFrame(rows, schema=tables.STEPS, orient="row"))
    # one sample every six steps, and one in each step from 60 to 77
    sampled = sorted({*range(0, 120, 6), *range(60, 78)})
    held = [(100 + number) * MB for number in sampled]
    times = [(number + 1) * MS + 1000 for number in sampled]
    leak = growth(pl.DataFrame({"time_ns": times, "held": held}), steps, [])
    assert leak is not None
    assert leak.per_step == pytest.approx(MB)


def test_memory_of_a_compilation_is_not_the_scripts():
    compiled = list(range(0, 40, 2))
    assert found([100 + 10 * (step // 2) for step in range(40)], compiled) is None
    assert found([100 + 10 * (step // 2) for step in range(40)]) is not None
    both = found([100 + 10 * (step // 2) + step for step in range(80)], list(range(0, 80, 2)))
    assert both.per_step == pytest.approx(MB)
