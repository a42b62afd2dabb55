"""The late ranks and their causes are found from made-up own times of the ranks."""

import random
from dataclasses import replace

import polars as pl
import pytest
from ms_profiler.analysis.cluster import (
    clock_offsets,
    exchanged,
    job_summary,
    late_causes,
    lateness,
    rank_account,
    slow_links,
    step_gaps,
)
from ms_profiler.analysis.cluster.late_causes import STOPPED
from ms_profiler.analysis.cluster.rank_account import PARTS, STEPS, STILL, RankAccount
from ms_profiler.analysis.cluster.whole_job import WholeJob
from ms_profiler.analysis.metrics import bounds, stretches

MS = 1_000_000


def own(times):
    """Return a table of own times; `times[rank][step]` is in milliseconds."""
    rows = [(rank, step, round(time * MS)) for rank, steps in enumerate(times) for step, time in enumerate(steps)]
    return pl.DataFrame(rows, lateness.OWN, orient="row")


def judged(times, step_ms):
    return lateness.lateness(own(times), len(times[0]) * step_ms * MS)


@pytest.mark.parametrize("ranks", [2, 3, 4, 64])
def test_a_late_rank_is_named_with_its_cost(ranks):
    times = [[10 + (rank + step) % 3 * 0.1 for step in range(20)] for rank in range(ranks)]
    times[1] = [time + 5 for time in times[1]]
    found = judged(times, 16)
    (late,) = found.late
    assert (late.rank, late.moments, late.steps) == (1, (), 20)
    assert late.excess_ns == pytest.approx(20 * 5 * MS, abs=20 * 0.21 * MS)
    others = [max(steps[step] for rank, steps in enumerate(times) if rank != 1) for step in range(20)]
    assert found.lost_ns == pytest.approx((sum(times[1]) - sum(others)) * MS, abs=99)
    assert late.saved_ns == pytest.approx(found.lost_ns, abs=99)
    waits = dict(found.waits.iter_rows())
    assert waits.pop(1) == 0 and all(wait > 20 * 4.7 * MS for wait in waits.values())
    assert found.critical["rank"].to_list() == [1] * 20


def test_a_tenth_of_the_ranks_may_be_late():
    times = [[10 + (7 * rank + step) % 5 * 0.1 for step in range(12)] for rank in range(100)]
    slow = list(range(3, 100, 10))
    for rank in slow:
        times[rank] = [time * 1.3 for time in times[rank]]
    assert sorted(late.rank for late in judged(times, 14).late) == slow


def test_balanced_ranks_are_not_named():
    times = [[10 + (7 * rank + 3 * step) % 11 * 0.3 for step in range(30)] for rank in range(4)]
    found = judged(times, 14)
    assert found.late == [] and found.lost_ns == 0 and found.imbalance_ns > 0


def test_ranks_that_differ_by_degrees_are_not_named():
    times = [[10 + rank * 0.1 + step % 3 * 0.01 for step in range(20)] for rank in range(32)]
    assert judged(times, 16).late == []


def test_rank_that_is_late_once_is_named_with_the_step():
    times = [[10.0] * 20 for _ in range(3)]
    times[2][7] += 1000
    found = judged(times, 60)
    (late,) = found.late
    assert (late.rank, late.moments, late.worst, late.excess_ns, late.ahead) == (2, (7,), 7, 1000 * MS, 2)
    assert found.lost_ns == 1000 * MS


def test_rank_that_is_late_in_every_fifth_step_is_so_by_all_of_them():
    times = [[10.0 + step % 3 * 0.1 for step in range(40)] for _ in range(2)]
    for step in range(4, 40, 5):
        times[0][step] += 400 + step
    times[0][7] += 30  # longer than usual, but not a step in which the rank is late
    found = judged(times, 150)
    (late,) = found.late
    assert late.moments == tuple(range(4, 40, 5)) and late.worst == 39
    assert late.excess_ns == sum(400 + step for step in range(4, 40, 5)) * MS
    assert found.lost_ns == late.saved_ns == late.excess_ns


