"""Records of msPTI become the right tables, timelines, database and summary for a run on an NPU."""

import json
import sqlite3

import perfetto_reader
import pytest
from csv_rows import rows
from ms_profiler.analysis.driver.engine import analyse
from ms_profiler.analysis.metrics.communication import operation
from ms_profiler.analysis.metrics.measures import measure
from ms_profiler.analysis.model import tables
from ms_profiler.analysis.readers import store as reader
from ms_profiler.analysis.readers.device_sources import SOURCES
from ms_profiler.store.device_format import Device, Source
from ms_profiler.store.format import Category
from store_builder import MS, WALL_NS, StoreBuilder, folder_of

US = 1000
MINDSPORE = {"name": "mindspore", "version": "2.10.0", "mode": "pynative", "device": "Ascend"}
GROUP = "hccl_world_group"


def npu(parent, *, called=False, **info):
    """Build a run of two steps of 10 ms with two kernels and an exchange of 64 KB each.

    Args:
        parent: the parent of the result.
        called: whether the host has a span of the exchange, too; that span counts 4 KB.
        info: fields of the run's record.
    """
    store = StoreBuilder(parent, framework=MINDSPORE, **info)
    process = store.process()
    thread = process.thread()
    for number in range(2):
        start = 50 * MS + number * 10 * MS
        origin = {"source": Source.MSPTI}

        def ran(kind, name, call, at, length, number, stream=7, origin=origin, **more):
            by = {"thread": thread.native_tid, **origin}
            thread.device(Device.API, call, at, at + US, number, **by)
            place = (0, stream, 0, 0)
            thread.device(kind, name, at + 2 * MS, at + 2 * MS + length, number, place=place, **origin, **more)

        thread.span("forward", Category.FORWARD, start, start + 4 * MS)
        thread.span("Net.fc", Category.MODULE, start, start + 4 * MS)
        thread.span("MatMul", Category.OP, start + MS, start + 3 * MS)
        ran(Device.KERNEL, "MatMulV2", "aclnnMm", start + MS, 2 * MS, 10 * number + 1, detail="KERNEL_AICORE")
        ran(Device.KERNEL, "Add", "aclnnAdd", start + 5 * MS, MS, 10 * number + 2, detail="KERNEL_AIVEC")
        if called:
            thread.span(f"AllReduce@{GROUP}", Category.COMMUNICATION, start + 5 * MS, start + 7 * MS, arg=4096)
        exchange = {"amount": 65536, "detail": GROUP, "stream": 20}
        name = f"hcom_allReduce__868_{number}_1"
        ran(Device.COMMUNICATION, name, "HcclAllReduce", start + 6 * MS, MS, 10 * number + 3, **exchange)
        thread.step(number, start, start + 10 * MS)
    process.anchor(100 * MS)
    return store


@pytest.fixture(scope="module")
def analysed(tmp_path_factory):
    """Return the directory of such a run after its analysis in all forms."""
    path = npu(tmp_path_factory.mktemp("npu"), options={"export_type": ["text", "db", "kineto"]}).write()
    analyse([path])
    return path


def test_tables(analysed):
    kernels = rows(analysed, "kernel_details")
    columns = ("Step ID", "Stream ID", "Name", "Accelerator Core", "Duration(us)", "Module")
    assert [tuple(row[column] for column in columns) for row in kernels] == [
        ("0", "7", "MatMulV2", "AI_CORE", "2000.000", "Net.fc"),
        ("0", "7", "Add", "AI_VECTOR_CORE", "1000.000", "N/A"),
        ("1", "7", "MatMulV2", "AI_CORE", "2000.000", "Net.fc"),
        ("1", "7", "Add", "AI_VECTOR_CORE", "1000.000", "N/A"),
        ("0", "20", "hcom_allReduce__868_0_1", "HCCL", "1000.000", "N/A"),
        ("1", "20", "hcom_allReduce__868_1_1", "HCCL", "1000.000", "N/A"),
    ]
    statistic = [
        (row["OP Type"], row["Core Type"], row["Count"], row["Device_id"]) for row in rows(analysed, "op_statistic")
    ]
    assert statistic == [("MatMulV2", "AI_CORE", "2", "0"), ("Add", "AI_VECTOR_CORE", "2", "0")]
    # Kernels run from 3 to 5 and from 7 to 8 ms, an exchange from 8 to 9 ms. The free time up to 13 ms belongs to the
    # first step.
    names = ("Computing", "Communication", "Overlapped", "Free", "Stage", "Preparing")
    assert [[float(row[name]) for name in names] for row in rows(analysed, "step_trace_time")] == [
        [3000, 1000, 0, 6000, 10000, 3000],
        [3000, 1000, 0, 2000, 6000, 3000],
    ]
    apis = {(row["Level"], row["API Name"]): row["Count"] for row in rows(analysed, "api_statistic")}
    assert {name for level, name in apis if level == "cann"} == {"aclnnMm", "aclnnAdd", "HcclAllReduce"}
    communication = json.loads((folder_of(analysed) / "communication.json").read_text())
    (name,) = [name for name in communication["step0"]["collective"] if not name.startswith("Total")]
    assert name.startswith("hcom_allReduce__") and name.endswith(f"_0_1@{GROUP}")
    entry = communication["step0"]["collective"][name]
    assert entry["Communication Time Info"]["Elapse Time(ms)"] == 1.0
    sizes = [link["Transit Size(MB)"] for link in entry["Communication Bandwidth Info"].values()]
    assert max(sizes) == 0.065536


