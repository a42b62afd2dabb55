"""If groups of ranks give the layout, the bubbles of pipeline stages and the load of experts are found."""

import csv
import json

import polars as pl
import pytest
from conftest import PROGRAMS
from launches import TOOLS, free_port, launched
from ms_profiler.analysis.cluster import (
    expert_exchanges,
    expert_load,
    parallel_groups,
    rank_account,
    stage_bubbles,
    stage_waits,
)
from ms_profiler.analysis.cluster.exchanged import EXCHANGES
from ms_profiler.analysis.cluster.rank_account import RankAccount
from ms_profiler.cli import main

MS = 1_000_000
STEPS = 10


@pytest.mark.parametrize(
    ("name", "purposes", "pipeline", "experts"),
    [
        ("3", ["mesh_pp"], True, False),
        ("3", ["default_pg", "PIPELINE_MODEL_PARALLEL_GROUP"], True, False),
        ("pp-0-2", [], True, False),
        ("3", ["mesh_ep"], False, True),
        ("3", ["EXPERT_MODEL_PARALLEL_GROUP"], False, True),
        ("3", ["EXPERT_DATA_PARALLEL_GROUP"], False, False),
        ("3", ["TENSOR_AND_PIPELINE_PARALLEL_GROUP"], False, False),
        ("3", ["mesh_dp"], False, False),
        ("hccl_world_group", [], False, False),
        ("3", [], False, False),
    ],
)
def test_only_a_purpose_without_other_words_counts(name, purposes, pipeline, experts):
    report = {name: purposes}
    assert bool(parallel_groups.purpose(name, report, parallel_groups.PIPELINE)) == pipeline
    assert bool(parallel_groups.purpose(name, report, parallel_groups.EXPERTS)) == experts


def spans(*pairs):
    return pl.DataFrame(list(pairs), {"start_ns": pl.Int64, "end_ns": pl.Int64}, orient="row")


def test_bubble_is_the_time_in_which_a_rank_only_waits_for_a_neighbour():
    table = pl.DataFrame(
        {"number": [4, 5, 6], "start_ns": [0, 100, 200], "end_ns": [100, 200, 300], "recorded": [True, True, False]}
    )
    # two messages at once, one over a step's bound, and one in a step that was not recorded
    messages = spans((10, 40), (30, 50), (90, 110), (220, 290))
    found = stage_waits.bubbles(messages, spans((45, 60)), spans((15, 20)), table)
    assert found.rows() == [(4, 5 + 25 + 10), (5, 10)]
    assert stage_waits.bubbles(messages.head(0), spans((45, 60)), spans((15, 20)), table).is_empty()


def account(rank, groups, purposes, steps=None, rows=()):
    """Return the account of a rank with groups and their purposes, steps (ms, ms of bubbles), and exchanges."""
    known = RankAccount("", rank, 4, "", "", 0, 0, "", "", None, groups=groups, purposes=purposes)
    if steps is not None:
        known.steps = pl.DataFrame(
            [
                dict.fromkeys(rank_account.STEPS)
                | {"step": step, "start_ns": 0, "end_ns": length * MS, "bubble_ns": round(bubble * MS)}
                for step, (length, bubble) in enumerate(steps)
            ],
            rank_account.STEPS,
        )
    known.exchanges = pl.DataFrame([(*row, None, None) for row in rows], EXCHANGES, orient="row")
    sharing = parallel_groups.of_kind(groups, purposes, parallel_groups.EXPERTS)
    known.sent = expert_exchanges.sent(known.exchanges, sharing)
    return known


def piped(bubbles, purposes, groups=((0, 2), (1, 3))):
    """Return the accounts of four ranks with steps of 20 ms, of which `bubbles[rank]` milliseconds are bubbles."""
    accounts = {}
    for rank, bubble in enumerate(bubbles):
        own = {f"{number}": list(ranks) for number, ranks in enumerate(groups) if rank in ranks}
        steps = [(20, bubble + (rank + step) % 3 * 0.1) for step in range(STEPS)]
        accounts[rank] = account(rank, own, dict.fromkeys(own, purposes), steps)
    return accounts