@pytest.mark.parametrize(("every", "more", "ranks"), [(3, 30, 2), (3, 20, 8), (5, 30, 2), (5, 30, 8), (10, 60, 2)])
def test_rank_with_more_work_in_some_steps_is_late_in_these_though_no_delay_is_as_long_as_two_steps(every, more, ranks):
    """It costs more than a tenth of the time. The steps take 20 ms otherwise, with a noise of 0.5 ms."""
    chance = random.Random(every)
    times = [[20 + chance.gauss(0, 0.5) + more * (rank == 1 and step % every == 2) for step in range(150)]
             for rank in range(ranks)]  # fmt: skip
    (late,) = judged(times, 25 + more / every).late
    assert (late.rank, late.moments, late.period) == (1, tuple(range(2, 150, every)), None)


def test_delays_of_all_ranks_by_chance_make_no_rank_late():
    """Other programs take a processor from each rank in 5 % of the steps, for 20 ms on average."""
    named = 0
    for seed in range(60):
        chance = random.Random(seed)

        def time(chance=chance):
            slow = chance.expovariate(0.25) * (chance.random() < 0.3)
            return 20 + slow + chance.expovariate(0.05) * (chance.random() < 0.05)

        times = [[time() for _ in range(200)] for _ in range(seed % 4 + 2)]
        named += bool(judged(times, 27).late)
    assert named <= 1


def test_longest_delay_does_not_hide_shorter_ones():
    """The first checkpoint takes six times as long as the later ones. Each later one alone would make the rank late."""
    times = [[10.0 + step % 3 * 0.1 for step in range(40)] for _ in range(3)]
    for step in range(4, 40, 5):
        times[0][step] += 400 if step > 4 else 2400
    (late,) = judged(times, 150).late
    assert late.moments == tuple(range(4, 40, 5)) and late.worst == 4


def test_steps_that_a_rank_lacks_count_for_the_others():
    times = own([[10.0] * 20, [15.0] * 20, [10.0] * 20])
    found = lateness.lateness(times.filter((pl.col("rank") != 2) | (pl.col("step") < 9)), 20 * 16 * MS)
    assert [late.rank for late in found.late] == [1]


def test_no_wait_is_longer_than_the_exchanges_of_the_waiting_rank():
    """In step 3, rank 1 takes longer, but no rank is in an exchange for that long. Rank 2 exchanges nothing then."""
    times = [[10.0] * 20 for _ in range(3)]
    times[1][3] = 5000.0
    spent = pl.when(pl.col("rank") == 2).then(0).otherwise(2 * MS).alias("exchange_ns")
    found = lateness.lateness(own(times).with_columns(spent), 20 * 12 * MS)
    assert found.late == [] and found.imbalance_ns <= 2 * MS
    assert dict(found.waits.iter_rows()) == {0: 2 * MS, 1: 0, 2: 0}


def parts(by_rank, steps=10):
    rows = [
        (rank, step, part, round(time * MS))
        for rank, known in enumerate(by_rank)
        for step in range(steps)
        for part, time in known.items()
    ]
    return pl.DataFrame(rows, {"rank": pl.Int64, **PARTS}, orient="row")


def causes(table, *others, **named):
    """Return the causes of lateness from the parts of steps, each of which has an exchange."""
    seen = (~pl.col("part").is_in(step_gaps.ALL)).any().over("rank", "step").cast(pl.UInt32)
    counted = table.with_columns(steps=pl.lit(1, pl.UInt32), examined=seen)
    return late_causes.causes(counted, *others, **named)


