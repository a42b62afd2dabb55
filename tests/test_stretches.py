"""Each part of the whole run has its time, and a step begins with its own work, not with calls before that."""

import random

import polars as pl
import pytest
from ms_profiler.analysis.metrics import stretches
from ms_profiler.analysis.metrics.steps import choose
from ms_profiler.analysis.readers import store as reader
from ms_profiler.store.format import Category, Flag, StepSource
from ms_profiler.store.names import EVALUATING
from store_builder import MS, WALL_NS, StoreBuilder, training

OPTIMIZER = StepSource.OPTIMIZER_CYCLE
APART = int(Flag.NO_GRADIENTS)


@pytest.fixture
def store(tmp_path):
    return StoreBuilder(tmp_path)


def parts_of(store):
    """Return (part, begin in ms, end in ms) of the first process in order; the parts have to fill the run."""
    recording = reader.read(str(store.write()))
    cut = stretches.stretches(recording)
    first = cut.filter(pl.col("process") == choose(recording).process)
    bounds = recording.processes.select(pl.col("first_ns").min(), pl.col("last_ns").max()).row(0)
    assert (first["start_ns"][0], first["end_ns"][-1]) == bounds
    assert (first["start_ns"][1:] == first["end_ns"][:-1]).all()
    return [
        (part, (start - WALL_NS) / MS, (end - WALL_NS) / MS)
        for part, start, end in stretches.parts(first).select("part", "start_ns", "end_ns").iter_rows()
    ]


def contents(store, part):
    sums = stretches.sums(stretches.stretches(reader.read(str(store.path)))).filter(pl.col("part") == part)
    return {phase: total / MS for phase, total in sums.select("phase", "total_ns").iter_rows()}


def update(thread, number, begin, start):
    """Record a step from `begin` on with 10 ms of work from `start` on; return the step's end. All times are in ms."""
    thread.span("forward", Category.FORWARD, start * MS, (start + 4) * MS)
    thread.span("backward", Category.BACKWARD, (start + 4) * MS, (start + 8) * MS)
    thread.span("SGD.step", Category.OPTIMIZER, (start + 8) * MS, (start + 10) * MS)
    thread.step(number, begin * MS, (start + 10) * MS, OPTIMIZER)
    return start + 10


def call(thread, start, end, flags=APART):
    thread.span("forward", Category.FORWARD, start * MS, end * MS, flags=flags)


def test_each_part_has_its_time(store):
    thread = store.process().thread()
    thread.span("import torch", Category.IMPORT, 0, 20 * MS)
    call(thread, 30, 32)
    call(thread, 34, 36)
    thread.span("compile", Category.COMPILE, 38 * MS, 39 * MS)
    update(thread, 0, 40, 40)
    thread.span("evaluate", Category.EVALUATION, 52 * MS, 58 * MS)
    call(thread, 53, 54)
    thread.span("collect_rollouts", Category.ROLLOUT, 60 * MS, 62 * MS)
    update(thread, 1, 62, 62)
    thread.span("torch.save", Category.CHECKPOINT, 74 * MS, 78 * MS)
    thread.span("kernel drain", Category.PROFILER, 78 * MS, 79 * MS)
    thread.instant("last", Category.MARKER, 90 * MS)
    assert parts_of(store) == [
        ("import", 0, 20),
        ("set-up", 20, 30),
        ("network calls", 30, 36),
        ("between steps", 36, 38),
        ("compile", 38, 39),
        ("between steps", 39, 40),
        ("steps", 40, 50),
        ("between steps", 50, 52),
        ("evaluation", 52, 58),
        ("between steps", 58, 60),
        ("rollout", 60, 62),
        ("steps", 62, 72),
        ("after the last step", 72, 74),
        ("checkpoint", 74, 78),
        ("profiling", 78, 79),
        ("after the last step", 79, 90),
    ]
    assert contents(store, "steps") == {"forward": 8, "backward": 8, "optimizer": 4}
    assert contents(store, "network calls") == {"forward": 4, "other": 2}


def test_a_rollout_is_in_no_step_although_one_begins_where_the_last_ended(store):
    thread = store.process().thread()
    end = begin = 0
    for number in range(8):
        start = begin
        if number % 4 == 0:
            for at in range(5):
                call(thread, start + 3 * at, start + 3 * at + 1)
            start += 20
        begin = end = update(thread, number, begin, start)
    assert parts_of(store) == [
        ("network calls", 0, 13),
        ("between steps", 13, 20),
        ("steps", 20, 60),
        ("network calls", 60, 73),
        ("between steps", 73, 80),
        ("steps", 80, end),
    ]