def test_stage_without_bubbles_holds_up_the_others():
    found = stage_bubbles.pipeline(piped([8, 9, 1, 1], ["mesh_pp"]))
    assert found.known_by == ("mesh_pp",) and found.steps == STEPS - 1  # the first step does not count
    assert [(stage.number, stage.ranks) for stage in found.stages] == [(0, (0, 1)), (1, (2, 3))]
    assert [stage.share for stage in found.stages] == pytest.approx([8.6 / 20, 1.1 / 20], rel=0.01)
    (late,) = found.slow
    assert late.rank == 1 and late.excess_ns == pytest.approx((STEPS - 1) * 7.5 * MS, rel=0.02)


def test_balanced_pipeline_names_no_stage():
    found = stage_bubbles.pipeline(piped([5, 5, 5, 5], ["mesh_pp"]))
    assert found.slow == [] and len(found.stages) == 2


@pytest.mark.parametrize(
    ("purposes", "groups"),
    [([], ((0, 2), (1, 3))), (["mesh_dp"], ((0, 2), (1, 3))), (["mesh_pp"], ((0, 2), (1, 2, 3)))],
    ids=["untold", "of another kind", "a rank in two pipelines"],
)
def test_uncertain_stages_are_not_reported(purposes, groups):
    assert stage_bubbles.pipeline(piped([8, 8, 1, 1], purposes, groups)) is None


def test_exchanges_there_and_back_are_paired_by_their_bytes():
    assert expert_load.pairs([64, 64, 128, 128]) == [1, 3]
    assert expert_load.pairs([1, 64, 2, 64, 1, 64, 64]) == [3, 6]  # the counts of the tokens, and their weights
    assert expert_load.pairs([64, 64, 64]) == []
    assert expert_load.pairs([64, 32]) == []
    assert expert_load.pairs([0, 0]) == expert_load.pairs([]) == []


