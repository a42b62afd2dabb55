"""A rank waits in messages of a pipeline, too, if it is the last rank of each step."""

import json

import pytest
from ms_profiler.cli import main
from ms_profiler.store.format import Category
from store_builder import MS, StoreBuilder

STEPS = 20


def piped(parent, framework):
    """Write two ranks: rank 0 sends two parts of a batch to rank 1, which takes long and sends their gradients back.

    In each step, rank 1 waits 4 ms for the first part. All messages take 1 ms, and the receives of the first step wait
    for nothing.
    """
    for rank in range(2):
        name, info = f"host_{rank + 1}_2026010100000012{rank}_ascend_ms", {"framework": {"name": framework}}
        store = StoreBuilder(parent, name, rank=rank, world_size=2, **info)
        process = store.process(rank + 1)
        thread = process.thread()
        thread.instant("group world ranks 0-1", Category.COMMUNICATION, 40 * MS, 2)
        for number in range(STEPS):
            start, waits = (50 + 40 * number) * MS, bool(number)

            def message(kind, begin, end, start=start, thread=thread):
                thread.span(f"{kind}@world", Category.COMMUNICATION, start + begin * MS, start + end * MS, arg=4000)

            if rank == 0:
                thread.span("forward", Category.FORWARD, start, start + 4 * MS)
                message("Send", 4, 5)
                message("Receive", 5 if waits else 28, 29)
            else:
                message("Receive", 0 if waits else 4, 5)
                thread.span("forward", Category.FORWARD, start + 5 * MS, start + 28 * MS)
                message("Send", 28, 29)
            thread.step(number, start, start + 40 * MS)
        process.anchor((51 + 40 * STEPS) * MS)
        store.write()


@pytest.mark.parametrize("framework", ["torch", "mindspore"])
def test_the_last_rank_waits_in_messages(framework, tmp_path, capsys):
    piped(tmp_path / "data", framework)
    assert main(["cluster", str(tmp_path / "data"), "--json", "--no-files"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [late["rank"] for late in found["late"]] == [1]
    waits = [each["wait_ms"] for each in found["ranks"]]
    assert main(["cluster", str(tmp_path / "data"), "--no-files"]) == 0
    page = capsys.readouterr().out
    row = next(line.split() for line in page.splitlines() if line.startswith("1 "))
    if framework == "torch":
        assert waits == [pytest.approx(23 * (STEPS - 1)), pytest.approx(4 * (STEPS - 1))]
        assert row[:4] == ["1", "late", "76.000", "ms"] and "is unknown" not in page
    else:  # its calls do not last as long as the message, so the waits of the last rank are unknown
        assert waits[1] is None and row[:3] == ["1", "late", "-"]
        assert "The wait of rank 1 is unknown: calls that send or receive a message end before the message." in page
