"""Modules of a run: they add up, the heaviest is named, and so is the one that made a step slow."""

import importlib.util

import pytest
from conftest import PROGRAMS
from ms_profiler.analysis.catalogue import query
from ms_profiler.analysis.metrics import ownership
from ms_profiler.analysis.metrics.measures import measure
from ms_profiler.analysis.readers import store as reader
from ms_profiler.store.format import Category
from store_builder import MS, StoreBuilder

TORCH = {"name": "torch", "version": "2.13.0", "mode": "eager", "device": "CPU"}
PASSES = ("forward_ms", "backward_ms", "optimizer_ms")


@pytest.fixture(scope="module")
def heavy(launch):
    if importlib.util.find_spec("torch") is None:
        pytest.skip("needs PyTorch")
    run = launch(PROGRAMS / "planted_networks.py", "heavy", "12")
    assert run.code == 0, run.err
    return run


def test_the_heaviest_module_is_named_with_what_takes_most_of_it(heavy):
    """Of four like blocks the third is 30 times as wide as the others."""
    summary = heavy.summary
    rows = {row["module"]: row for row in summary["module_tree"]["rows"]}
    assert max(rows.values(), key=lambda row: (row["depth"] == 2, row["total_ms"]))["module"] == "Blocks.blocks.2"
    heaviest = max(rows.values(), key=lambda row: row["self_ms"] if not row["optimizer_ms"] else 0)["module"]
    assert heaviest.startswith("Blocks.blocks.2")
    if summary["finding"]["kind"] in ("forward", "backward"):
        assert f"; {heaviest} takes " in summary["verdict"] and "mostly aten::" in summary["verdict"]
    assert rows["Blocks.blocks.2.up"]["calls"] == summary["module_tree"]["steps"]
    assert rows["Blocks.blocks.2.up"]["backward_ms"] > 0 and rows["AdamW"]["backward_ms"] == 0
    assert rows["Blocks"]["inferred_ms"] > 0.5 * rows["Blocks"]["backward_ms"]


def test_modules_add_up_to_the_steps(heavy):
    tree = heavy.summary["module_tree"]
    rows, around = tree["rows"], []
    for row in rows:
        assert sum(row[name] for name in PASSES) == pytest.approx(row["total_ms"], abs=1e-5)
        del around[row["depth"] :]
        if around:
            around[-1]["inside"] += row["total_ms"]
        row["inside"] = 0.0
        around.append(row)
    for row in rows:
        assert row["total_ms"] == pytest.approx(row["self_ms"] + row["inside"], abs=1e-4), row["module"]
    roots = sum(row["total_ms"] for row in rows if row["depth"] == 0)
    assert roots + tree["outside_ms"] == pytest.approx(tree["whole_ms"], abs=1e-4)
    assert 0 <= tree["outside_share"] < 0.5


def test_sql_has_them_step_by_step(heavy):
    text = """select s.step, s.dur, sum(m.self) as own, max(m.total) as most from steps s
        join module_steps m on m.step = s.step group by s.step, s.dur"""
    table = query.ask([str(heavy.result)], text).table
    assert table.height == 12 and (table["own"] <= table["dur"]).all() and (table["most"] <= table["own"]).all()
    whole = query.ask([str(heavy.result)], "select sum(self) as own from modules").table["own"][0]
    steps = query.ask([str(heavy.result)], "select sum(self) as own from module_steps").table["own"][0]
    assert 0 < whole <= steps


def loop(tmp_path, slow):
    """Build 20 steps of 10 ms: a module that takes 2 ms, but for step 12, and one that always takes 3 ms."""
    store = StoreBuilder(tmp_path, framework=TORCH)
    thread, at = store.process().thread(), 50 * MS
    for number in range(20):
        length = slow if number == 12 else 2 * MS
        thread.span("Net", Category.MODULE, at, at + 4 * MS + length)
        thread.span("Net.a", Category.MODULE, at + MS // 2, at + MS // 2 + length)
        thread.span("Net.b", Category.MODULE, at + MS + length, at + 4 * MS + length)
        thread.span("SGD.step", Category.OPTIMIZER, at + 5 * MS + length, at + 6 * MS + length)
        thread.step(number, at, at + 8 * MS + length)
        at += 8 * MS + length
    return store.write()


def test_the_module_that_made_a_step_slow_is_named(tmp_path):
    measures = measure(reader.read(str(loop(tmp_path, 30 * MS))))
    found = ownership.slow_step(measures.ownership, measures.steady)
    assert (found.number, found.module) == (12, "Net.a")
    assert found.longer_ns == found.module_ns == 28 * MS


def test_of_equal_steps_none_is_slow(tmp_path):
    path = loop(tmp_path, 2 * MS)
    measures = measure(reader.read(str(path)))
    assert ownership.slow_step(measures.ownership, measures.steady) is None
    tree = measures.ownership.tree
    assert dict(tree.select("module", "self_ns").iter_rows()) == {
        "Net": 20 * MS,
        "Net.a": 40 * MS,
        "Net.b": 60 * MS,
        "SGD": 20 * MS,
    }
    assert measures.ownership.outside_ns == 60 * MS