def sharing(back, times, purposes=("EXPERT_MODEL_PARALLEL_GROUP",), ranks=3):
    """Return the accounts of ranks whose expert sends `back[rank]` bytes back after `times[rank]` ms."""
    accounts = {}
    for rank in range(ranks):
        rows = []
        for step in range(STEPS):
            start = step * 100 * MS + rank * 7000 * MS  # each rank has another clock
            ready = start + MS + round((times[rank] + (rank + step) % 3 * 0.1) * MS)
            rows.append(("7", "alltoall", sum(back) // len(back), start, start + MS, step))
            rows.append(("7", "alltoall", back[rank], ready, start + 60 * MS, step))
        accounts[rank] = account(rank, {"7": list(range(3))}, {"7": list(purposes)}, [(100, 0)] * STEPS, rows)
    return accounts


def test_busy_experts_are_named_with_their_share():
    (found,) = expert_load.experts(sharing([100, 400, 100], [10, 40, 10]))
    assert [late.rank for late in found.busy] == [1] and found.steps == STEPS
    assert found.most_bytes == 2.0 and found.most_time == pytest.approx(2.0, rel=0.01)
    assert [load.bytes for load in found.ranks] == [100 * STEPS, 400 * STEPS, 100 * STEPS]
    assert [load.wait_ns for load in found.ranks] == pytest.approx([300 * MS, 0, 300 * MS], abs=STEPS * MS // 5)
    assert found.lost_ns == pytest.approx(STEPS * 20 * MS, rel=0.01)


def test_no_expert_is_busier_among_equals():
    (found,) = expert_load.experts(sharing([200, 200, 200], [20, 20, 20]))
    assert found.busy == [] and found.most_bytes == 1.0


def test_uncertain_experts_are_not_reported():
    assert expert_load.experts(sharing([100, 400, 100], [10, 40, 10], ["EXPERT_DATA_PARALLEL_GROUP"])) == []
    assert expert_load.experts(sharing([100, 400, 100], [10, 40, 10], ranks=2)) == []  # a rank has no result
    assert expert_load.experts(sharing([100, 400, 101], [10, 40, 10])) == []  # the bytes sent and the bytes back differ


def trained(directory, capsys, program, *words):
    """Run a job of four ranks; return the output of `ms-profiler cluster` as JSON and as a page."""
    options = {"start": True, "output_path": str(directory / "data")}
    command = [TOOLS / "torchrun", "--nproc_per_node=4", f"--master_port={free_port()}", PROGRAMS / program]
    launched([[*command, *map(str, words)]], directory, options)
    assert main(["cluster", str(directory / "data"), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert main(["cluster", str(directory / "data"), "--no-files"]) == 0
    return report, capsys.readouterr().out


def rows(directory, name):
    with open(directory / "data" / "cluster_analysis_output" / name, newline="") as stream:
        return list(csv.DictReader(stream))


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "slow"), [("blocking", 1), ("queued", 0), ("queued", 1)])
def test_planted_slow_stage_of_a_real_pipeline(kind, slow, tmp_path, capsys):
    report, page = trained(tmp_path, capsys, "pipeline_torch.py", kind, slow)
    found = report["pipeline"]
    assert found["known_by"] == ["mesh_pp"] and report["experts"] == []
    assert [(stage["stage"], stage["ranks"]) for stage in found["stages"]] == [(0, [0, 1]), (1, [2, 3])]
    assert [each["stage"] for each in found["slow_stages"]] == [slow]
    assert f"Stage {slow} of the pipeline holds up the others." in page
    assert found["stages"][1 - slow]["bubble_ms"] > found["stages"][slow]["bubble_ms"]
    written = rows(tmp_path, "pipeline_bubbles.csv")
    assert {row["Stage"] for row in written} == {"0", "1"} and len(written) == 2 * found["steps"]
    # only the ranks of the slow stage are late
    assert {late["rank"] for late in report["late"]} <= set(found["stages"][slow]["ranks"])


@pytest.mark.slow
def test_without_a_known_group_stages_are_not_reported(tmp_path, capsys):
    report, page = trained(tmp_path, capsys, "pipeline_torch.py", "world", 1, 8)
    assert report["pipeline"] is None and "pipeline" not in page
    assert not (tmp_path / "data" / "cluster_analysis_output" / "pipeline_bubbles.csv").exists()


@pytest.mark.slow
@pytest.mark.parametrize("busy", [2, -1])
def test_planted_busy_expert_of_a_real_layer(busy, tmp_path, capsys):
    report, page = trained(tmp_path, capsys, "experts_torch.py", "experts", busy)
    (found,) = report["experts"]
    assert report["pipeline"] is None and found["known_by"] == "EXPERT_MODEL_PARALLEL_GROUP"
    assert [load["rank"] for load in found["ranks"]] == [0, 1, 2, 3]
    sizes = [load["bytes"] for load in found["ranks"]]
    if busy < 0:
        assert found["most_bytes_to_mean"] == 1.0 and len(set(sizes)) == 1
        return
    assert found["busy_ranks"] == [busy] and sizes[busy] == 5 * sizes[0] == max(sizes)
    assert found["most_bytes_to_mean"] == pytest.approx(2.5)
    assert f"The experts of rank {busy} hold up the 4 ranks" in page
    assert {late["rank"] for late in report["late"]} <= {busy}
    written = rows(tmp_path, "expert_load.csv")
    assert {row["Group"] for row in written} == {"0 1 2 3"} and len(written) == 4 * found["steps"]


@pytest.mark.slow
def test_without_a_known_group_experts_are_not_reported(tmp_path, capsys):
    report, page = trained(tmp_path, capsys, "experts_torch.py", "unnamed", 2, 8)
    assert report["experts"] == [] and "xperts" not in page