def test_calls_that_begin_every_step_belong_to_the_first_one_too(store):
    thread = store.process().thread()
    begin = 0
    for number in range(5):
        for at in range(2 if number else 4):
            call(thread, begin + 2 * at, begin + 2 * at + 1)
        begin = update(thread, number, begin, begin + 10)
    assert parts_of(store) == [("network calls", 0, 3), ("between steps", 3, 4), ("steps", 4, 100)]


def test_a_teacher_before_the_first_gradients_belongs_to_the_first_step(store):
    """The first step begins with the first work that computes gradients; the teacher ran before, as in each step."""
    thread = store.process().thread()
    call(thread, 0, 3)
    begin = 12
    for number in range(5):
        call(thread, begin, begin + 9)
        begin = update(thread, number, begin + 10 if number == 0 else begin, begin + 10)
    assert parts_of(store) == [("network calls", 0, 3), ("between steps", 3, 12), ("steps", 12, 112)]


def test_where_steps_begin_with_as_many_calls_as_their_data_asks_for_none_is_cut(store):
    thread = store.process().thread()
    begin = 0
    for number in range(5):
        for at in range(number + 1):
            call(thread, begin + 2 * at, begin + 2 * at + 1)
        begin = update(thread, number, begin, begin + 10)
    assert parts_of(store) == [("steps", 0, 100)]


@pytest.mark.parametrize(("others", "first"), [(1, 6), (None, 0)])
def test_a_warm_up_is_found_when_all_other_steps_agree(store, others, first):
    thread = store.process().thread()
    begin = 0
    for number in range(4):
        for at in range(3 if number == 0 else (others or number) - 1):
            call(thread, begin + 2 * at, begin + 2 * at + 1, flags=0)
        begin = update(thread, number, begin, begin + 10)
    steps = choose(reader.read(str(store.write()))).table
    assert steps["start_ns"][0] == WALL_NS + (first and 10) * MS


def test_steps_outside_of_the_schedule_are_not_recorded(store):
    thread = store.process().thread()
    thread.span("import torch", Category.IMPORT, 0, 10 * MS)
    for number in range(4):
        flags = 0 if number == 2 else int(Flag.UNRECORDED)
        thread.step(number, (20 + 10 * number) * MS, (28 + 10 * number) * MS, OPTIMIZER, flags)
    thread.instant("last", Category.MARKER, 70 * MS)
    assert parts_of(store) == [
        ("import", 0, 10),
        ("not recorded", 10, 20),
        ("steps", 20, 28),
        ("not recorded", 28, 30),
        ("steps", 30, 38),
        ("between steps", 38, 40),
        ("steps", 40, 48),
        ("not recorded", 48, 50),
        ("steps", 50, 58),
        ("not recorded", 58, 70),
    ]
    assert contents(store, "steps") == {"not recorded": 24, "other": 8}


def test_time_is_divided_by_process_and_each_process_with_steps_is_listed(store):
    store.process(100).thread(native_tid=100).span("import torch", Category.IMPORT, 0, 200 * MS)
    for pid, count in ((200, 3), (300, 2)):
        process = store.process(pid, role="spawn")
        thread = process.thread(native_tid=pid)
        thread.span("import torch", Category.IMPORT, 10 * MS, 40 * MS)
        begin = 50
        for number in range(count):
            begin = update(thread, number, begin, begin)
    recording = reader.read(str(store.write()))
    parts = stretches.parts(stretches.stretches(recording))
    assert parts["process"].unique(maintain_order=True).to_list() == [200, 300]
    assert parts.filter(process=300)["part"].to_list() == ["set-up", "import", "set-up", "steps"]
    assert parts_of(store)[-1] == ("other processes of the job", 80, 200)


def test_parts_of_a_run_without_steps(store):
    thread = store.process().thread()
    thread.span("import torch", Category.IMPORT, 0, 10 * MS)
    thread.instant("last", Category.MARKER, 20 * MS)
    assert parts_of(store) == [("import", 0, 10), ("other", 10, 20)]


