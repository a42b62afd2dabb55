import polars as pl
import pytest
from ms_profiler.analysis.metrics import dataset, operators
from ms_profiler.analysis.model import tables
from ms_profiler.analysis.readers import store as readers_store
from ms_profiler.store.format import Category
from store_builder import StoreBuilder


@pytest.fixture
def store(tmp_path):
    return StoreBuilder(tmp_path)


def sums(store, category):
    recording = readers_store.read(str(store.write()))
    return operators.by_name(operators.sum_up(operators.self_times(recording.spans)), recording.names, category)


def test_self_time_excludes_spans_inside(store):
    thread = store.process().thread()
    thread.span("net", Category.MODULE, 0, 100)
    thread.span("block", Category.MODULE, 10, 60)
    thread.span("dense", Category.MODULE, 20, 30)
    thread.span("dense", Category.MODULE, 40, 55)
    thread.span("matmul", Category.OP, 21, 29)
    rows = sums(store, Category.MODULE).select("name", "count", "total_ns", "self_ns", "max_ns").rows()
    assert rows == [("net", 1, 100, 50, 100), ("block", 1, 50, 25, 50), ("dense", 2, 25, 25, 15)]


def test_self_times_add_up_to_the_outermost_spans(store):
    thread = store.process().thread()
    for start in range(0, 1000, 100):
        thread.span("outer", Category.OP, start, start + 90)
        thread.span("inner", Category.OP, start + 5, start + 45)
        thread.span("inner", Category.OP, start + 45, start + 85)
    assert sums(store, Category.OP)["self_ns"].sum() == 10 * 90


def test_operator_inside_a_module_takes_nothing_from_it(store):
    thread = store.process().thread()
    thread.span("net", Category.MODULE, 0, 100)
    thread.span("matmul", Category.OP, 10, 90)
    assert sums(store, Category.MODULE)["self_ns"].to_list() == [100]


def test_span_that_leaves_its_parent_counts_only_inside_it(store):
    thread = store.process().thread()
    thread.span("a", Category.OP, 0, 50)
    thread.span("b", Category.OP, 30, 80)
    assert dict(sums(store, Category.OP).select("name", "self_ns").iter_rows()) == {"a": 30, "b": 50}


def test_self_time_of_an_operator_excludes_regions_and_calls(store):
    """An operator's self time lacks the regions and runtime calls inside it.

    The operators around it are not reduced again.
    """
    thread = store.process().thread()
    thread.span("CubeBackward", Category.OP, 0, 100)
    thread.span("own", Category.MARKER, 10, 60)
    thread.span("aten::mul", Category.OP, 20, 50)
    recording = readers_store.read(str(store.write()))
    start = recording.spans["start_ns"].min()
    calls = pl.DataFrame({"process": [recording.spans["process"][0]], "thread": [recording.spans["thread"][0]]})
    calls = calls.with_columns(start_ns=pl.lit(start + 25), end_ns=pl.lit(start + 35))
    found = operators.self_times(recording.spans, calls)
    own = dict(zip(recording.names.gather(found["name"]), found["self_ns"], strict=True))
    assert own == {"CubeBackward": 50, "aten::mul": 20, "own": 50}


def test_an_operator_that_is_all_there_is_in_one_of_its_name_is_the_same_call(store):
    thread = store.process().thread()
    thread.span("div_", Category.OP, 0, 100)
    thread.span("div_", Category.OP, 10, 90)
    thread.span("div_", Category.OP, 20, 80)
    thread.span("fill_", Category.OP, 30, 50)
    thread.span("mul", Category.OP, 200, 300)
    thread.span("mul", Category.OP, 210, 250)
    thread.span("to", Category.OP, 250, 260)
    rows = sums(store, Category.OP).select("name", "count", "total_ns", "self_ns", "max_ns").rows()
    assert rows == [
        ("mul", 2, 140, 90, 100),
        ("div_", 1, 100, 80, 100),
        ("fill_", 1, 20, 20, 20),
        ("to", 1, 10, 10, 10),
    ]


def test_list_is_in_milliseconds_and_limited(store):
    thread = store.process().thread()
    for number in range(30):
        thread.span(f"op{number}", Category.OP, number * 1000, number * 1000 + 500 + number)
    top = operators.top(sums(store, Category.OP))
    assert len(top) == operators.TOP
    assert top[0] == {
        "name": "op29",
        "count": 1,
        "total_ms": 0.000529,
        "self_ms": 0.000529,
        "average_ms": 0.000529,
        "max_ms": 0.000529,
        "scaled": False,
        "count_error": None,
        "total_ms_error": None,
    }


def test_data_operations(store):
    thread = store.process().thread()
    thread.span("next", Category.DATA, 0, 100)
    thread.span("next", Category.DATA, 200, 500)
    thread.span("map", Category.DATA, 210, 260)
    thread.span("forward", Category.FORWARD, 600, 900)
    recording = readers_store.read(str(store.write()))
    assert dataset.waits(recording.spans, recording.names).rows() == [("next", 2, 400, 300), ("map", 1, 50, 50)]


def test_calls_of_a_driver_by_level():
    rows = [("node", "launch", 0, 10, 1), ("node", "launch", 20, 50, 1), ("acl", "launch", 0, 5, 1)]
    calls = pl.DataFrame(rows, schema=tables.DRIVER_CALLS, orient="row")
    assert operators.by_level(calls).sort("level").rows() == [
        ("acl", "launch", 1, 5, 5, 5, 25),
        ("node", "launch", 2, 40, 10, 30, 1000),
    ]
