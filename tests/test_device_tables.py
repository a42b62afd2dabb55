"""The figures of further device records and of exported kernels are those computed by hand.

The run has two steps of 10 ms from 50 ms on. In each step, the main thread allocates 3 MiB and 1 MiB on the device and
frees the 1 MiB. It launches a kernel of 2 ms from an operator and waits 3 ms for the stream. Then it waits for all
streams.
"""

import json
import sqlite3

import perfetto_reader
import polars as pl
import pytest
from csv_rows import rows
from ms_profiler.analysis import catalogue
from ms_profiler.analysis.catalogue import query
from ms_profiler.analysis.driver import thinning
from ms_profiler.analysis.driver.engine import analyse, measured
from ms_profiler.analysis.readers import reservations
from ms_profiler.store.device_format import Device
from ms_profiler.store.format import Category
from store_builder import MS, RAW_NS, WALL_NS, StoreBuilder, folder_of

US = 1000
MIB = 2**20
TORCH = {"name": "torch", "version": "2.13.0", "mode": "eager", "device": "NVIDIA H200"}
EVERY_STREAM = 2**32 - 1


def reserve(thread, number, at, size, what, kind="device memory", device=0):
    """Record a call of 2 us that allocates or frees memory, and the memory record in its middle."""
    name = "cudaMalloc_v3020" if what == "allocate" else "cudaFree_v3020"
    thread.device(Device.API, name, at, at + 2 * US, number, thread=thread.native_tid)
    place = (device, EVERY_STREAM, 1, 0)
    thread.device(Device.MEMORY, kind, at + US, at + US, number, place=place, amount=size, detail=what)


def run(parent, **info):
    store = StoreBuilder(parent, framework=TORCH, **info)
    process = store.process()
    main = process.thread()
    for number in range(2):
        start, first = (50 + number * 10) * MS, 10 * number
        reserve(main, first + 1, start, 3 * MIB, "allocate")
        reserve(main, first + 2, start + 10 * US, MIB, "allocate")
        reserve(main, first + 3, start + 20 * US, MIB, "release")
        reserve(main, first + 4, start + 30 * US, 7 * MIB, "allocate", "pinned memory")
        main.span("aten::mm", Category.OP, start + MS, start + 2 * MS)
        main.launch("gemm", start + MS + 10 * US, start + 3 * MS, 2 * MS, first + 5)
        main.device(
            Device.API, "cudaStreamSynchronize_v3020", start + 2 * MS, start + 5 * MS, first + 6, thread=main.native_tid
        )
        main.device(Device.SYNC, "stream synchronize", start + 2 * MS, start + 5 * MS, first + 6, place=(0, 7, 1, 0))
        main.device(
            Device.SYNC, "context synchronize", start + 6 * MS, start + 6 * MS, 0, place=(0, EVERY_STREAM, 1, 0)
        )
        main.device(Device.SYNC, "stream waits for event", start + 7 * MS, start + 7 * MS, 0, place=(0, 7, 1, 0))
        main.step(number, start, start + 10 * MS)
    process.anchor(100 * MS)
    process.info.ended_ns = RAW_NS + 100 * MS
    return store


@pytest.fixture(scope="module")
def analysed(tmp_path_factory):
    """Return the directory of the run after an analysis with every export."""
    store = run(tmp_path_factory.mktemp("run"), options={"export_type": ["text", "kineto", "db"]})
    path = store.write()
    analyse([path], forms=["parquet"])
    return path


def table(path, name):
    return catalogue.named(name).of(measured(str(path)))


def test_waits(analysed):
    found = table(analysed, "waits")
    own = [("stream synchronize", 7, 3 * MS, number) for number in range(2)]
    assert found.filter(pl.col("dur") > 0).select("name", "stream", "dur", "step").rows() == own
    assert (
        found.filter(pl.col("dur") == 0).select("name", "stream", "thread").rows()
        == [("context synchronize", None, None), ("stream waits for event", 7, None)] * 2
    )
    assert found["thread"].drop_nulls().unique().to_list() == [4242]
    assert found["start"][0] == WALL_NS + 52 * MS


def test_reservations(analysed):
    found = table(analysed, "reservations")
    assert found.filter(step=1).select("name", "allocates", "bytes", "device", "thread").rows() == [
        ("device memory", True, 3 * MIB, 0, 4242),
        ("device memory", True, MIB, 0, 4242),
        ("device memory", False, MIB, 0, 4242),
        ("pinned memory", True, 7 * MIB, 0, 4242),
    ]
    assert found["time"][0] == WALL_NS + 50 * MS + US


def test_device_memory_is_in_the_memory_record(analysed):
    """The records have only the memory of the device: 3, 4, 3 MiB and so on.

    They do not say how much of it tensors hold.
    """
    found = rows(analysed, "memory_record")
    assert [row["Total Reserved(MB)"] for row in found] == ["3.0", "4.0", "3.0", "6.0", "7.0", "6.0"]
    assert {(row["Component"], row["Device Type"], row["Total Allocated(MB)"]) for row in found} == {
        ("CUDA", "GPU:0", "")
    }
    microseconds = (WALL_NS + 50 * MS + US) // 1000
    assert found[0]["Timestamp(us)"].startswith(str(microseconds))
    assert not (folder_of(analysed) / "operator_memory.csv").exists()


