"""All ranks of a job sample the same steps, and each step has the same chance to be sampled."""

import random
from collections import Counter

import pytest
from ms_profiler.job.positions import Positions
from ms_profiler.job.process import launch
from test_bursts import run

BURST = 8


def stretches(seed, length, steps, inverse=False):
    """Return (begin of the burst, end of the stretch) of all stretches of a run; their mean length is `length`."""
    positions, found, count = Positions(seed), [], 0
    while count < steps:
        found.append(positions.stretch(count, length, 1 << 16, BURST, inverse))
        count = found[-1][1]
    return found


@pytest.mark.parametrize("inverse", [False, True])
def test_a_burst_is_anywhere_in_its_block_with_the_same_probability(inverse):
    runs, slots = 4_000, 128 // BURST
    found = Counter(stretches(seed, 128, 128, inverse)[0][0] for seed in range(runs))
    assert sorted(found) == list(range(0, 128, BURST))
    assert all(abs(times - runs / slots) < 5 * (runs / slots) ** 0.5 for times in found.values())


@pytest.mark.parametrize("length", [16, 21, 100, 128, 190, 250, 1_000])
def test_stretches_have_the_desired_mean_length(length):
    steps = 1 << 16
    found = stretches(7, length, steps)
    assert len(found) == pytest.approx(steps / length, rel=0.1)
    begins = [begin for begin, _ in found]
    ends = [0, *(end for _, end in found)]
    assert all(low <= begin <= high - BURST for begin, low, high in zip(begins, ends, ends[1:], strict=False))


def test_bursts_of_a_rank_with_long_stretches_are_bursts_of_a_rank_with_short_ones():
    few, more = ({begin for begin, _ in stretches(7, length, 1 << 16)} for length in (1_100, 150))
    assert len(few) > 40
    assert few < more


def test_a_rank_that_samples_nearly_all_steps_does_not_leave_out_those_that_the_others_sample():
    sampled, left_out = ({begin for begin, _ in stretches(7, 128, 1 << 16, inverse)} for inverse in (False, True))
    assert len(sampled & left_out) < 0.1 * len(sampled)


def test_a_stretch_that_begins_anywhere_has_a_burst():
    chance, positions = random.Random(7), Positions(7)
    for _ in range(1_000):
        count, length, burst = chance.randrange(1 << 20), chance.randrange(16, 5_000), chance.choice([4, 8])
        begin, end = positions.stretch(count, length, 4_096, burst, False)
        assert count <= begin
        assert begin + burst <= end <= count + 2 * 4_096


@pytest.mark.parametrize("share", [0.05, 0.01, 0.002])
@pytest.mark.parametrize("load", [0.0, 0.3])
def test_ranks_with_other_costs_and_other_disturbances_sample_the_same_steps(share, load):
    ranks = []
    for rank, cost in enumerate((600_000, 800_000)):
        seen, _ = run(share, cost, slower_from=15_000, load=load, chance=rank)
        ranks.append({step for step, (_, sampled) in enumerate(seen) if sampled})
    least = min(len(steps) for steps in ranks)
    assert len(set.intersection(*ranks)) > (0.5 if load else 0.9) * least


def test_all_ranks_on_all_hosts_have_the_same_number_of_the_launch(monkeypatch):
    named = {"WORLD_SIZE": "4", "TORCHELASTIC_RUN_ID": "none", "MASTER_PORT": "29500"}
    numbers = []
    for rank in range(4):
        monkeypatch.setattr("posix.getppid", lambda rank=rank: rank // 2 + 1)  # two hosts
        numbers.append(launch(named | {"RANK": str(rank), "LOCAL_RANK": str(rank % 2)}))
    assert len({*numbers}) == 1
    assert launch(named | {"RANK": "0", "MASTER_PORT": "29501"}) != numbers[0]


def test_a_job_without_a_launcher_has_other_positions_each_time_and_its_children_have_the_same(monkeypatch):
    own = launch({})
    assert launch({}) == own
    monkeypatch.setattr("posix.getppid", lambda: 1)
    assert launch({}) != own
