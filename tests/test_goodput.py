"""The time of a job over all starts of its ranks is divided into parts, which are the planted ones and add up."""

import json

import polars as pl
import pytest
from conftest import PROGRAMS
from launches import TOOLS, launched
from ms_profiler.analysis.cluster import goodput, rank_account, step_uses
from ms_profiler.analysis.driver import engine
from ms_profiler.cli import main
from ms_profiler.store.format import Category
from store_builder import MS, StoreBuilder

SECOND = 1_000_000_000


def started(rank, attempt, begin, steps, *, saved=(), loaded=False, first=0, end="exit"):
    """Return the account of a start: 2 s of set-up, steps of 1 s that each wait for 0.25 s, and 0.5 s at the end."""
    rows = [
        (
            number,
            (begin + 2 + place) * SECOND,
            (begin + 3 + place) * SECOND,
            None,
            None,
            0,
            None,
            SECOND // 4,
            0,
            0,
            None,
            None,
            False,
        )
        for place, number in enumerate(range(first, first + steps))
    ]
    return rank_account.RankAccount(
        directory=f"{rank}_{attempt}",
        rank=rank,
        world_size=2,
        host="h",
        boot="b",
        started_ns=begin * SECOND,
        ended_ns=int((begin + 2.5 + steps) * SECOND),
        end=end,
        verdict="",
        uncertainty_ns=None,
        attempt=attempt,
        job="j",
        saved=list(saved),
        loaded=loaded,
        steps=pl.DataFrame(rows, rank_account.STEPS, orient="row"),
    )


def test_lost_steps_are_those_after_the_last_checkpoint():
    found = goodput.goodput(
        [
            started(0, 0, 0, 8, saved=[2, 5], end="killed"),
            started(1, 0, 0, 8, end="killed"),
            started(0, 1, 20, 10, loaded=True),
            started(1, 1, 20, 10),
        ]
    )
    assert found.ranks == 2 and not found.remarks
    assert [(each.steps, each.saved, each.lost, each.loaded) for each in found.starts] == [
        (8, 5, 2, False),
        (10, None, 0, True),
    ]
    seconds = {part: value / SECOND / 2 for part, value in found.parts.items() if value}
    # the last step of the first start ends at 10 s, and the second start begins at 20 s
    assert seconds == {"set-up": 4, "restarts": 10, "lost steps": 2, "waiting": 4, "after the last step": 0.5}
    assert found.total_ns == 65 * SECOND and found.useful_ns == 24 * SECOND


def test_without_a_checkpoint_the_repeated_steps_are_unknown():
    found = goodput.goodput([started(0, 0, 0, 8), started(0, 1, 20, 10)])
    assert found.parts["lost steps"] == 0 and found.starts[0].lost is None
    assert found.remarks == ["No checkpoint was recorded: it is unknown which of the 8 steps of start 1 were repeated."]
    assert goodput.goodput([started(0, 0, 0, 0)]) is None


def test_start_that_saved_nothing_loses_all_of_its_steps():
    accounts = [
        started(0, 0, 0, 6, saved=[5]),
        started(0, 1, 20, 3, loaded=True),
        started(0, 2, 40, 4, saved=[3], loaded=False),
    ]
    found = goodput.goodput(accounts)
    assert [each.lost for each in found.starts] == [0, 3, 0]
    assert found.remarks == []


@pytest.mark.parametrize("writing", ["whole", "cut off"])
def test_checkpoint_holds_the_steps_that_were_updated_before_it(writing, tmp_path):
    store = StoreBuilder(tmp_path / "data", rank=0, world_size=2)
    process = store.process()
    thread = process.thread()
    thread.span("torch.load", Category.CHECKPOINT, 10 * MS, 12 * MS)
    for number in range(6):
        start = (50 + 20 * number) * MS
        thread.span("next", Category.DATA, start, start + 5 * MS)
        thread.span("forward", Category.FORWARD, start + 5 * MS, start + 8 * MS)
        thread.span("backward", Category.BACKWARD, start + 8 * MS, start + 12 * MS)
        thread.span("SGD", Category.OPTIMIZER, start + 12 * MS, start + 14 * MS)
        if number == 1:  # a checkpoint at the end of its step
            thread.span("torch.save", Category.CHECKPOINT, start + 15 * MS, start + 16 * MS)
            thread.span("torch.save, closing", Category.CHECKPOINT, start + 16 * MS, start + 17 * MS)
        if number == 4:  # a checkpoint at the begin of the step after it
            thread.span("torch.save", Category.CHECKPOINT, start + MS, start + 2 * MS)
        if number == 4 and writing == "whole":
            thread.span("torch.save, closing", Category.CHECKPOINT, start + 2 * MS, start + 3 * MS)
        if number == 4 and writing == "cut off":
            thread.span("torch.save, closing", Category.CHECKPOINT, start + 2 * MS, start + 3 * MS, flags=1)
        thread.step(number, start, start + 20 * MS)
    process.anchor(200 * MS)
    measures = engine.measured(str(store.write()))
    assert step_uses.saved(measures) == ([1, 3] if writing == "whole" else [1])
    assert step_uses.loaded(measures)
    uses = step_uses.uses(measures)
    assert uses["waiting_ns"].to_list() == [5 * MS] * 4 + [5 * MS - 2 * MS] + [5 * MS]
    assert uses["checkpoint_ns"].to_list() == [0, 2 * MS, 0, 0, 2 * MS, 0]


@pytest.mark.slow
def test_a_job_whose_rank_is_killed_continues_from_its_checkpoint(tmp_path, capsys):
    options = {"start": True, "output_path": str(tmp_path / "data")}
    command = [TOOLS / "torchrun", "--standalone", "--nproc_per_node=2", "--max-restarts=1"]
    job = [PROGRAMS / "elastic_torch.py", tmp_path / "checkpoint", "30", "5", "13"]
    launched([[*command, *job]], tmp_path, options)
    assert main(["cluster", str(tmp_path / "data"), "--json", "--no-files"]) == 0
    found = json.loads(capsys.readouterr().out)["goodput"]
    first, second = found["starts"]
    assert (first["saved_to_step"], first["lost_steps"], first["read_checkpoint"]) == (9, 3, False)
    assert (second["steps"], second["lost_steps"], second["read_checkpoint"]) == (20, 0, True)
    parts = found["parts_ms"]
    assert found["useful_ms"] + sum(parts.values()) == pytest.approx(found["total_ms"])
    assert parts["lost steps"] >= 3 * 20 and parts["restarts"] > 0 and parts["checkpoints"] > 0
    assert found["useful_ms"] >= 30 * 20
    assert main(["cluster", str(tmp_path / "data"), "--no-files"]) == 0
    page = capsys.readouterr().out
    assert "Goodput " in page and "Start 1 made 13 steps, of which the next start lacked 3" in " ".join(page.split())
