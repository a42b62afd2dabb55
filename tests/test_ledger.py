import json

import pytest
from ascend_builder import AscendBuilder
from ms_profiler.analysis.driver import engine
from ms_profiler.analysis.driver.ledger import Ledger, read_summary
from ms_profiler.store import layout

TABLE = f"{layout.OUTPUT}/{layout.STEP_TRACE_TIME}"


def result(folder):
    builder = AscendBuilder(folder)
    builder.step(1, 0, 100)
    builder.kernel("a", 10, 30, launch=5)
    builder.exchange("hcom_allReduce__001_0_1", 20, 50, launch=6)
    return builder


def test_missing_tables_are_added_and_listed(tmp_path):
    path = result(tmp_path).text()
    engine.analyse([path])
    names = {layout.API_STATISTIC, layout.STEP_TRACE_TIME, layout.OP_STATISTIC, layout.OVERLAP_ANALYSIS}
    names.add(layout.PERFETTO_TRACE)
    derived = read_summary(str(path))["derived"]
    assert derived["written"].keys() == {f"{layout.OUTPUT}/{name}" for name in names}
    assert derived["kept"] == [f"{layout.OUTPUT}/{name}" for name in (layout.TRACE_VIEW, layout.KERNEL_DETAILS)]
    assert Ledger(str(path)).ours == derived["written"].keys()


def test_a_foreign_file_stays(tmp_path):
    path = result(tmp_path).text()
    (path / TABLE).write_text("theirs")
    engine.analyse([path])
    engine.analyse([path])
    assert (path / TABLE).read_text() == "theirs" and TABLE in read_summary(str(path))["derived"]["kept"]


def test_a_replaced_file_is_foreign(tmp_path):
    path = result(tmp_path).text()
    engine.analyse([path])
    (path / TABLE).write_text("theirs")
    engine.analyse([path])
    assert (path / TABLE).read_text() == "theirs"
    # the analysis writes missing files of its own again
    (path / layout.OUTPUT / layout.OP_STATISTIC).unlink()
    engine.analyse([path])
    assert (path / layout.OUTPUT / layout.OP_STATISTIC).exists()


def test_our_own_table_is_no_source(tmp_path):
    path = result(tmp_path).text(table=False)
    engine.analyse([path])
    table = path / layout.OUTPUT / layout.KERNEL_DETAILS
    first = table.read_bytes()
    trace = path / layout.OUTPUT / layout.TRACE_VIEW
    trace.write_text(trace.read_text().replace('"dur": 20', '"dur": 25'))
    engine.analyse([path])
    assert b",20.000," in first and b",25.000," in table.read_bytes()


@pytest.mark.parametrize("content", ['{"product": {"name": "other"}}', "[1]", "{", '{"product": "ms-profiler"}'])
def test_a_summary_of_another_tool_stays(tmp_path, content):
    path = result(tmp_path).text()
    (path / layout.SUMMARY).write_text(content)
    engine.analyse([path])
    assert (path / layout.SUMMARY).read_text() == content and read_summary(str(path)) is None
    assert (path / TABLE).exists()


def test_checksums_of_the_summary_are_verified(tmp_path):
    path = result(tmp_path).text()
    content = {"product": {"name": "ms-profiler"}, "derived": {"written": {f"{layout.OUTPUT}/trace_view.json": "0"}}}
    (path / layout.SUMMARY).write_text(json.dumps(content))
    assert Ledger(str(path)).ours == frozenset()


def test_elsewhere_everything_is_ours(tmp_path):
    path = result(tmp_path / "in").text()
    before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    (done,) = engine.analyse([path], output=str(tmp_path / "out"))
    assert {file: file.read_bytes() for file in path.rglob("*") if file.is_file()} == before
    target = tmp_path / "out" / path.name
    assert done.directory == str(target)
    names = {file.name for file in (target / layout.OUTPUT).iterdir()}
    assert {layout.TRACE_VIEW, layout.KERNEL_DETAILS, layout.STEP_TRACE_TIME, layout.OP_STATISTIC} <= names
    assert read_summary(str(target))["derived"]["kept"] == []