@pytest.mark.parametrize("cause", [bounds.DATA, bounds.COMPUTING, bounds.BLOCKED, bounds.HOST, bounds.RUNNABLE])
def test_the_cause_is_the_part_that_exceeds_the_other_ranks(cause):
    usual = {bounds.COMPUTING: 8, bounds.DATA: 1, bounds.COMMUNICATION: 20}
    mine = {**usual, cause: usual.get(cause, 0) + 20, bounds.COMMUNICATION: 1}
    late = lateness.Late(1, 200 * MS, 0.6, 10, 3, 20 * MS, 2)
    found = causes(parts([usual, mine, usual]), [late])[1]
    assert (found.kind, found.excess_ns) == (cause, 200 * MS)


def test_rank_that_is_late_without_waits_for_a_processor_has_another_cause():
    usual = {bounds.COMPUTING: 8}
    mine = {bounds.COMPUTING: 8, bounds.RUNNABLE: 9, bounds.HOST: 3}
    late = lateness.Late(1, 240 * MS, 0.6, 20, 3, 12 * MS, 2)
    table = parts([usual, mine, usual], 20)
    assert causes(table, [late])[1].kind == bounds.HOST
    found = causes(table, [late], {1})[1]
    assert (found.kind, found.excess_ns) == (bounds.RUNNABLE, 240 * MS)


@pytest.mark.parametrize(
    ("worked_ms", "cause", "excess_ms"),
    [(None, bounds.HOST, 60), (0, bounds.RUNNABLE, 180), (70, bounds.HOST, 60)],
)
def test_code_that_only_seems_to_run_longer_because_it_waits_for_a_processor_is_no_cause(worked_ms, cause, excess_ms):
    usual = {bounds.COMPUTING: 8}
    late = lateness.Late(1, 240 * MS, 0.6, 20, 3, 12 * MS, 2)
    table = parts([usual, {bounds.COMPUTING: 8, bounds.RUNNABLE: 9, bounds.HOST: 3}, usual], 20)
    worked = {} if worked_ms is None else {1: worked_ms * MS}
    found = causes(table, [late], frozenset(), worked)[1]
    assert (found.kind, found.excess_ns) == (cause, excess_ms * MS)


def test_more_work_on_the_processor_is_the_cause_where_no_part_explains_it():
    usual = {bounds.COMPUTING: 8}
    mine = {bounds.COMPUTING: 10, bounds.LAUNCH: 2, bounds.HOST: 2, bounds.RUNNABLE: 3}
    late = lateness.Late(1, 240 * MS, 0.6, 20, 3, 12 * MS, 2)
    table = parts([usual, mine, usual], 20)
    assert causes(table, [late])[1].kind == late_causes.UNKNOWN
    found = causes(table, [late], frozenset(), {1: 150 * MS})[1]
    assert (found.kind, found.excess_ns) == (late_causes.WORK, 150 * MS)


def unseen(table, rank, steps):
    """Return the parts as they are if the rank did not sample some steps: only the time between steps is known."""
    here = (pl.col("rank") == rank) & pl.col("step").is_in(steps)
    gap = {"rank": rank, "step": steps, "part": stretches.BETWEEN, "duration_ns": 1000}
    return pl.concat([table.filter(~here), pl.DataFrame(gap, table.schema)])


def test_parts_of_the_examined_steps_stand_for_all_steps_of_a_rank_that_is_late_in_most():
    usual, mine = {bounds.COMPUTING: 8, bounds.HOST: 1}, {bounds.COMPUTING: 28, bounds.HOST: 1}
    late = lateness.Late(1, 200 * MS, 0.6, 10, 3, 20 * MS, 2)
    exact = causes(parts([usual, mine, usual]), [late], steps=10)[1]
    assert (exact.kind, exact.excess_ns, exact.examined) == (bounds.COMPUTING, 200 * MS, None)
    some = unseen(parts([usual, mine, usual]), 1, [0, 1, 2, 5, 7, 9])
    found = causes(some, [late], steps=10)[1]
    assert (found.kind, found.excess_ns, found.examined) == (bounds.COMPUTING, 200 * MS, 4)
    # the other ranks sampled other steps: nothing can be compared
    apart = unseen(unseen(some, 0, [3, 4, 6, 8]), 2, [3, 4, 6, 8])
    assert causes(apart, [late], steps=10)[1].kind == late_causes.UNKNOWN
    # no rank sampled them: the other steps still tell
    both = unseen(unseen(some, 0, [0, 1, 2]), 2, [0, 1, 2])
    assert causes(both, [late], steps=10)[1].excess_ns == 200 * MS