@pytest.mark.parametrize("seed", range(3))
def test_random_runs_add_up(store, seed):
    generator = random.Random(seed)
    thread = store.process().thread()
    categories = [item for item in Category if item not in (Category.MODULE, Category.OP)]
    at = 0
    for number in range(30):
        begin = at + generator.randrange(5)
        at = begin + generator.randrange(1, 20)
        for _ in range(generator.randrange(4)):
            start = generator.randrange(begin, at)
            flags = generator.choice([0, APART])
            thread.span("x", generator.choice(categories), start * MS, generator.randrange(start, at) * MS, flags=flags)
        if generator.random() < 0.7:
            thread.step(number, begin * MS, at * MS, OPTIMIZER)
    thread.instant("last", Category.MARKER, 900 * MS)
    assert parts_of(store)


def test_a_plain_training_is_all_steps(tmp_path):
    store = training(tmp_path, steps=3)
    assert {part for part, *_ in parts_of(store)} <= {"steps", "between steps", "after the last step", "set-up"}


def test_an_evaluation_by_a_compiled_function_is_in_no_step(store):
    thread = store.process().thread()
    begin = 0
    for number in range(4):
        start = begin
        for at in range(5 if number == 2 else 0):
            thread.span(EVALUATING, Category.FORWARD, (start + 3 * at) * MS, (start + 3 * at + 2) * MS, flags=APART)
            thread.span("jit evaluate", Category.GRAPH, (start + 3 * at) * MS, (start + 3 * at + 1) * MS)
        start += 15 if number == 2 else 0
        thread.span("jit train", Category.GRAPH, start * MS, (start + 10) * MS)
        thread.step(number, begin * MS, (start + 10) * MS, StepSource.TRAIN_CELL)
        begin = start + 10
    assert parts_of(store) == [("steps", 0, 20), ("evaluation", 20, 34), ("between steps", 34, 35), ("steps", 35, 55)]


def test_calls_in_evaluation_mode_are_an_evaluation(store):
    thread = store.process().thread()
    end = update(thread, 0, 10, 10)
    for number in range(4):
        name = EVALUATING if number < 3 else "forward"
        thread.span(name, Category.FORWARD, (end + 5 * number) * MS, (end + 5 * number + 2) * MS, flags=APART)
    end = update(thread, 1, end + 20, end + 20)
    parts = [(part, round(stop - start)) for part, start, stop in parts_of(store)]
    assert parts[parts.index(("evaluation", 12)) :][:3] == [
        ("evaluation", 12),
        ("between steps", 3),
        ("network calls", 2),
    ]


def in_modes(store, text):
    """Return the parts between two steps that have calls in the modes of `text`: "e" is evaluation, "t" training."""
    thread = store.process().thread()
    end = update(thread, 0, 10, 10)
    for number, letter in enumerate(text):
        name = EVALUATING if letter == "e" else "forward"
        thread.span(name, Category.FORWARD, (end + 5 * number) * MS, (end + 5 * number + 2) * MS, flags=APART)
    start = end + 5 * len(text)
    update(thread, 1, start, start)
    parts = [(part, round(stop - begin)) for part, begin, stop in parts_of(store)]
    return [each for each in parts if each[0] in ("evaluation", "network calls")]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("etetet", [("evaluation", 27)]),
        ("tetete", [("evaluation", 27)]),
        ("tettett", [("evaluation", 32)]),
        ("etet", [("evaluation", 17)]),
        ("eeeet", [("evaluation", 17), ("network calls", 2)]),
        ("etttte", [("evaluation", 2), ("network calls", 17), ("evaluation", 2)]),
        ("etettt", [("evaluation", 12), ("network calls", 12)]),
        ("tttt", [("network calls", 17)]),
    ],
)
def test_networks_in_both_modes_that_alternate_are_one_evaluation(store, text, found):
    assert in_modes(store, text) == found


@pytest.mark.parametrize(("inner", "evaluated"), [(True, 10), (False, 7)])
def test_an_evaluation_ends_with_the_wait_for_its_last_result(store, inner, evaluated):
    thread = store.process().thread()
    end = update(thread, 0, 10, 10)
    for at in (0, 5):
        thread.span(EVALUATING, Category.FORWARD, (end + at) * MS, (end + at + 2) * MS, flags=APART)
        if inner or at:
            thread.span("asnumpy", Category.SYNC, (end + at + 3) * MS, (end + at + 5) * MS)
    update(thread, 1, end + 20, end + 20)
    assert [round(stop - begin) for part, begin, stop in parts_of(store) if part == "evaluation"] == [evaluated]
