"""Ranks that never exchange with the late rank do not wait for it, and ranks with more steps than others are named."""

import json

import pytest
from ms_profiler.analysis.cluster import parallel_groups
from ms_profiler.cli import main
from ms_profiler.store.format import Category
from store_builder import MS, StoreBuilder


def grouped(parent, steps):
    """Write four ranks: 0 and 1 exchange with each other, and so do 2 and 3; rank 3 sleeps for 10 ms in each step."""
    for rank in range(4):
        name = f"host_{rank + 1}_2026010100000012{rank}_ascend_ms"
        store = StoreBuilder(parent, name, rank=rank, world_size=4, pid=rank + 1)
        process = store.process(rank + 1)
        thread = process.thread()
        group, end = ("first", 8) if rank < 2 else ("second", 18)
        thread.instant(f"group {group} ranks {'0-1' if rank < 2 else '2-3'}", Category.COMMUNICATION, 40 * MS, 2)
        for number in range(steps[rank]):
            start = (50 + 20 * number) * MS
            ready = start + (17 if rank == 3 else 3) * MS + number % 3 * MS // 10
            thread.span("forward", Category.FORWARD, start, ready)
            thread.span(f"AllReduce@{group}", Category.COMMUNICATION, ready, start + end * MS, arg=4_000)
            thread.step(number, start, start + 20 * MS)
        process.anchor((51 + 20 * steps[rank]) * MS)
        store.write()


@pytest.mark.parametrize("more", [0, 5])
def test_only_ranks_that_exchange_with_the_late_one_wait_for_it(more, tmp_path, capsys):
    grouped(tmp_path / "data", [20, 20 + more, 20, 20])
    assert main(["cluster", str(tmp_path / "data"), "--json", "--no-files"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [late["rank"] for late in found["late"]] == [3]
    assert ". Rank 2 waits for it, and " in found["verdict"]
    assert [each["role"] for each in found["ranks"]] == ["even", "even", "waits", "late"]
    assert found["ranks"][2]["wait_ms"] > 200 > 5 > found["ranks"][0]["wait_ms"]
    assert found["remarks"] == ["Rank 1 made 25 steps, ranks 0, 2 and 3 made 20."] * bool(more)


def test_groups_with_a_common_rank_are_connected():
    used = {0: [[0, 1]], 1: [[0, 1], [1, 2]], 2: [[1, 2]], 3: [[3, 4]], 4: [[3, 4]], 5: []}
    assert parallel_groups.connected(used) == {0: 0, 1: 0, 2: 0, 3: 3, 4: 3, 5: 5}
