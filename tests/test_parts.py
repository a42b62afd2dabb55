import polars as pl
import pytest
from ms_profiler.analysis.catalogue import query
from ms_profiler.analysis.driver import engine, sections
from ms_profiler.analysis.readers import store as readers_store
from ms_profiler.store import layout
from ms_profiler.store.format import Category, Flag
from store_builder import StoreBuilder
from test_sections import operators
from test_thinning import nested, small  # noqa: F401 - a fixture

EVERYTHING = """
select s.name, s.category, s.process, s.thread, s.start, s.stop, s.dur, s.self, s.step, s.depth,
  p.name as parent, p.start as parent_start, s.raised, s.abandoned, s.unfinished
from spans s left join spans p on s.parent = p.id
"""


def crossing(parent):
    """Add spans to `nested` that begin in one section and end many sections later, and a span without an end."""
    store = nested(parent, steps=60, seed=7)
    thread = store.processes[0].thread(3, "long", 4400)
    thread.span("run", Category.RUN, 2, 590_000)
    thread.span("Trunk", Category.MODULE, 10, 430_000, flags=Flag.RAISED)
    for number in range(60):
        begin = 100 + number * 9_800
        thread.span("Branch", Category.MODULE, begin, begin + 21_000)
        thread.span("reduce", Category.COMMUNICATION, begin + 7, begin + 900)
        thread.span("aten::add", Category.OP, begin + 5, begin + 19_000)
    thread.open("never", Category.MODULE, 300_000)
    return store


def rows(path):
    table = query.ask([str(path)], EVERYTHING).table
    return table.sort(pl.all()).rows()


@pytest.mark.parametrize("build", [crossing, nested, operators])
@pytest.mark.parametrize("many", [40, pytest.param(500, marks=pytest.mark.slow), 10**6])
def test_a_run_read_in_parts_has_every_span(tmp_path, small, monkeypatch, build, many):  # noqa: F811
    path = build(tmp_path).write()
    monkeypatch.setattr(sections, "MOST", many)
    found = rows(path)
    monkeypatch.setattr(readers_store, "MOST_SLOTS", 10**9)
    held = rows(path)
    assert len(found) == len(held) > 1000
    assert found == held


def test_those_of_chosen_steps(tmp_path, small, monkeypatch):  # noqa: F811
    monkeypatch.setattr(sections, "MOST", 300)
    path = operators(tmp_path).write()
    counted = []
    for most in (100, 10**9):
        monkeypatch.setattr(readers_store, "MOST_SLOTS", most)
        engine.analyse([path], forms=["parquet"], step_list=[11, 12, 13])
        table = pl.read_parquet(path / layout.TABLES / "spans.parquet")
        assert table["step"].unique().sort().to_list() == [11, 12, 13]
        counted.append(table.drop("id", "parent").sort(pl.all()))
    assert counted[0].equals(counted[1]) and counted[0].height == 3 * 87


def test_they_are_exported_and_summed_up(tmp_path, small, monkeypatch):  # noqa: F811
    monkeypatch.setattr(sections, "MOST", 500)
    path = crossing(tmp_path).write()
    engine.analyse([path], forms=["parquet"])
    file = path / layout.TABLES / "spans.parquet"
    table, first = pl.read_parquet(file), file.read_bytes()
    assert table["id"].sort().to_list() == list(range(table.height))
    summed = table.group_by("name", "category").agg(pl.len(), pl.col("dur").sum()).sort("name", "category")
    text = "select name, category, count(*) as len, sum(dur) as dur from spans group by name, category"
    answer = query.ask([str(path)], text)
    assert answer.notes == [] and answer.table.sort("name", "category").rows() == summed.rows()
    sums = query.ask([str(path)], "select name, category, count, total from span_sums").table
    # An operator whose only content is an operator of the same name counts once with it.
    other = pl.col("category") != "op"
    assert sums.sort("name", "category").filter(other).rows() == summed.filter(other).rows()
    own = query.ask([str(path)], "select sum(self) as own from spans where category = 'op'").table["own"][0]
    assert own == query.ask([str(path)], "select sum(self) as own from span_sums where category = 'op'").table["own"][0]
    assert query.ask([str(path)], "select id from spans limit 7").table.height == 7
    engine.analyse([path], forms=["parquet"])
    assert file.read_bytes() == first


def test_of_several_runs(tmp_path, small):  # noqa: F811
    paths = [operators(tmp_path / name).write() for name in ("a", "b")]
    StoreBuilder(tmp_path / "c")
    answer = query.ask(list(map(str, paths)), "select count(*) as n from spans where name = 'Net'")
    assert answer.table.rows() == [(80,)]
