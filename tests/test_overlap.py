import random

import pytest
from ms_profiler.analysis.metrics import measures, overlap
from ms_profiler.analysis.readers import store as readers_store
from ms_profiler.store.format import Category
from store_builder import StoreBuilder


def measure(store):
    return measures.measure(readers_store.read(str(store.write())))


@pytest.fixture
def store(tmp_path):
    return StoreBuilder(tmp_path)


def test_communication_beside_the_computation_overlaps(store):
    process = store.process()
    thread, other = process.thread(1), process.thread(2, "comm", 4300)
    thread.span("next", Category.DATA, 0, 10)
    thread.span("forward", Category.FORWARD, 10, 40)
    thread.span("backward", Category.BACKWARD, 40, 80)
    other.span("all_reduce", Category.COMMUNICATION, 60, 90)
    thread.step(0, 0, 100)
    row = overlap.by_step(measure(store).states).row(0, named=True)
    assert row == {
        "step": 0,
        "stage": 100,
        "computing": 70,
        "communication": 30,
        "overlapped": 20,
        "not_overlapped": 10,
        "free": 20,
        "bubble": 0,
        "preparing": 10,
    }


def test_communication_inside_the_backward_pass_is_not_computing(store):
    thread = store.process().thread()
    thread.span("backward", Category.BACKWARD, 0, 80)
    thread.span("all_reduce", Category.COMMUNICATION, 20, 50)
    thread.step(0, 0, 100)
    row = overlap.by_step(measure(store).states).row(0, named=True)
    assert (row["computing"], row["communication"], row["overlapped"], row["free"]) == (50, 30, 0, 20)


def test_step_that_computes_nothing_prepares_nothing(store):
    thread = store.process().thread()
    thread.span("next", Category.DATA, 0, 80)
    thread.step(0, 0, 100)
    row = overlap.by_step(measure(store).states).row(0, named=True)
    assert (row["stage"], row["free"], row["preparing"]) == (100, 100, 0)


@pytest.mark.parametrize("seed", range(5))
def test_columns_agree_with_counting_nanoseconds(tmp_path, seed):
    generator = random.Random(seed)
    store = StoreBuilder(tmp_path)
    process = store.process()
    thread, other = process.thread(1), process.thread(2, "comm", 4300)
    computing, communicating = set(), set()
    moment = 0
    while moment < 900:
        length = generator.randrange(1, 60)
        category = generator.choice([Category.FORWARD, Category.COMMUNICATION, Category.DATA, Category.GRAPH])
        thread.span("s", category, moment, moment + length)
        if category in (Category.FORWARD, Category.GRAPH):
            computing |= set(range(moment, moment + length))
        if category == Category.COMMUNICATION:
            communicating |= set(range(moment, moment + length))
        moment += length + generator.randrange(20)
    for _ in range(10):
        start = generator.randrange(900)
        other.span("c", Category.COMMUNICATION, start, start + 50)
        communicating |= set(range(start, start + 50))
    for number in range(4):
        thread.step(number, number * 250, number * 250 + 240)
    rows = overlap.by_step(measure(store).states).rows(named=True)
    for number, row in enumerate(rows):
        inside = set(range(number * 250, number * 250 + 240))
        assert row["computing"] == len(computing & inside)
        assert row["communication"] == len(communicating & inside)
        assert row["overlapped"] == len(computing & communicating & inside)
        assert row["not_overlapped"] == row["communication"] - row["overlapped"]
        assert row["free"] == row["stage"] - row["computing"] - row["not_overlapped"]
        first = min(computing & inside, default=number * 250)
        assert row["preparing"] == first - number * 250


def test_lanes_hold_the_same_time_as_the_table(store):
    thread = store.process().thread()
    for number in range(3):
        thread.span("f", Category.FORWARD, number * 100 + 10, number * 100 + 30)
        thread.span("c", Category.COMMUNICATION, number * 100 + 20, number * 100 + 25)
        thread.span("b", Category.BACKWARD, number * 100 + 30, number * 100 + 50)
        thread.step(number, number * 100, number * 100 + 100)
    states = measure(store).states
    lanes = overlap.lanes(states)
    table = overlap.by_step(states)
    for lane, column in (
        (overlap.LANE_COMPUTING, "computing"),
        (overlap.LANE_COMMUNICATION, "communication"),
        (overlap.LANE_NOT_OVERLAPPED, "not_overlapped"),
        (overlap.LANE_FREE, "free"),
    ):
        rows = lanes.filter(lane=lane)
        assert (rows["end_ns"] - rows["start_ns"]).sum() == table[column].sum(), lane
    # touching pieces of the same kind are one interval of the lane
    assert lanes.filter(lane=overlap.LANE_COMPUTING).height == 3 * 2
