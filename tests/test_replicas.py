"""Exchanges of DistributedDataParallel have the group and bytes of its buckets, or neither if these are uncertain."""

import json
from dataclasses import replace

import polars as pl
import pytest
from conftest import PROGRAMS
from launches import TOOLS, free_port, launched
from ms_profiler.analysis.cluster import exchanged, gathering, rank_account
from ms_profiler.analysis.driver import engine
from ms_profiler.analysis.model.tables import COARSE
from ms_profiler.store.format import Category
from store_builder import MS, StoreBuilder

STEPS = 5


def made(parent, notes, buckets, calls=0, quiet=()):
    """Return the measures of a run of `STEPS` steps whose backward passes exchange buckets.

    Args:
        parent: the directory of the result.
        notes: for each step, the note about the buckets at its end; further steps have none.
        buckets: the number of exchanges in each step.
        calls: the number of all-reduces that the script makes in each backward pass.
        quiet: the numbers of steps without exchanges.
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
    """Return for each step the bytes of its exchanges, and check that both tables agree."""
    found = exchanged.exchanges(measures)
    known = found.filter(pl.col("bytes") > 0)
    assert known["bytes"].to_list() == measures.calls["bytes"].to_list()
    assert set(known["group"]) <= {"0"} and set(found.filter(pl.col("bytes") == 0)["group"]) <= {""}
    return [found.filter(pl.col("step") == step)["bytes"].to_list() for step in range(STEPS)]


def test_buckets_are_those_of_the_pass(tmp_path):
    # PyTorch makes the buckets again in the second forward pass, and its logger reports them after the third
    notes = ["0;0;300,100;0;;0;Net", "1;0;300,100;0;;0;Net", "2;1;100*2,200;0;;0;Net"]
    measures = made(tmp_path, notes, [2, 3, 3, 3, 3])
    assert by_step(measures) == [[300, 100], *[[100, 100, 200]] * 4]
    assert measures.calls["number"].to_list() == list(range(14))
    assert set(measures.calls["operation"]) == {"AllReduce"}


def test_accumulated_steps_have_no_exchange(tmp_path):
    notes = ["0;0;300;0;;0;Net"]
    assert by_step(made(tmp_path, notes, [1] * STEPS, quiet=(0, 1, 3))) == [[], [], [0], [], [0]]
    notes = ["1;0;300;0;;0;Net", "2;0;300;0;;0;Net"]
    assert by_step(made(tmp_path / "later", notes, [1] * STEPS)) == [[0], *[[300]] * 4]


def test_unused_parameters_need_one_more_exchange(tmp_path):
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


@pytest.mark.parametrize(("operators", "ready"), [(3, 3), (2, 16)], ids=["all", "one is missing"])
def test_own_time_ends_when_a_bucket_is_passed_to_gloo(operators, ready, tmp_path):
    """Gloo's two threads exchange two buckets and wait for another rank; the third bucket waits for one of the threads.

    A thread of gloo records the end of its exchange late, when the next backward pass has begun.
    """
    store = StoreBuilder(tmp_path, rank=0, world_size=2)
    process = store.process()
    thread, first, second = process.thread(), process.thread(2, "gloo", 77), process.thread(3, "gloo", 78)
    for number in range(STEPS):
        start = (50 + 20 * number) * MS
        thread.span("backward", Category.BACKWARD, start, start + 18 * MS)
        for place in range(operators):
            passed = start + (1 + place) * MS
            thread.span("c10d::allreduce_", Category.OP, passed, passed + MS // 10)
        for gloo, begin, end in ((first, 1.2, 16), (second, 2.2, 22), (first, 16, 18)):
            gloo.span("gloo:all_reduce", Category.COMMUNICATION, start + round(begin * MS), start + round(end * MS))
        thread.step(number, start, start + 19 * MS)
    process.anchor((60 + 20 * STEPS) * MS)
    account = rank_account.account(engine.measured(str(store.write())))
    # The exchanges of a step end 2 ms before the next step begins; its last bucket is passed on `ready` ms later.
    assert account.steps["own_ns"].to_list() == [None, *[(2 + ready) * MS] * (STEPS - 1)]


def test_own_times_are_unknown_where_buckets_were_not_recorded(tmp_path):
    measures = made(tmp_path, [], [1] * STEPS, quiet=(2,))
    contents = [COARSE if number == 2 else "all" for number in range(STEPS)]
    for content, known in ((contents, [1, 4]), (["all"] * STEPS, [1, 3, 4])):
        table = measures.steps.table.with_columns(content=pl.Series(content))
        account = rank_account.account(replace(measures, steps=replace(measures.steps, table=table)))
        assert account.steps.drop_nulls("own_ns")["step"].to_list() == known


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["plain", "buffers", "unused", "accumulate", "subgroup", "beside", "hook", "two"])
def test_exchanges_are_those_of_the_flight_recorder(kind, tmp_path):
    """All buckets of every step are known, except if several modules make them uncertain."""
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
        for step, collectives in zip(account.steps["step"], truth["steps"], strict=True):
            found = account.exchanges.filter(pl.col("step") == step)
            reduced = [
                (name.replace("_", ""), group, size) for name, group, size in collectives if name == "all_reduce"
            ]
            ours = found.filter(pl.col("operation") == "allreduce").select("operation", "group", "bytes").rows()
            assert len(ours) == len(reduced)
            assert all(mine in (real, (real[0], "", 0)) for mine, real in zip(ours, reduced, strict=True))
            sure += ours == reduced
            # two buffers of 512 numbers each, and one counter
            sent = found.filter(pl.col("operation") == "broadcast", pl.col("bytes") > 0)["bytes"].sum()
            assert sent == (2 * 512 * 4 + 8 if kind == "buffers" else 0)
            if kind not in ("hook", "two", "beside", "unused") and ours == reduced:
                assert sum(size for _, _, size in ours) == truth["gradients"]
        # a hook in Python calls a function that ms-profiler records
        assert sure == (0 if kind == "two" else len(truth["steps"]))