def test_summary(analysed):
    summary = json.loads((analysed / "summary.json").read_text())
    device = summary["device"]
    assert (device["form"], device["files"], device["tasks"], device["exchanges"], device["streams"]) == (
        "mspti",
        ["msPTI"],
        6,
        2,
        2,
    )
    assert summary["sources"]["kernel_details"] == "msPTI"
    assert summary["completeness"]["unknown"] == 0


def test_timelines_and_database(analysed):
    events = json.loads((folder_of(analysed) / "trace_view.json").read_text())
    names = {event["args"]["name"]: event["pid"] for event in events if event.get("name") == "process_name"}
    drawn = [event for event in events if event["ph"] == "X" and event["pid"] == names["Ascend Hardware"]]
    assert len(drawn) == 6
    timeline = perfetto_reader.read(folder_of(analysed) / "trace.pftrace")
    assert {timeline.lane(piece.track)[0] for piece in timeline.slices if piece.name == "MatMulV2"} == {
        "Ascend Hardware"
    }
    (file,) = folder_of(analysed).glob("ascend_mindspore_profiler*.db")
    with sqlite3.connect(file) as connection:
        assert connection.execute("SELECT count(*) FROM COMPUTE_TASK_INFO").fetchone() == (4,)
        assert connection.execute("SELECT count(*) FROM COMMUNICATION_OP").fetchone() == (2,)
    kineto = json.loads((analysed / "KINETO" / "kineto_trace_0.json").read_text())["traceEvents"]
    assert len([event for event in kineto if event.get("cat") == "privateuse1_runtime"]) == 6
    assert {event["args"]["name"] for event in kineto if event["name"] == "process_name" and event["pid"] == 0} >= {
        "NPU 0"
    }


def test_an_exchange_that_the_script_called_is_counted_once(tmp_path):
    measures = measure(reader.read(str(npu(tmp_path, called=True).write())))
    assert measures.recording.device.form == tables.Form.MSPTI
    found = measures.calls.select("operation", "group", "bytes", "start_ns").rows()
    assert found == [
        ("AllReduce", GROUP, 4096, WALL_NS + 58 * MS),
        ("AllReduce", GROUP, 4096, WALL_NS + 68 * MS),
    ]


@pytest.mark.parametrize(
    ("kernel", "does"),
    [
        ("hcom_allReduce__868_0_1", "AllReduce"),
        ("HcclReduceScatter", "ReduceScatter"),
        ("hcom_alltoallvc_", "AllToAll"),
        ("something else", "something else"),
    ],
)
def test_names_of_exchanges_are_those_of_the_tables(kernel, does):
    assert operation(kernel) == does


def test_records_of_an_unknown_interface_are_reported(tmp_path):
    store = npu(tmp_path)
    store.processes[0].thread(2, "later", 4300).device(Device.KERNEL, "later", MS, 2 * MS, 1, source=77)
    recording = reader.read(str(store.write()))
    assert "later" not in recording.device.tasks["name"].to_list()
    assert recording.info.not_collected[-1]["what"] == "1 records of a device"


def test_every_interface_has_its_words():
    assert set(SOURCES) == set(Source)