def test_work_between_steps_is_known_in_all_steps_and_counts_once():
    usual = {bounds.COMPUTING: 8, bounds.HOST: 1}
    table = unseen(parts([usual, usual, usual]), 1, [0, 1, 2, 3, 5])
    saved = {"rank": 1, "step": [3], "part": bounds.CHECKPOINT, "duration_ns": 90 * MS}
    checked = {"rank": 1, "step": [5], "part": stretches.EVALUATION, "duration_ns": 70 * MS}
    added = pl.concat([table, *(pl.DataFrame(rows, table.schema) for rows in (saved, checked))])
    often = lateness.Late(1, 160 * MS, 0.6, 10, 3, 20 * MS, 2)
    found = causes(added, [often], steps=10)[1]
    assert (found.kind, found.parts[bounds.CHECKPOINT], found.parts[stretches.EVALUATION]) == (
        bounds.CHECKPOINT,
        90 * MS,
        70 * MS,
    )
    once = replace(often, excess_ns=70 * MS, moments=(5,))
    assert causes(added, [once], steps=10)[1].kind == stretches.EVALUATION


def test_a_standstill_in_one_step_is_a_stop():
    usual = {bounds.COMPUTING: 8, bounds.BLOCKED: 1}
    late = lateness.Late(0, 900 * MS, 0.6, 1, 3, 900 * MS, 2, moments=(3,))
    still = parts([usual, usual, usual])
    more = pl.DataFrame([(0, 3, STILL, 900 * MS)], still.schema, orient="row")
    assert causes(pl.concat([still, more]), [late])[0].kind == STOPPED
    # if other programs took the processor, the rank is not late
    taken = pl.DataFrame([(0, 3, bounds.RUNNABLE, 900 * MS)], still.schema, orient="row")
    assert causes(pl.concat([still, taken]), [late]) == {}


@pytest.mark.parametrize(
    ("took", "cause"), [(90, bounds.COMPUTING), (48, bounds.COMPUTING), (25, bounds.RUNNABLE), (None, bounds.RUNNABLE)]
)
def test_rank_that_waits_for_processors_is_late_by_itself_if_it_takes_far_more_of_their_time(took, cause):
    accounts = {}
    for rank, own in enumerate((8, 80, 8, 8)):
        known = RankAccount("", rank, 4, "", "", 0, 0, "", "", None)
        table = [
            dict.fromkeys(STEPS)
            | {"step": step, "start_ns": 100 * step * MS, "end_ns": 100 * (step + 1) * MS, "own_ns": own * MS}
            # the table says how long a thread waited in a step, but not when
            | {"queued_ns": (40 + step % 2 * 50) * MS if rank == 1 else 2 * MS}
            | {"processor_ns": took and (took if rank == 1 else 17) * MS}
            for step in range(20)
        ]
        known.steps = pl.DataFrame(table, STEPS)
        known.parts = parts([{bounds.COMPUTING: own, bounds.COMMUNICATION: 90 - own}], 20).drop("rank")
        accounts[rank] = known
    ((late, found),) = WholeJob(accounts).late
    assert (late.rank, found.kind) == (1, cause)


