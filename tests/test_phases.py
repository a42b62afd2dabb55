import random

import polars as pl
import pytest
from ms_profiler.analysis.metrics import phases, steps
from ms_profiler.analysis.readers import store as readers_store
from ms_profiler.store.format import Category, Flag
from ms_profiler.store.names import OWN_WORK_LEAST
from store_builder import MS, WALL_NS, StoreBuilder, training


def measure(store):
    """Return the steps of a store, the pieces of their phases, and {step number: {phase: ns}}."""
    recording = readers_store.read(str(store.write()))
    used = steps.choose(recording)
    cut = phases.pieces(recording.spans, used)
    times = {number: {} for number in used.table["number"]}
    for row, phase, duration in phases.by_step(cut).iter_rows():
        times[used.table["number"][row]][phase] = duration
    return used, cut, times


@pytest.fixture
def store(tmp_path):
    return StoreBuilder(tmp_path)


def test_plain_training(tmp_path):
    _, _, times = measure(training(tmp_path, steps=3))
    plain = {"data": 3 * MS, "forward": 2 * MS, "backward": 4 * MS, "optimizer": MS // 2, "other": MS // 2}
    assert times == {0: {**plain, "compile": 100 * MS}, 1: plain, 2: plain}


def test_innermost_phase_counts(store):
    thread = store.process().thread()
    thread.span("train", Category.RUN, 0, 100)
    thread.span("graph", Category.GRAPH, 10, 90)
    thread.span("compile", Category.COMPILE, 20, 60)
    thread.span("sync", Category.SYNC, 30, 40)
    thread.step(0, 0, 100)
    _, _, times = measure(store)
    assert times[0] == {"compute (graph)": 40, "compile": 30, "sync": 10, "other": 20}


def test_graph_inside_an_optimizer_is_the_optimizers(store):
    thread = store.process().thread()
    thread.span("sgd", Category.OPTIMIZER, 10, 60)
    thread.span("jit", Category.GRAPH, 20, 50)
    thread.span("compile", Category.COMPILE, 25, 30)
    thread.span("jit", Category.GRAPH, 60, 80)
    thread.step(0, 0, 100)
    _, _, times = measure(store)
    assert times[0] == {"optimizer": 45, "compile": 5, "compute (graph)": 20, "other": 30}


def test_module_is_forward_only_outside_every_phase(store):
    thread = store.process().thread()
    thread.span("net", Category.MODULE, 0, 50)
    thread.span("fetch", Category.DATA, 10, 20)
    thread.span("backward", Category.BACKWARD, 60, 90)
    thread.span("hook", Category.MODULE, 70, 80)
    thread.span("op", Category.OP, 92, 95)
    thread.step(0, 0, 100)
    _, _, times = measure(store)
    assert times[0] == {"forward": 40, "data": 10, "backward": 30, "other": 20}


def test_only_the_stepping_thread_counts(store):
    process = store.process()
    thread, other = process.thread(1), process.thread(2, "worker", 4300)
    thread.span("backward", Category.BACKWARD, 0, 60)
    other.span("fetch", Category.DATA, 0, 100)
    thread.step(0, 0, 100)
    _, _, times = measure(store)
    assert times[0] == {"backward": 60, "other": 40}


def test_span_over_the_bounds_of_a_step_is_shared_out(store):
    thread = store.process().thread()
    thread.span("next", Category.DATA, 50, 130)
    for number in range(2):
        thread.step(number, number * 100, number * 100 + 100)
    _, _, times = measure(store)
    assert times == {0: {"data": 50, "other": 50}, 1: {"data": 30, "other": 70}}


def test_steps_that_were_not_recorded_have_no_phases(store):
    thread = store.process().thread()
    thread.step(0, 0, 100, flags=Flag.UNRECORDED)
    thread.step(1, 100, 200)
    _, _, times = measure(store)
    assert times == {0: {}, 1: {"other": 100}}


def test_span_that_outlives_the_one_it_began_in_is_cut_off(store):
    thread = store.process().thread()
    thread.span("a", Category.FORWARD, 0, 50)
    thread.span("b", Category.DATA, 30, 80)
    thread.span("c", Category.SYNC, 60, 90)
    thread.step(0, 0, 100)
    _, _, times = measure(store)
    assert times[0] == {"forward": 30, "data": 20, "sync": 30, "other": 20}


def brute_force(spans, start, end):
    """Return {phase: ns} by looking at each nanosecond alone; spans are nested (category, start, end)."""
    names = phases.NAMES
    times = {}
    for moment in range(start, end):
        around = [span for span in spans if span[1] <= moment < span[2]]
        around.sort(key=lambda span: (span[1], -span[2]))
        owned = any(category in phases.GRAPH_OWNERS for category, _, _ in around)
        saved = any(category == Category.CHECKPOINT for category, _, _ in around)
        known = [
            names[category]
            for category, _, _ in around
            if category in names
            and not (owned and category == Category.GRAPH)
            and not (saved and category == Category.SYNC)
        ]
        module = any(category == Category.MODULE for category, _, _ in around)
        phase = known[-1] if known else "forward" if module else "other"
        times[phase] = times.get(phase, 0) + 1
    return times


def random_spans(generator, count, length):
    bounds = sorted(generator.sample(range(length), 2 * count))
    phased = [category for category in phases.NAMES if category != Category.PROFILER]
    choice = [*phased, Category.MODULE, Category.OTHER, Category.OP, Category.EPOCH]
    spans, around = [], []
    for moment in bounds:
        if around and (len(around) > 5 or generator.random() < 0.5):
            category, start = around.pop()
            spans.append((category, start, moment))
        else:
            around.append((generator.choice(choice), moment))
    return spans


@pytest.mark.parametrize("seed", range(8))
def test_random_runs_agree_with_counting_nanoseconds_and_add_up(tmp_path, seed):
    generator = random.Random(seed)
    spans = random_spans(generator, 60, 2000)
    bounds = sorted(generator.sample(range(2000), 8))
    store = StoreBuilder(tmp_path)
    thread = store.process().thread()
    for category, start, end in sorted(spans, key=lambda span: span[1]):
        thread.span("s", category, start, end)
    for number, (start, end) in enumerate(zip(bounds[::2], bounds[1::2], strict=True)):
        thread.step(number, start, end)
    used, cut, times = measure(store)
    for number, (start, end) in enumerate(zip(bounds[::2], bounds[1::2], strict=True)):
        assert times[number] == brute_force(spans, start, end)
        assert sum(times[number].values()) == end - start
    assert cut.select((pl.col("end_ns") - pl.col("start_ns")).sum()).item() == used.table["duration_ns"].sum()
    assert cut["start_ns"].is_sorted() and cut["start_ns"][0] == WALL_NS + bounds[0]


def test_shares_add_up_and_steady_ones_leave_out_compiling_steps(tmp_path):
    _, cut, _ = measure(training(tmp_path))
    times = phases.by_step(cut)
    compiled = phases.compiling(times)
    assert compiled == [0]
    shares = phases.shares(times, compiled)
    assert shares["share"].sum() == pytest.approx(1) and shares["steady_share"].sum() == pytest.approx(1)
    rows = {row["phase"]: row for row in shares.iter_rows(named=True)}
    assert rows["compile"]["steady_share"] == 0 and rows["compile"]["share"] == pytest.approx(1 / 3)
    assert rows["data"]["steady_ns"] == 3 * MS and rows["data"]["steady_share"] == pytest.approx(0.3)
    assert shares["phase"].to_list() == ["data", "compile", "forward", "backward", "optimizer", "other"]


def test_where_every_step_compiles_all_are_steady(tmp_path):
    _, cut, _ = measure(training(tmp_path, steps=1))
    times = phases.by_step(cut)
    shares = phases.shares(times, phases.compiling(times))
    assert shares["steady_share"].to_list() == shares["share"].to_list()


def test_only_noticed_work_of_ms_profiler_is_a_phase(tmp_path):
    store = StoreBuilder(tmp_path)
    thread = store.process().thread()
    thread.span("window", Category.PROFILER, MS, MS + OWN_WORK_LEAST - 1)
    thread.span("an analysis", Category.PROFILER, 2 * MS, 2 * MS + OWN_WORK_LEAST)
    thread.step(0, 0, 5 * MS)
    _, _, times = measure(store)
    assert times[0] == {"profiling": OWN_WORK_LEAST, "other": 5 * MS - OWN_WORK_LEAST}


def test_steps_that_an_analysis_interrupts_are_known():
    times = pl.DataFrame(
        {
            "step": [0, 0, 1, 1, 2],
            "phase": ["forward", "profiling", "forward", "profiling", "profiling"],
            "duration_ns": [95, 5, 80, 20, 7],
        }
    )
    assert phases.interrupted(times) == [1, 2]
