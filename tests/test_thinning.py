import itertools
import json
import random

import pytest
from ms_profiler.analysis.driver import engine, thinning
from ms_profiler.analysis.readers import slot_table, store as readers_store
from ms_profiler.store import layout
from ms_profiler.store.format import Category
from store_builder import MS, StoreBuilder, folder_of, training


@pytest.fixture
def small(monkeypatch):
    """Lower the limits of a long run, so that the short runs of these tests are long."""
    monkeypatch.setattr(readers_store, "MOST_SLOTS", 100)
    monkeypatch.setattr(slot_table, "BATCH", 32 * 100)
    monkeypatch.setattr(thinning.kept_steps, "__defaults__", (600,))


def nested(parent, steps=60, seed=0):
    """Build a run with randomly nested modules and operators, in many segments and on two threads."""
    generator = random.Random(seed)
    store = StoreBuilder(parent)
    process = store.process()
    threads = [process.thread(1), process.thread(2, "worker", 4300)]

    def fill(thread, start, end, depth):
        while end - start > 10 and generator.random() < 0.8:
            first = generator.randrange(start, end - 5)
            last = generator.randrange(first + 1, end)
            category = generator.choice([Category.MODULE, Category.OP, Category.OP, Category.SYNC, Category.COMPILE])
            thread.span(f"{category.name} {generator.randrange(5)}", category, first, last)
            if depth:
                fill(thread, first, last, depth - 1)
            start = last + 1

    for number in range(steps):
        start = number * 10_000
        for thread in threads:
            if number % 10 == 9:
                thread.new_segment()
            thread.span("outer", Category.MODULE, start + 5, start + 9_000 + number)
            fill(thread, start + 6, start + 9_000, 3)
        threads[0].step(number, start, start + (10_000 if number != 33 else 9_999))
    return store


def summary_of(store):
    path = store.write()
    engine.analyse([path])
    return json.loads((path / layout.SUMMARY).read_text())


@pytest.mark.parametrize("seed", range(4))
def test_tables_are_those_of_the_whole_run(tmp_path, small, monkeypatch, seed):
    store = nested(tmp_path, seed=seed)
    thinned = summary_of(store)
    calls = (folder_of(store.path) / layout.API_STATISTIC).read_bytes()
    monkeypatch.setattr(readers_store, "MOST_SLOTS", 10**9)
    whole = summary_of(store)
    assert (folder_of(store.path) / layout.API_STATISTIC).read_bytes() == calls
    assert thinned["coverage"]["fine_records_kept"] < whole["coverage"]["fine_records_kept"]
    assert thinned["coverage"]["fine_records"] == whole["coverage"]["fine_records"]
    assert whole["coverage"]["detailed_steps"] is None
    # `most` names modules, of which a long run has only the outermost ones outside its detailed steps.
    assert thinned["synchronisation"].pop("most") and whole["synchronisation"].pop("most")
    # The verdict ends with the heaviest module; for a long run, this is the heaviest in its detailed steps.
    assert thinned.pop("verdict").partition(";")[0] == whole.pop("verdict").partition(";")[0]
    for key in sorted(set(whole) - {"coverage", "module_tree"}):
        assert thinned[key] == whole[key], key


def test_requested_steps_stay_detailed(tmp_path, small):
    store = nested(tmp_path)
    path = store.write()
    engine.analyse([path], step_list=[20, 21, 22])
    thinned = json.loads((path / layout.SUMMARY).read_text())
    assert thinned["coverage"]["detailed_steps"] == [20, 21, 22]
    assert thinned["steps"]["count"] == 3
    assert next(item for item in thinned["modules"] if item["name"] == "outer")["count"] == 6


def test_run_without_steps_keeps_its_first_part(tmp_path, small):
    store = StoreBuilder(tmp_path)
    thread = store.process().thread()
    for number in range(5000):
        thread.span("op", Category.OP, number * MS, (number + 1) * MS)
    thinned = summary_of(store)
    assert thinned["top_operators"][0]["count"] == 5000
    assert thinned["coverage"]["fine_records_kept"] == 600


def test_steps_in_between_stay_detailed_wherever_the_slow_ones_are(tmp_path, small):
    """The steps 100 to 139 of 400 are slow. The other detailed steps are the first, the last, and runs of steps."""
    store = StoreBuilder(tmp_path)
    thread = store.process().thread()
    for number in range(400):
        start = number * 2 * MS
        for call in range(8):
            thread.span("mul", Category.OP, start + 1000 * call, start + 1000 * call + 500)
        thread.step(number, start, start + MS + (MS // 2 + 100 * number) * (100 <= number < 140))
    detailed = summary_of(store)["coverage"]["detailed_steps"]
    assert set(detailed) >= {*range(18), *range(122, 140), *range(382, 400)}
    between = [number for number in detailed if 18 <= number < 382 and not 122 <= number < 140]
    assert len(between) == 12 and all(number + 1 in between or number - 1 in between for number in between)
    assert max(after - before for before, after in itertools.pairwise(detailed)) < 120


def test_modules_are_those_of_the_steady_detailed_steps(tmp_path, small):
    store = StoreBuilder(tmp_path)
    thread = store.process().thread()
    for number in range(60):
        start = number * MS
        thread.span("Net", Category.MODULE, start, start + MS)
        for call in range(70):
            thread.span("mul", Category.OP, start + 1000 * call, start + 1000 * call + 500)
        thread.step(number, start, start + MS)
    found = summary_of(store)
    assert found["coverage"]["detailed_steps"] == [0, 1, 58, 59]
    assert found["steps"]["steady"]["count"] == 59
    assert found["module_tree"]["steps"] == 3
    assert found["module_tree"]["whole_ms"] == 1


def compiling(parent):
    """Build steps that call "fused" once and "mul" twice. In the first step, both calls of "mul" run in a compilation.

    Meanwhile, a worker calls "mul" once.
    """
    store = StoreBuilder(parent)
    process = store.process()
    main, worker = process.thread(1), process.thread(2, "worker", 4300)
    main.span("compile Net", Category.COMPILE, 10 * MS, 510 * MS)
    worker.span("mul", Category.OP, 20 * MS, 30 * MS)
    for number in range(60):
        start = number * 1000 * MS
        main.span("fused", Category.OP, start + 5 * MS, start + 605 * MS)
        main.span("mul", Category.OP, start + 100 * MS, start + 200 * MS)
        main.span("mul", Category.OP, start + 300 * MS, start + 310 * MS)
        main.step(number, start, start + 1000 * MS)
    return store


@pytest.mark.parametrize("limits", ["small", None])
def test_operators_of_a_compilation_are_counted_apart(tmp_path, request, limits):
    if limits:
        request.getfixturevalue(limits)
    found = summary_of(compiling(tmp_path))
    assert (found["coverage"]["detailed_steps"] is None) == (limits is None)
    rows = {row["name"]: (row["count"], row["self_ms"]) for row in found["top_operators"]}
    # the first "fused" takes 600 ms, of which the compilation takes 500 ms
    assert rows == {"fused": (60, 59 * 490 + 100), "mul": (2 * 59 + 1, 59 * 110 + 10)}
    assert found["compile"]["operators"] == {"count": 2, "self_ms": 110}


def test_lost_names_are_counted_once(tmp_path, small):
    store = training(tmp_path)
    thread = store.processes[0].thread(2, "x", 4300)
    for number in range(200):
        thread.span(9999, Category.OP, number * MS, (number + 1) * MS)
    thinned = summary_of(store)
    assert thinned["completeness"]["missing_strings"] == 200
    assert thinned["top_operators"][0]["name"] == "(name lost)"