def test_rank_that_waits_for_processors_as_long_as_the_others_is_late_for_another_reason():
    """All threads wait long for a processor, most of all during the exchanges. One rank also sleeps."""
    accounts = {}
    for rank, own in enumerate((35, 65)):
        known = RankAccount("", rank, 2, "", "", 0, 0, "", "", None)
        table = [
            dict.fromkeys(STEPS)
            | {"step": step, "start_ns": 150 * step * MS, "end_ns": 150 * (step + 1) * MS, "own_ns": own * MS}
            | {"exchange_ns": (150 - own) * MS, "queued_ns": (70 + (step + rank) % 3 * 5) * MS}
            for step in range(30)
        ]
        known.steps = pl.DataFrame(table, STEPS)
        known.parts = parts([{bounds.COMPUTING: 35, bounds.BLOCKED: own - 35}], 30).drop("rank")
        accounts[rank] = known
    ((late, found),) = WholeJob(accounts).late
    assert (late.rank, late.moments, found.kind) == (1, (), bounds.BLOCKED)


def test_cause_of_being_late_in_some_steps_is_that_of_all_of_them():
    usual = {bounds.COMPUTING: 8, bounds.BLOCKED: 1}
    late = lateness.Late(0, 1300 * MS, 0.6, 3, 3, 500 * MS, 1, moments=(3, 5, 8))
    table = parts([usual, usual])
    more = [(3, bounds.DATA, 500), (5, bounds.CHECKPOINT, 400), (8, bounds.CHECKPOINT, 400), (6, STILL, 9000)]
    added = pl.DataFrame([(0, step, part, time * MS) for step, part, time in more], table.schema, orient="row")
    cause = causes(pl.concat([table, added]), [late])[0]
    assert (cause.kind, cause.excess_ns) == (bounds.CHECKPOINT, 800 * MS)
    # another program stops a process only once; a process with many standstills sleeps in its own code
    still = added.filter(pl.col("step") != 6).with_columns(part=pl.lit(STILL))
    assert causes(pl.concat([table, still]), [late])[0].kind == bounds.BLOCKED


def test_cost_is_a_share_of_all_steps_where_only_some_exchange():
    """The ranks average their parameters in every fourth step, so an own time spans four steps."""
    accounts = {}
    for rank in range(2):
        known = RankAccount("", rank, 2, "", "", 0, 0, "", "", None)
        table = []
        for step in range(40):
            meets = step % 4 == 3
            length = 20 if rank == 1 else (80 - 3 * 5 if meets else 5)
            own = 4 * (20 if rank == 1 else 5) * MS if meets and step > 3 else None
            start = table[-1]["end_ns"] if table else 0
            spent = (61 if rank == 0 else 1) * MS if meets else None
            row = {"step": step, "start_ns": start, "end_ns": start + length * MS, "own_ns": own, "exchange_ns": spent}
            table.append(dict.fromkeys(STEPS) | row)
        known.steps = pl.DataFrame(table, STEPS)
        known.parts = parts([{bounds.COMPUTING: 20 if rank == 1 else 5}], 40).drop("rank")
        accounts[rank] = known
    job = WholeJob(accounts)
    ((late, _),) = job.late
    assert (late.rank, job.lateness.lost_ns, job.lateness.total_ns) == (1, 9 * 60 * MS, 9 * 80 * MS)


def evaluating(count, every, evaluation_ms):
    """Return the accounts of two ranks with steps of 10 ms, an exchange of 2 ms at the end of each.

    Rank 0 evaluates before some steps. Rank 1 waits for it in the exchange of the same step.
    """
    accounts = {}
    for rank in range(2):
        known = RankAccount("", rank, 2, "", "", 0, 0, "", "", None)
        table, pieces, now = [], [], 0
        for step in range(count):
            gap = evaluation_ms * (step % every == 0 and step > 0)
            start = now + gap * (rank == 0)
            now += gap + 10
            own = 8 + gap * (rank == 0) if step else None
            row = {"step": step, "start_ns": start * MS, "end_ns": now * MS}
            row |= {"own_ns": own and own * MS, "exchange_ns": (2 + gap * (rank == 1)) * MS}
            table.append(dict.fromkeys(STEPS) | row)
            pieces.append((step, bounds.COMPUTING, 8 * MS))
            if gap and rank == 0:
                pieces.append((step, "evaluation", gap * MS))
        known.steps = pl.DataFrame(table, STEPS)
        known.parts = pl.DataFrame(pieces, PARTS, orient="row")
        met = {"group": "world", "operation": "allreduce", "number": 0, "step": every}
        known.exchanges = pl.DataFrame([dict.fromkeys(exchanged.MARKED) | met], exchanged.MARKED)
        accounts[rank] = known
    return accounts


