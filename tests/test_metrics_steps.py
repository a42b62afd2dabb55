import polars as pl
import pytest
from ms_profiler.analysis.metrics import steps
from ms_profiler.analysis.readers import store as readers_store
from ms_profiler.store.format import Category, Flag, StepSource
from store_builder import MS, WALL_NS, StoreBuilder, training


def choose(store):
    return steps.choose(readers_store.read(str(store.write())))


@pytest.fixture
def store(tmp_path):
    return StoreBuilder(tmp_path)


def test_statistics_of_a_known_series(store):
    thread = store.process().thread()
    start = 0
    for number in range(100):
        thread.step(number, start, start + (number + 1) * MS)
        start += (number + 1) * MS
    used = choose(store)
    figures = steps.statistics(used.table)
    assert figures == {
        "count": 100,
        "median_ms": 50.5,
        "p95_ms": 95.0,
        "mean_ms": 50.5,
        "min_ms": 1.0,
        "max_ms": 100.0,
    }
    assert steps.slowest(used.table, 2) == [{"number": 99, "ms": 100.0}, {"number": 98, "ms": 99.0}]


@pytest.mark.parametrize(("count", "rank"), [(1, 1), (19, 19), (20, 19), (21, 20), (40, 38)])
def test_95th_percentile_is_the_nearest_rank(store, count, rank):
    thread = store.process().thread()
    for number in range(count):
        thread.step(number, number * 1000 * MS, number * 1000 * MS + (number + 1) * MS)
    assert steps.statistics(choose(store).table)["p95_ms"] == rank


def test_statistics_without_steps_are_empty(tmp_path):
    table = choose(training(tmp_path)).table.clear()
    assert set(steps.statistics(table).values()) == {0, None}
    assert steps.slowest(table) == []


def test_steps_of_every_source_count_and_the_best_source_is_named(store):
    thread = store.process().thread()
    thread.step(0, 0, MS, source=StepSource.OPTIMIZER_CYCLE)
    thread.step(1, MS, 2 * MS, source=StepSource.FRAMEWORK_LOOP)
    thread.step(2, 2 * MS, 3 * MS, source=StepSource.FRAMEWORK_LOOP)
    used = choose(store)
    assert used.source == StepSource.FRAMEWORK_LOOP and used.table["number"].to_list() == [0, 1, 2]


def test_stepping_thread_is_the_one_with_most_steps_of_one_source(store):
    process = store.process()
    first, second = process.thread(1), process.thread(2, "trainer", 4300)
    first.step(0, 0, MS)
    for number in range(3):
        second.step(number, number * MS, (number + 1) * MS)
    used = choose(store)
    assert (used.process, used.thread, used.table.height) == (4242, 2, 3)


def test_training_defines_steps_even_if_evaluation_is_more_frequent(store):
    main, trainer = store.process().thread(), store.process(4300, role="spawn").thread(1, "trainer", 4300)
    for number in range(9):
        main.step(number, number * MS, (number + 1) * MS, source=StepSource.NETWORK_CALL)
    trainer.step(0, 0, MS, source=StepSource.OPTIMIZER_CYCLE)
    used = choose(store)
    assert (used.process, used.source, used.table.height) == (4300, StepSource.OPTIMIZER_CYCLE, 1)


def test_steps_that_overlap_are_cut_at_the_next_one(store):
    thread = store.process().thread()
    thread.step(0, 0, 15)
    thread.step(1, 10, 30)
    assert choose(store).table["duration_ns"].to_list() == [10, 20]


def test_without_marks_the_whole_run_is_step_0(store):
    process = store.process()
    process.thread(1, "other", 999)
    main = process.thread(2, "MainThread", 4242)
    main.span("work", Category.FORWARD, 2 * MS, 9 * MS)
    process.anchor(10 * MS)
    used = choose(store)
    assert (used.source, used.thread) == (StepSource.WHOLE_RUN, 2)
    assert used.table.select("number", "start_ns", "end_ns", "recorded").rows() == [
        (0, WALL_NS, WALL_NS + 10 * MS, True)
    ]


def test_whole_run_is_that_of_the_main_process(store):
    store.process(100, role="fork").thread().span("early", Category.DATA, 0, 500 * MS)
    store.process(4242).thread().span("work", Category.FORWARD, 2 * MS, 9 * MS)
    used = choose(store)
    assert used.process == 4242 and used.table["duration_ns"].to_list() == [9 * MS]


def test_recorded_steps_are_separate(store):
    thread = store.process().thread()
    for number in range(4):
        thread.step(number, number, number + 1, flags=0 if number % 2 else Flag.UNRECORDED)
    used = choose(store)
    assert used.table.height == 4 and used.recorded["number"].to_list() == [1, 3]


def test_restricting_keeps_only_the_named_steps(tmp_path):
    used = steps.restrict(choose(training(tmp_path)), [3, 4, 99], "a result")
    assert used.table["number"].to_list() == [3, 4]


@pytest.mark.parametrize(("source", "first"), [(StepSource.OPTIMIZER_CYCLE, 1), (StepSource.NETWORK_CALL, 2)])
def test_the_first_iteration_is_not_steady_where_a_step_ends_with_the_forward_pass(source, first):
    known = pl.DataFrame({"row": range(8)}, schema={"row": pl.UInt32})
    assert steps.settled(known, [], source) == list(range(first, 8))
    assert steps.settled(known, [0, 4], source) == [row for row in range(1, 8) if row != 4][first:]
