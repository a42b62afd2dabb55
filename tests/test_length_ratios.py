"""Totals from few sampled steps are right though caches are cold, programs interrupt the job, and steps differ."""

import random

import polars as pl
import pytest
from ms_profiler.analysis.metrics import interruptions, length_ratios, sampling
from ms_profiler.analysis.metrics.steps import Steps
from ms_profiler.analysis.model import tables
from ms_profiler.job.positions import Positions
from ms_profiler.store.format import StepSource

COUNT, BURST = 8000, 4
#: operator -> its usual time in a step, ns; the rest of a step is Python
USUAL = {"large": 100_000, "middle": 40_000, "small": 3_000, "planted": 1_000}
REST, COST = 150_000, 100_000


class Job:
    """A made-up job: the times of its operators in each step, and the total time that is the truth.

    Args:
        planted: step -> time of the operator "planted" in it, ns.
        factor: step -> factor of the time of the operator "large".
        seed: of the noise, and of the sampled steps.
        cold: whether the first step of a burst takes longer, operators by up to 2.5 us.
    """

    def __init__(self, planted=lambda step: USUAL["planted"], factor=lambda step: 1, seed=1, cold=True):
        chance, positions = random.Random(seed), Positions(seed * 7919)
        times, lengths, self.recorded, self.stretch = [], [], [], []
        while len(self.recorded) < COUNT:
            begun = len(self.recorded)
            begin, end = positions.stretch(begun, 500, max(128, begun // 2), BURST, False)
            self.recorded += [begun > 0 and begin <= step < begin + BURST for step in range(begun, end)]
            self.stretch += [self.stretch[-1] + 1 if self.stretch else 0] * (end - begun)
        self.truth = dict.fromkeys(USUAL, 0.0)
        for step in range(COUNT):
            usual = USUAL | {"large": USUAL["large"] * factor(step), "planted": planted(step)}
            own = {name: time * chance.gauss(1, 0.02) for name, time in usual.items()}
            for name, time in own.items():
                self.truth[name] += time
            rest = REST
            if self.recorded[step]:
                rest += COST
                if cold and not self.recorded[step - 1]:
                    slow = chance.uniform(0.5, 1)
                    own = {name: time + slow * min(time, 2500) for name, time in own.items()}
                    rest += slow * 120_000
            times.append(own)
            lengths.append(int(sum(own.values()) + rest))
        self.times, self.lengths = times, lengths

    def interrupt(self, step, name, by_ns):
        """Let another program run for `by_ns` in a step, during an operator, or during Python if `name` is empty."""
        self.lengths[step] += by_ns
        if name:
            self.times[step][name] += by_ns

    @property
    def steps(self):
        """Return the steps of the job."""
        rows, at = [], 0
        for step, length in enumerate(self.lengths):
            content = tables.ALL_OF_IT if self.recorded[step] else tables.COARSE
            rows.append((1, 1, step, at, at + length, 1, self.recorded[step], content, self.stretch[step]))
            at += length
        table = pl.DataFrame(rows, schema=tables.STEPS, orient="row")
        table = table.with_columns(duration_ns=pl.col("end_ns") - pl.col("start_ns"))
        return Steps(1, 1, StepSource.SCRIPT, table)

    def totals(self):
        """Return operator -> its estimated time in relation to the truth, and the standard error in relation to it."""
        sampled = [step for step in range(COUNT) if self.recorded[step]]
        values = [(step, name, 1, int(time)) for step in sampled for name, time in self.times[step].items()]
        schema = {"row": pl.UInt32, "name": pl.String, "count": pl.Int64, "ns": pl.Int64}
        sample = sampling.sample(self.steps, pl.DataFrame(schema=tables.SPANS))
        found = sampling.estimate(
            pl.DataFrame(values, schema=schema, orient="row"), ["name"], ["count", "ns"], sample
        ).select("name", "ns", "ns_error")
        return {name: (ns / self.truth[name], error / self.truth[name]) for name, ns, error in found.iter_rows()}

    @property
    def heaviest(self):
        """Return the last step of the burst that stands for most steps."""
        sampled = [step for step in range(COUNT) if self.recorded[step]]
        return max(sampled, key=lambda step: (self.stretch.count(self.stretch[step]), step))


@pytest.mark.parametrize("seed", range(4))
def test_cold_caches_at_the_begin_of_a_burst_do_not_make_small_operators_longer(seed):
    for name, (ratio, _) in Job(seed=seed).totals().items():
        assert ratio == pytest.approx(1, abs=0.02), name


@pytest.mark.parametrize("cold", [True, False])
def test_steps_with_cold_caches_are_no_steady_steps(cold):
    job = Job(cold=cold)
    first = [step for step in range(COUNT) if job.recorded[step] and not job.recorded[step - 1]]
    assert sampling.cold(job.steps, pl.DataFrame(schema=tables.SPANS)) == (first if cold else [])


@pytest.mark.parametrize("seed", range(4))
def test_one_interruption_in_a_sampled_step_does_not_count_for_all_the_steps_that_it_stands_for(seed):
    job = Job(seed=seed)
    job.interrupt(job.heaviest, "small", 45_000)
    found = job.totals()
    assert {name: ratio for name, (ratio, _) in found.items()} == pytest.approx(dict.fromkeys(USUAL, 1), abs=0.02)
    assert found["small"][1] > 0.1, "it is a part of the error: one of 100 steps may need this time"


def test_times_that_recur_in_the_sampled_steps_are_the_jobs_own():
    often = interruptions.FEW + 1
    values = pl.DataFrame({"run": [number // 4 for number in range(40)], "name": "x"}).with_columns(
        ns=pl.Series([5000 if number % 10 == 1 and number < 10 * often else 1000 for number in range(40)]),
        long=pl.lit(False), cold=pl.lit(False), warm=pl.lit(1.0), regular=pl.lit(True),
    )  # fmt: skip
    assert interruptions.without(values, ["name"], ["ns"])["ns"].to_list() == values["ns"].to_list()
    fewer = values.with_columns(pl.when(pl.col("run") < 2).then(1000).otherwise("ns").alias("ns"))
    kept = interruptions.without(fewer, ["name"], ["ns"])
    assert set(kept["ns"]) == {1000} and kept["ns_removed"].sum() == 3 * 4000


@pytest.mark.parametrize("time", [8_000, 200_000], ids=["a short operator", "an operator that makes the step longer"])
def test_work_in_each_fourth_step_which_is_the_first_of_each_burst_keeps_its_time(time):
    """How much of the longer first step is due to caches is only known on average, so its times are less exact."""
    found = Job(lambda step: time if step % 4 == 0 else USUAL["planted"]).totals()
    assert found["planted"][0] == pytest.approx(1, abs=0.15)
    assert found["large"][0] == pytest.approx(1, abs=0.04)


@pytest.mark.parametrize("factor", [1.6, 2.0, 4.0])
def test_every_other_step_may_be_longer(factor):
    """As with a generator and a discriminator in turn."""
    found = Job(lambda step: 50_000 if step % 2 else 1_000, lambda step: factor if step % 2 else 1).totals()
    for name, (ratio, _) in found.items():
        assert ratio == pytest.approx(1, abs=0.1 if USUAL[name] < 10_000 else 0.06), name


def test_rare_long_steps_stand_for_long_steps_only():
    """Each 50th step takes three times as long. By chance, the sample has few or many of these."""
    found = [Job(lambda step: 600_000 if step % 50 == 7 else 1_000, seed=seed, cold=False) for seed in range(12)]
    totals = [each.totals() for each in found]
    drawn = [sum(each.recorded[step] for step in range(7, COUNT, 50)) for each in found]
    some = [ratio for each, number in zip(totals, drawn, strict=True) if number for ratio, _ in [each["planted"]]]
    assert len(some) >= 4 and sum(some) / len(some) == pytest.approx(1, abs=0.3)
    for each in totals:
        assert each["large"][0] == pytest.approx(1, abs=0.05)


def test_one_interrupted_step_is_a_long_step_among_few():
    """Interruptions of Python: of the other steps, one of 200 is longer by half. They have no operator of their own."""
    job = Job(cold=False)
    for step in range(0, COUNT, 200):
        if not job.recorded[step]:
            job.interrupt(step, "", 150_000)
    job.interrupt(job.heaviest, "", 150_000)
    for name, (ratio, _) in job.totals().items():
        assert ratio == pytest.approx(1, abs=0.02), name


def test_a_step_is_compared_with_its_own_window():
    """Bursts begin at multiples of the window, so the windows of recorded steps contain no other steps."""
    assert BURST % length_ratios.WINDOW == 0
    job = Job()
    begins = [step for step in range(1, COUNT) if job.recorded[step] and not job.recorded[step - 1]]
    assert {begin % length_ratios.WINDOW for begin in begins} == {0}