def test_memory_allocated_before_recording_counts_once_it_is_freed():
    """A device frees 5 MiB whose allocation was not recorded. The other device has no memory at the begin."""
    records = [(0, True, 3), (1, True, 2), (0, False, 8), (0, True, 4), (1, False, 2)]
    rows = pl.DataFrame(
        [
            {"device": device, "name": "device memory", "allocates": allocates, "bytes": size, "time_ns": place}
            for place, (device, allocates, size) in enumerate(records)
        ]
    )
    found = reservations.held(rows)
    assert found.filter(component="CUDA 0")["reserved"].to_list() == [8, 0, 4]
    assert found.filter(component="CUDA 1")["reserved"].to_list() == [2, 0]


def test_statistics_count_waits(analysed):
    apis = {(row["Level"], row["API Name"]): row for row in rows(analysed, "api_statistic")}
    wait = apis["wait", "stream synchronize"]
    assert (wait["Count"], wait["Time(us)"], wait["Avg(us)"]) == ("2", "6000.000", "3000.000")
    assert apis["cuda", "cudaMalloc"]["Count"] == "6"


def test_timelines_show_memory_and_kineto_waits(analysed):
    events = json.loads((folder_of(analysed) / "trace_view.json").read_text())
    counted = [event["args"]["value"] for event in events if event["ph"] == "C" and event["name"] == "CUDA memory"]
    assert counted == [size * MIB for size in (3, 4, 3, 6, 7, 6)]
    timeline = perfetto_reader.read(folder_of(analysed) / "trace.pftrace")
    memory = [value for track, _, value in timeline.counters if timeline.tracks[track].name == "CUDA memory"]
    assert memory == [size * MIB for size in (3, 4, 3, 6, 7, 6)]
    kineto = json.loads((analysed / "KINETO" / "kineto_trace_0.json").read_text())["traceEvents"]
    waits = [event for event in kineto if event.get("cat") == "cuda_sync"]
    assert [(event["name"], event["pid"], event["tid"], event["dur"]) for event in waits] == [
        ("Stream Sync", 0, 7, 3000.0),
        ("Context Sync", 0, -1, 0.0),
    ] * 2
    assert [event["args"]["cuda_sync_kind"] for event in waits[:2]] == ["Stream Sync", "Context Sync"]


def test_kernels_in_sql_and_parquet(analysed):
    kernels = [("gemm", "GPU", 7, 2 * MS, number) for number in range(2)]
    parquet = pl.read_parquet(analysed / "TABLES" / "kernels.parquet")
    assert parquet.select("name", "core", "stream", "dur", "step").rows() == kernels
    text = (
        "select k.name, core, stream, k.dur, k.step, s.name as operator, c.name as call from kernels k"
        " join spans s on s.id = k.span join calls c on c.start >= s.start and c.start < s.stop order by k.step"
    )
    answer = query.ask([str(analysed)], text).table
    assert answer.rows() == [(*kernel, "aten::mm", "cudaLaunchKernel") for kernel in kernels]
    assert {file.stem for file in (analysed / "TABLES").iterdir()} >= {"waits", "reservations", "calls", "kernels"}


def test_kernels_in_the_database(analysed):
    """The database connects a task with the driver's call, and with the operator by CONNECTION_IDS."""
    (path,) = folder_of(analysed).glob("ascend_*_profiler_0.db")
    with sqlite3.connect(path) as database:
        texts = "(select value from STRING_IDS where id = {})".format
        tasks = database.execute(
            f"select {texts('c.name')}, {texts('c.taskType')}, t.endNs - t.startNs, t.streamId, {texts('a.name')},"
            f" {texts('p.name')} from TASK t join COMPUTE_TASK_INFO c using (globalTaskId)"
            " join CANN_API a on a.connectionId = t.connectionId"
            " join CONNECTION_IDS i on i.connectionId = t.connectionId join PYTORCH_API p on p.connectionId = i.id"
        ).fetchall()
        assert tasks == [("gemm", "GPU", 2 * MS, 7, "cudaLaunchKernel", "aten::mm")] * 2
        memory = database.execute("select totalReserved from MEMORY_RECORD order by timestamp").fetchall()
        assert [size for (size,) in memory] == [size * MIB for size in (3, 4, 3, 6, 7, 6)]


def test_of_very_many_tasks_the_waits_of_some_steps_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(thinning, "TASKS", 1)
    path = run(tmp_path).write()
    measures = measured(str(path))
    assert measures.stream.detailed == [0, 1]
    assert measures.recording.device.waits.height == 2
    assert measures.recording.device.memory.height == 6
