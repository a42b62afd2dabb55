"""Exchanges of DistributedDataParallel have the group and the bytes of its buckets, or none where that is not sure."""

import json

import polars as pl
import pytest
from conftest import PROGRAMS
from launches import TOOLS, free_port, launched
from ms_profiler.analysis.cluster import exchanged, gathering
from ms_profiler.analysis.driver import engine
from ms_profiler.store.format import Category
from store_builder import MS, StoreBuilder

STEPS = 5


def made(parent, notes, buckets, calls=0, quiet=()):
    """Return the measures of a run whose backward passes exchange some buckets.

    Args:
        parent: the directory of the result.
        notes: for each step, what is noted at its end; missing ones note nothing.
        buckets: the number of exchanges in each step.
        calls: the number of all-reduces that the script makes in each backward pass.
        quiet: steps without exchanges.
    """
    store = StoreBuilder(parent, rank=0, world_size=2)
    process = store.process()
    thread, gloo = process.thread(), process.thread(2, "gloo", 77)
    thread.instant("group 0 ranks 0,1", Category.COMMUNICATION, 40 * MS, 2)
    for number in range(STEPS):
        start = (50 + 20 * number) * MS
        thread.span("forward", Category.FORWARD, start, start + 4 * MS)
        thread.span("backward", Category.BACKWARD, start + 5 * MS, start + 18 * MS)
        for place in range(calls):
            thread.span(
                "AllReduce@0", Category.COMMUNICATION, start + (6 + place) * MS, start + (7 + place) * MS, arg=8
            )
        for place in range(0 if number in quiet else buckets[number]):
            begin = start + (6 + place) * MS + MS // 10
            gloo.span("gloo:all_reduce", Category.COMMUNICATION, begin, begin + MS // 2)
        thread.step(number, start, start + 19 * MS)
        if number < len(notes):
            thread.instant(f"buckets {notes[number]}", Category.COMMUNICATION, start + 19 * MS)
    process.anchor((60 + 20 * STEPS) * MS)
    return engine.measured(str(store.write()))


def by_step(measures):
    """Return the bytes of the exchanges of each step, and check that both tables agree."""
    found = exchanged.exchanges(measures)
    known = found.filter(pl.col("bytes") > 0)
    assert known["bytes"].to_list() == measures.calls["bytes"].to_list()
    assert set(known["group"]) <= {"0"} and set(found.filter(pl.col("bytes") == 0)["group"]) <= {""}
    return [found.filter(pl.col("step") == step)["bytes"].to_list() for step in range(STEPS)]


def test_buckets_are_those_of_the_pass(tmp_path):
    # made again in the second forward pass, which the logger tells after the third
    notes = ["0;0;300,100;0;;0;Net", "1;0;300,100;0;;0;Net", "2;1;100*2,200;0;;0;Net"]
    measures = made(tmp_path, notes, [2, 3, 3, 3, 3])
    assert by_step(measures) == [[300, 100], *[[100, 100, 200]] * 4]
    assert measures.calls["number"].to_list() == list(range(14))
    assert set(measures.calls["operation"]) == {"AllReduce"}


def test_accumulated_steps_exchange_nothing(tmp_path):
    notes = ["0;0;300;0;;0;Net"]
    assert by_step(made(tmp_path, notes, [1] * STEPS, quiet=(0, 1, 3))) == [[], [], [0], [], [0]]
    notes = ["1;0;300;0;;0;Net", "2;0;300;0;;0;Net"]
    assert by_step(made(tmp_path / "later", notes, [1] * STEPS)) == [[0], *[[300]] * 4]


def test_unused_parameters_are_told_with_one_more_exchange(tmp_path):
    measures = made(tmp_path, ["0;0;300,100;24;;0;Net"], [3] * STEPS)
    assert by_step(measures) == [[300, 100, 24]] * STEPS


@pytest.mark.parametrize(
    ("notes", "buckets", "calls"),
    [
        (["0;0;300,100;0;;0;Net", "2;0;300,100;0;;0;Other"], [2] * STEPS, 0),
        (["0;0;300,100;0;;0;Net", "2;0;300,100;0;fp16;0;Net"], [2] * STEPS, 0),
        (["0;0;300,100;0;;0;Net", "2;0;300,100;0;;0;Net"], [3] * STEPS, 0),
        ([], [2] * STEPS, 0),
    ],
    ids=["two modules", "a hook", "another number", "no note"],
)
def test_without_certainty_there_are_no_bytes(notes, buckets, calls, tmp_path):
    measures = made(tmp_path, notes, buckets, calls)
    assert by_step(measures) == [[0] * count for count in buckets]


def test_all_reduces_of_the_script_in_the_same_pass_leave_the_buckets_unknown(tmp_path):
    measures = made(tmp_path, ["0;0;300;0;;0;Net", "2;0;300;0;;0;Net"], [2] * STEPS, calls=1)
    assert by_step(measures) == [[8, 0]] * STEPS


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["plain", "buffers", "unused", "accumulate", "subgroup", "beside", "hook", "two"])
def test_exchanges_are_those_of_the_flight_recorder(kind, tmp_path):
    """In every step all buckets are known, except where several modules make them uncertain."""
    options = {"start": True, "output_path": str(tmp_path / "data")}
    command = [TOOLS / "torchrun", "--nproc_per_node=2", f"--master_port={free_port()}"]
    launched([[*command, PROGRAMS / "replicas_torch.py", tmp_path, kind]], tmp_path, options)
    results = sorted((tmp_path / "data").glob("*_ascend_ms"))
    assert len(results) == 2
    for path in results:
        account = gathering.read(str(path))
        truth = json.loads((tmp_path / f"truth_{account.rank}.json").read_text())
        assert account.steps.height == len(truth["steps"])
        sure = 0
        for step, told in zip(account.steps["step"], truth["steps"], strict=True):
            found = account.exchanges.filter(pl.col("step") == step)
            reduced = [(name.replace("_", ""), group, size) for name, group, size in told if name == "all_reduce"]
            ours = found.filter(pl.col("operation") == "allreduce").select("operation", "group", "bytes").rows()
            assert len(ours) == len(reduced)
            assert all(mine in (real, (real[0], "", 0)) for mine, real in zip(ours, reduced, strict=True))
            sure += ours == reduced
            # two buffers of 512 numbers, and a count
            sent = found.filter(pl.col("operation") == "broadcast", pl.col("bytes") > 0)["bytes"].sum()
            assert sent == (2 * 512 * 4 + 8 if kind == "buffers" else 0)
            if kind not in ("hook", "two", "beside", "unused") and ours == reduced:
                assert sum(size for _, _, size in ours) == truth["gradients"]
        # a hook in Python calls a function that is recorded
        assert sure == (0 if kind == "two" else len(truth["steps"]))
