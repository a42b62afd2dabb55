"""Find a rank that is late in a period of the job, also if the ranks recorded only a sample of their steps."""

import random

import polars as pl
import pytest
from ms_profiler.analysis.cluster import exchanged, job_summary, lateness, sampled_steps
from ms_profiler.analysis.cluster.rank_account import PARTS, STEPS, RankAccount
from ms_profiler.analysis.cluster.whole_job import WholeJob
from ms_profiler.analysis.metrics import bounds
from store_builder import MS


def job(count, late, known=None, usual=6.0, ranks=2):
    """Return a job of some ranks, whose steps last until the latest rank is ready.

    Args:
        count: the number of steps.
        late: a function that returns by how many ms rank 1 is late in a step.
        known: the steps that rank 1 recorded; None for all. The other ranks recorded all steps.
        usual: the mean own time of a rank, in ms.
        ranks: the number of ranks.
    """
    chance = random.Random(7)
    times = [[usual + chance.uniform(-1, 1) for _ in range(count)] for _ in range(ranks)]
    times[1] = [own + late(step) for step, own in enumerate(times[1])]
    recorded = [set(range(count)) if known is None or rank != 1 else known for rank in range(ranks)]
    accounts = {}
    for rank, own in enumerate(times):
        rows, pieces, now = [], [], 0
        for step in range(count):
            length = max(each[step] for each in times) + 1
            seen = step in recorded[rank]
            row = {"step": step, "start_ns": round(now * MS), "end_ns": round((now + length) * MS), "unseen": not seen}
            if seen:
                row["exchange_ns"] = round((length - own[step]) * MS)
                row["own_ns"] = round(own[step] * MS) if step - 1 in recorded[rank] else None
                pieces.append((step, bounds.BLOCKED, round(late(step) * (rank == 1) * MS)))
                pieces.append((step, bounds.COMPUTING, round(own[step] * MS) - pieces[-1][2]))
            rows.append(dict.fromkeys(STEPS) | row)
            now += length
        account = RankAccount("", rank, ranks, "", "", 0, 0, "", "", None)
        account.steps = pl.DataFrame(rows, STEPS)
        account.parts = pl.DataFrame(pieces, PARTS, orient="row")
        accounts[rank] = account
    found = WholeJob(accounts)
    for account in accounts.values():  # the ranks took part in exchanges
        met = {"group": "world", "operation": "allreduce", "number": 0, "step": 0}
        account.exchanges = pl.DataFrame([dict.fromkeys(exchanged.MARKED) | met], exchanged.MARKED)
    return found


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        (range(2, 120, 3), "is late in 40 of 119 steps (steps 2, 5, 8, ...), by"),
        ([*range(2, 120, 3), 60], "is late in 41 of 119 steps (steps 2, 5, 8, ...), by"),
        ([*range(2, 60, 3), *range(60, 120, 4)], "is late in 35 of 119 steps, by"),  # no distance prevails
    ],
)
def test_steps_at_equal_distances_are_named(steps, words):
    assert words in job_summary.verdict(job(120, lambda step: 15 * (step in steps)))


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        (range(100, 200), "(from step 100 on)"),
        (range(60), "(from step 1 to step 59)"),
        (range(80, 130), "(from step 80 to step 129)"),
    ],
)
@pytest.mark.parametrize("ranks", [2, 9])
def test_rank_that_is_late_in_a_period_is_named_with_it(steps, words, ranks):
    found = job(200, lambda step: 30 * (step in steps), ranks=ranks)
    ((late, cause),) = found.late
    inside = [step for step in steps if step]
    assert (late.rank, late.moments, cause.kind) == (1, tuple(inside), bounds.BLOCKED)
    assert late.excess_ns == pytest.approx(30 * len(inside) * MS, rel=0.1)
    assert found.lateness.lost_ns == pytest.approx(late.excess_ns, rel=0.1)
    verdict = job_summary.verdict(found)
    assert verdict.startswith(f"Rank 1 is late in {len(inside)} of 199 steps {words}, by ")
    assert "it sleeps or is blocked in Python code" in verdict and "compared" not in verdict


def test_one_long_delay_does_not_hide_a_period():
    found = job(200, lambda step: 1500 if step == 5 else 30 * (step >= 100))
    ((late, _),) = found.late
    assert late.period == (100, 199) and late.worst >= 100


@pytest.mark.parametrize("count", [60, 200, 1000])
@pytest.mark.parametrize("ranks", [2, 5, 16])
def test_chance_makes_no_period(count, ranks):
    """The own times vary as much as they last, or are long in some steps."""
    for seed in range(5):
        chance = random.Random(seed)
        times = [[chance.choice((chance.uniform(1, 20), 5.0)) for _ in range(count)] for _ in range(ranks)]
        rows = [(rank, step, round(own * MS)) for rank, steps in enumerate(times) for step, own in enumerate(steps)]
        own = pl.DataFrame(rows, {"rank": pl.Int64, "step": pl.Int64, "own_ns": pl.Int64}, orient="row")
        assert lateness.lateness(own, count * 21 * MS).late == []


#: the steps of a sampled job: all at the begin, and then short bursts
SAMPLED = frozenset([*range(32), *range(60, 66), *range(110, 117), *range(170, 177)])


def test_compared_steps_are_counted_and_sums_are_of_these():
    found = job(240, lambda _: 20, SAMPLED)
    ((late, _),) = found.late
    assert late.moments == () and found.lateness.made == 240 and found.lateness.passed == 31 + 5 + 6 + 6
    sentence = "Only 48 of 240 steps are compared, because the ranks recorded a sample of them."
    assert job_summary.verdict(found).endswith(f"{sentence} All times are of the compared steps.")
    even = job_summary.verdict(job(240, lambda _: 0, SAMPLED))
    assert even.startswith("No rank is late in the compared steps: ") and sentence in even
    assert job_summary.summary(found)["sampled_of_steps"] == 240
    assert job_summary.summary(job(240, lambda _: 20))["sampled_of_steps"] is None


def test_bursts_stand_for_the_steps_around_them():
    steps = pl.DataFrame({"step": list(range(40)) * 2, "unseen": [False] * 40 + [not step < 10 for step in range(40)]})
    compared = pl.DataFrame({"step": [*range(10), 20, 21, 22, 23]})
    found = dict(sampled_steps.weights(steps, compared).iter_rows())
    # the steps until 15 are nearer to the first burst; 25 steps are left for the four steps of the second
    assert found == dict.fromkeys(range(10), 2) | dict.fromkeys(range(20, 24), 6)


@pytest.mark.parametrize(
    ("steps", "moments"),
    [
        (range(100, 240), [*range(111, 117), *range(171, 177)]),  # 12 of 48 compared steps, but 60 % of the job
        (range(32), range(1, 32)),  # 31 of 48 compared steps, but 13 % of the job
    ],
)
def test_first_steps_do_not_decide_for_the_whole_job(steps, moments):
    ((late, _),) = job(240, lambda step: 30 * (step in steps), SAMPLED).late
    assert late.moments == tuple(moments) and late.period == (moments[0], moments[-1])


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        (range(100, 240), "(from a step between 66 and 111 on)"),
        ([65, *range(100, 240)], "(from a step between 66 and 111 on)"),  # one step is long by chance
        ([*range(63, 67), *range(100, 240)], "(from step 63 on)"),
        (range(30, 140), "(from a step between 32 and 61 to a step between 116 and 170)"),
    ],
)
def test_a_period_of_sampled_steps_begins_and_ends_somewhere_between_recorded_steps(steps, words):
    assert words in job_summary.verdict(job(240, lambda step: 30 * (step in steps), SAMPLED))
