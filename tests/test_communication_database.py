import sqlite3

import pytest
from ascend_builder import exchanging
from ms_profiler.analysis.driver import engine
from ms_profiler.analysis.metrics import group_numbers
from ms_profiler.store import layout
from ms_profiler.store.format import Category
from store_builder import MS, ThreadBuilder, compiled, folder_of


def rows(path, columns, table):
    connection = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    try:
        return connection.execute(f"SELECT {columns} FROM {table}").fetchall()
    finally:
        connection.close()


def test_torch_npu_adds_links_up(tmp_path):
    path = exchanging(tmp_path).text()
    engine.analyse([path], forms=["db"])
    database = path / layout.OUTPUT / layout.TORCH_COMMUNICATION_DB
    times = rows(
        database, "hccl_op_name, group_name, elapse_time, transit_time, wait_time, step, type", "CommAnalyzerTime"
    )
    assert times == [("hcom_allReduce__077_0_1", "77", 0.03, 0.013, 0.006, "step7", "collective")]
    bands = rows(
        database,
        "transport_type, transit_size, bandwidth, large_packet_ratio, package_size, count, total_duration",
        "CommAnalyzerBandwidth ORDER BY 1, 5",
    )
    assert bands == [
        ("HCCS", 44.0, 1913.0435, 0.3333, 2.0, 2, 0.013),
        ("HCCS", 44.0, 1913.0435, 0.3333, 40.0, 1, 0.01),
        ("SDMA", 44.0, 1913.0435, 0, 0, 0, 0),
    ]
    links = rows(
        database,
        "src_rank, dst_rank, transport_type, transit_size, transit_time, bandwidth, op_name",
        "CommAnalyzerMatrix WHERE hccl_op_name = 'allreduce-top1' ORDER BY 2",
    )
    assert links == [
        ("0", "0", "LOCAL", 1.0, 0.001, 1000.0, "hcom_allReduce__077_0_1"),
        ("0", "1", "HCCS", 4.0, 0.013, 307.6923, "hcom_allReduce__077_0_1"),
        ("0", "2", "HCCS", 40.0, 0.01, 4000.0, "hcom_allReduce__077_0_1"),
    ]
    assert len(rows(database, "*", "CommAnalyzerMatrix")) == 6 * 3
    (step,) = rows(database, "step, computing, communication, overlapped, free", "StepTraceTime")
    # the device computes from 10 to 30 and communicates from 20 to 50; its step starts with its first task
    assert step == ("7", 20.0, 30.0, 10.0, 0.0)


def test_mindspore_leaves_links_as_they_are(tmp_path):
    path = exchanging(tmp_path, "_ascend_ms").text()
    engine.analyse([path], forms=["db"])
    database = path / layout.OUTPUT / layout.COMMUNICATION_DB
    links = rows(database, "hccl_op_name, src_rank, dst_rank, transit_size", "CommAnalyzerMatrix ORDER BY 3")
    assert links == [("hcom_allReduce__077_0_1", "0", str(rank), size) for rank, size in enumerate((1.0, 4.0, 40.0))]


def test_our_own_exchanges_go_by_the_number_of_their_group(tmp_path):
    store = compiled(tmp_path, steps=2, windows=1, options={"export_type": ["db"]})
    thread = ThreadBuilder(store.processes[0], 1, "MainThread", 4242)
    thread.span("AllReduce@ab", Category.COMMUNICATION, 59 * MS, 59 * MS + MS // 2, arg=4_000_000)
    path = store.write()
    engine.analyse([path])
    database = folder_of(path) / layout.COMMUNICATION_DB
    # two hashes of the text "ab": 97 * 29 + 98 and 97 * 131 + 98
    number = str((97 * 29 + 98) * 2**32 + 97 * 131 + 98)
    assert rows(database, "group_name, elapse_time, step", "CommAnalyzerTime") == [(number, 0.5, "step0")]
    assert rows(database, "transport_type, transit_size", "CommAnalyzerBandwidth") == [("TCP", 4.0)]
    assert [row[0] for row in rows(database, "step", "StepTraceTime")] == ["0", "1"]


@pytest.mark.parametrize("name", ["0", "17148521525495523210"])
def test_an_unknown_group_is_its_own_number(name):
    assert group_numbers.number(name) == name