def test_cost_of_work_between_steps_is_a_share_of_a_time_that_contains_the_work():
    job = WholeJob(evaluating(60, 10, 800))
    ((late, found),) = job.late
    assert (late.rank, found.kind, late.moments) == (0, "evaluation", (10, 20, 30, 40, 50))
    assert job.lateness.total_ns == (59 * 10 + 5 * 800) * MS
    assert job.lateness.lost_ns == late.saved_ns == 5 * 800 * MS
    assert late.share < 1
    assert "and that costs 4.00 s of 4.59 s (87%)." in job_summary.verdict(job)


def test_short_delays_that_return_are_named_where_they_cost_much():
    job = WholeJob(evaluating(60, 10, 60))
    ((late, found),) = job.late
    assert (late.rank, found.kind, late.moments) == (0, "evaluation", (10, 20, 30, 40, 50))
    assert job.lateness.lost_ns == 5 * 60 * MS
    # delays of 9 % of the time, and delays of different ranks, are no finding
    assert WholeJob(evaluating(160, 30, 32)).late == []
    times = [[10.0] * 60 for _ in range(2)]
    for step in range(10, 60, 10):
        times[step // 10 % 2][step] = 70.0
    assert judged(times, 20).late == []


def test_short_delays_that_return_by_chance_are_not_named():
    times = [[10.0] * 60 for _ in range(2)]
    for step in (3, 17, 29, 33, 52):
        times[0][step] = 70.0
    assert judged(times, 20).late == []
    for step in (8, 22, 45):
        times[0][step] = 70.0
    assert [len(late.moments) for late in judged(times, 20).late] == [8]


def test_checkpoints_that_also_wait_for_a_processor_are_named():
    """Without the waits, the steps would be shorter, too.

    A checkpoint of 250 ms would still last as long as four of them.
    """
    accounts = {}
    for rank in range(3):
        known = RankAccount("", rank, 3, "", "", 0, 0, "", "", None)
        saves = [rank == 0 and step % 5 == 4 for step in range(40)]
        known.steps = pl.DataFrame(
            [
                dict.fromkeys(STEPS)
                | {"step": step, "start_ns": step * 2000 * MS}
                | {"end_ns": (step * 2000 + (1000 if step % 5 == 4 else 10)) * MS}
                | {"own_ns": (1000 if save else 10) * MS, "queued_ns": 750 * MS * save}
                for step, save in enumerate(saves)
            ],
            STEPS,
        )
        rows = [(step, bounds.CHECKPOINT if save else bounds.COMPUTING, 10 * MS) for step, save in enumerate(saves)]
        known.parts = pl.DataFrame(rows, PARTS, orient="row").with_columns(
            duration_ns=pl.when(pl.col("part") == bounds.CHECKPOINT).then(1000 * MS).otherwise("duration_ns")
        )
        accounts[rank] = known
    ((late, found),) = WholeJob(accounts).late
    assert (late.rank, len(late.moments), found.kind) == (0, 8, bounds.CHECKPOINT)


def test_own_time_is_the_time_between_exchanges():
    table = pl.DataFrame({"number": [0, 1, 2], "start_ns": [0, 100, 200], "end_ns": [100, 200, 300]})
    rows = [
        ("", "allreduce", 0, 50, 90, 0),
        # this exchange overlaps the next one, so both count as one
        ("", "allreduce", 0, 150, 170, 1),
        ("", "allreduce", 0, 160, 180, 1),
        ("", "allreduce", 0, 190, 195, 1),
        ("", "allreduce", 0, 270, 280, 2),
    ]
    from ms_profiler.analysis.cluster.exchanged import EXCHANGES

    found = rank_account.steps_of(table, pl.DataFrame([(*row, None, None) for row in rows], EXCHANGES, orient="row"))
    assert found["own_ns"].to_list() == [None, (160 - 90) + (190 - 180), 270 - 195]
    assert found["exchange_ns"].to_list() == [40, 30 + 5, 10]


def test_clocks_that_are_seconds_off_are_aligned():
    shift = {0: 0, 1: 3_700_000_000, 2: -12_000_000_000}
    rows = []
    for number in range(40):
        arrivals = {rank: number * 100 * MS + (rank * 7 + number * 13) % 9 * MS for rank in shift}
        done = max(arrivals.values()) + MS // 5
        for rank, came in arrivals.items():
            left = done + (rank + number) % 4 * MS // 20
            rows.append((rank, str(number), came + shift[rank], left + shift[rank]))
    meetings = pl.DataFrame(
        rows, {"rank": pl.Int64, "key": pl.String, "start_ns": pl.Int64, "end_ns": pl.Int64}, orient="row"
    )
    found = clock_offsets.offsets(meetings, {0: "a", 1: "b", 2: "c"}, {0: 100, 1: 100, 2: 100})
    for rank in (1, 2):
        assert found[rank].by == "exchanges"
        assert abs(found[rank].offset_ns - shift[rank]) <= found[rank].uncertainty_ns <= 10 * MS
        assert abs(found[rank].offset_ns - shift[rank]) < MS // 5
    same = clock_offsets.offsets(meetings, {0: "a", 1: "a", 2: ""}, {0: 100, 1: 100, 2: None})
    assert (same[1].by, same[1].offset_ns) == ("machine", 0) and same[2].by == "exchanges"


@pytest.mark.parametrize("drift", [5e-5, -4e-4])
def test_clock_that_drifts_stays_within_its_uncertainty(drift):
    """Over ten minutes, the clocks drift apart by far more than an exchange takes."""
    rows, truth = [], []
    for number in range(600):
        true = number * 1000 * MS
        ahead = 5_000_000_000 + round(drift * true)
        arrivals = {rank: true + (rank * 7 + number * 13) % 9 * MS for rank in range(2)}
        done = max(arrivals.values()) + MS // 5
        for rank, came in arrivals.items():
            rows.append((rank, str(number), came + rank * ahead, done + rank * ahead))
        truth.append(ahead)
    meetings = pl.DataFrame(
        rows, {"rank": pl.Int64, "key": pl.String, "start_ns": pl.Int64, "end_ns": pl.Int64}, orient="row"
    )
    found = clock_offsets.offsets(meetings, {0: "a", 1: "b"}, {0: 100, 1: 100})[1]
    worst = max(abs(found.offset_ns - ahead) for ahead in truth)
    assert worst <= found.uncertainty_ns <= worst + 10 * MS


def test_slow_link_is_named():
    sums = {(f"{source}-{target}", "HCCS"): (100.0, 6.0 + source / 10) for source in range(4) for target in range(4)}
    sums["2-1", "HCCS"] = 100.0, 24.0
    sums["1-1", "LOCAL"] = 100.0, 600.0
    (found,) = slow_links.slow(sums)
    assert (found.source, found.target, found.transport, found.speed) == (2, 1, "HCCS", round(100 / 24, 4))
    assert slow_links.slow({("0-1", "HCCS"): (1.0, 1.0), ("1-0", "HCCS"): (1.0, 9.0)}) == []
