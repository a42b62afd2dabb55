import polars as pl
import pytest
from ms_profiler.analysis import catalogue
from ms_profiler.analysis.catalogue import query
from ms_profiler.analysis.driver.engine import measured
from ms_profiler.store.format import Category, Flag
from store_builder import BACKWARD, FORWARD, MS, UPDATE, WALL_NS, StoreBuilder, compiled, training

NAMES = [table.name for table in catalogue.TABLES]


def rows(store, name, **options):
    table = catalogue.named(name)
    assert table is not None
    return table.of(measured(str(store.write()), **options))


@pytest.fixture
def store(tmp_path):
    return StoreBuilder(tmp_path)


@pytest.mark.parametrize("name", NAMES)
def test_every_table_has_its_columns_with_and_without_rows(tmp_path, name):
    table = catalogue.named(name)
    empty = StoreBuilder(tmp_path, name="empty_1_20260101000000123_ascend_ms")
    empty.process().anchor(MS)
    for store in (empty, compiled(tmp_path)):
        assert rows(store, name).schema == table.schema


@pytest.mark.parametrize("name", NAMES)
def test_no_column_needs_quotes(tmp_path, name):
    path = str(training(tmp_path, steps=1).write())
    columns = [column.name for column in (*query.RUN, *catalogue.named(name).columns)]
    # Each column but the first follows another column, where SQL would read a reserved word as something else.
    found = query.ask([path], f"select {', '.join(columns)} from {name} where {columns[-1]} is not null").table
    assert found.columns == columns


def test_spans(store):
    process = store.process(state="running", end="")
    thread = process.thread()
    thread.span("outer", Category.MODULE, 0, 10 * MS)
    thread.span("inner", Category.MODULE, MS, 4 * MS, flags=Flag.RAISED)
    thread.open("hangs", Category.DATA, 11 * MS)
    thread.step(7, 0, 10 * MS)
    outer, inner, hangs = rows(store, "spans").rows(named=True)
    assert outer == {
        "id": 0,
        "name": "outer",
        "category": "module",
        "process": 4242,
        "thread": 4242,
        "start": WALL_NS,
        "stop": WALL_NS + 10 * MS,
        "dur": 10 * MS,
        "self": 7 * MS,
        "step": 7,
        "depth": 0,
        "parent": None,
        "shapes": None,
        "raised": False,
        "abandoned": False,
        "unfinished": False,
    }
    assert (inner["parent"], inner["depth"], inner["dur"], inner["self"], inner["raised"]) == (
        0,
        1,
        3 * MS,
        3 * MS,
        True,
    )
    assert (hangs["unfinished"], hangs["step"]) == (True, None)


def test_ids_hold_where_steps_are_chosen(store):
    thread = store.process().thread()
    for number in range(3):
        start = number * 10 * MS
        thread.span(f"outer {number}", Category.MODULE, start, start + 5 * MS)
        thread.span(f"inner {number}", Category.MODULE, start + MS, start + 2 * MS)
        thread.span("MatMul", Category.OP, start + 3 * MS, start + 4 * MS)
        thread.step(number, start, start + 10 * MS)
    thread.window(0, 0, 30 * MS, [("MatMul", number * 10 * MS + 3 * MS + 100, 10, "") for number in range(3)])
    spans, kernels = rows(store, "spans", chosen=[1]), rows(store, "kernels", chosen=[1])
    names = dict(spans.select("id", "name").iter_rows())
    parents = {row["name"]: names.get(row["parent"]) for row in spans.rows(named=True)}
    assert parents == {"outer 1": None, "inner 1": "outer 1", "MatMul": None}
    assert [names[span] for span in kernels["span"]] == ["MatMul"]


def test_kernels(tmp_path):
    found = rows(compiled(tmp_path, steps=2, windows=1), "kernels").rows(named=True)
    assert [row["name"] for row in found] == [FORWARD, BACKWARD, UPDATE] * 2
    assert found[4] == {
        "name": BACKWARD,
        "type": "MatMul",
        "core": "HOST_CPU",
        "process": 4242,
        "stream": 0,
        "start": WALL_NS + 64 * MS,
        "stop": WALL_NS + 67 * MS,
        "dur": 3 * MS,
        "wait": 0,
        "launch": None,
        "step": 1,
        "module": "network._backbone.fc",
        "part": "backward",
        "bound": "module",
        "shapes": "4,8;8,8",
        "span": None,
    }


def test_steps_and_their_pieces_add_up(tmp_path):
    store = training(tmp_path, steps=3)
    steps = dict(rows(store, "steps").select("step", "dur").iter_rows())
    assert steps == {0: 110 * MS, 1: 10 * MS, 2: 10 * MS}
    for name in ("phases", "states"):
        assert dict(rows(store, name).group_by("step").agg(pl.col("dur").sum()).iter_rows()) == steps
    phases = rows(store, "phases").filter(step=1).group_by("phase").agg(pl.col("dur").sum())
    assert dict(phases.iter_rows())["data"] == 3 * MS


def test_instants_counters_processes_and_threads(store):
    thread = store.process().thread()
    thread.span("work", Category.DATA, 0, 10 * MS)
    thread.instant("mark", Category.MARKER, 4 * MS)
    thread.counter("rss", 5 * MS, 1.5)
    (mark,) = rows(store, "instants").rows(named=True)
    assert (mark["name"], mark["category"], mark["time"]) == ("mark", "marker", WALL_NS + 4 * MS)
    (counter,) = rows(store, "counters").rows(named=True)
    assert counter == {"name": "rss", "process": 4242, "thread": 4242, "time": WALL_NS + 5 * MS, "value": 1.5}
    (process,) = rows(store, "processes").rows(named=True)
    assert (process["process"], process["role"], process["recorder"]) == (4242, "main", "native")
    assert rows(store, "threads").rows() == [(4242, 4242, "MainThread")]


def test_a_thread_whose_number_is_not_known_has_none(store):
    store.process().thread(native_tid=0).span("work", Category.DATA, 0, MS)
    assert rows(store, "spans")["thread"].to_list() == [None]


def test_exchanges(tmp_path):
    store = training(tmp_path, steps=2)
    store.processes[0].thread(2, "x", 4300).span(
        "AllReduce@world", Category.COMMUNICATION, 161 * MS, 162 * MS, arg=4096
    )
    (call,) = rows(store, "communication").rows(named=True)
    assert (call["name"], call["ranks"], call["bytes"], call["step"], call["dur"]) == (
        "AllReduce",
        "world",
        4096,
        1,
        MS,
    )


def test_sums_are_those_of_the_rows(tmp_path):
    store = compiled(tmp_path)
    store.processes[0].thread(2, "x", 4300).span("next", Category.DATA, 0, 3 * MS)
    by = {"span_sums": ("spans", ["name", "category"]), "kernel_sums": ("kernels", ["name", "type", "module", "part"])}
    for sums, (table, keys) in by.items():
        expected = (
            rows(store, table)
            .group_by(keys)
            .agg(
                pl.len().cast(pl.UInt64).alias("count"),
                pl.col("dur").sum().alias("total"),
                pl.col("dur").min().alias("min"),
                pl.col("dur").max().alias("max"),
            )
        )
        columns = [*keys, "count", "total", "min", "max"]
        assert rows(store, sums).select(columns).sort(keys).equals(expected.sort(keys))
