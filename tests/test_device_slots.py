"""Kernels in device slots are assigned to their launches, with all numbers, clocks and windows."""

import json
import random

import perfetto_reader
import polars as pl
import pytest
from csv_rows import rows
from ms_profiler.analysis.driver import thinning
from ms_profiler.analysis.driver.engine import analyse
from ms_profiler.analysis.metrics import device_steps, intervals
from ms_profiler.analysis.metrics.measures import measure
from ms_profiler.analysis.model import tables
from ms_profiler.analysis.readers import store as reader
from ms_profiler.analysis.streams import device
from ms_profiler.store.device_format import Device
from ms_profiler.store.format import Category, Flag, Kind
from polars.testing import assert_frame_equal
from store_builder import MS, RAW_NS, WALL_NS, StoreBuilder, folder_of

US = 1000
TORCH = {"name": "torch", "version": "2.13.0", "mode": "eager", "device": "NVIDIA H200"}
NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"


def gpu(parent, **info):
    """Build a run of three steps of 10 ms, each with a forward kernel of a module, a backward kernel and an exchange.

    The other thread launches the backward kernel.
    """
    store = StoreBuilder(parent, framework=TORCH, **info)
    process = store.process()
    main, other = process.thread(), process.thread(2, "autograd", 4300)
    for number in range(3):
        start = 50 * MS + number * 10 * MS
        main.span("forward", Category.FORWARD, start, start + 4 * MS)
        main.span("Net.fc", Category.MODULE, start, start + 4 * MS)
        main.span("aten::linear", Category.OP, start + MS, start + 3 * MS)
        main.span("aten::addmm", Category.OP, start + MS + 10 * US, start + 2 * MS)
        main.launch("_Z4gemmPfi", start + MS + 20 * US, start + 4 * MS, 2 * MS, 10 * number + 1)
        other.span("AddmmBackward0", Category.OP, start + 5 * MS, start + 6 * MS)
        other.launch("dgrad", start + 5 * MS + 20 * US, start + 6 * MS, 3 * MS, 10 * number + 2)
        main.span("AllReduce@world", Category.COMMUNICATION, start + 6 * MS, start + 7 * MS, arg=4096)
        main.span("nccl:all_reduce", Category.OP, start + 6 * MS + 5 * US, start + 7 * MS - 5 * US)
        main.launch(NCCL, start + 6 * MS + 20 * US, start + 8 * MS, 2 * MS, 10 * number + 3, stream=20)
        main.step(number, start, start + 10 * MS)
    process.anchor(100 * MS)
    process.info.ended_ns = RAW_NS + 100 * MS
    return store


def read(store):
    return reader.read(str(store.write()))


def test_a_kernel_belongs_to_the_call_that_launched_it(tmp_path):
    device = read(gpu(tmp_path)).device
    assert device.form == tables.Form.CUPTI
    first = device.tasks.row(0, named=True)
    assert (first["name"], first["stream"], first["core"], first["exchange"]) == ("gemm(float*, int)", 7, "GPU", False)
    assert first["start_ns"] == WALL_NS + 54 * MS
    assert first["launch_ns"] == first["driver_ns"] == WALL_NS + 51 * MS + 20 * US
    assert device.launches.row(0, named=True) == {
        "thread": 1,
        "correlation": 1,
        "device": 0,
        "context": 1,
        "graph": 0,
        "amount": 8,
        "bytes": None,
    }
    assert device.launches["thread"].to_list() == [1, 2, 1] * 3
    assert device.calls["name"].unique().to_list() == ["cudaLaunchKernel"]


def test_of_several_calls_with_a_number_the_latest_before_the_kernel_counts(tmp_path):
    store = StoreBuilder(tmp_path, framework=TORCH)
    thread = store.process().thread()
    for number in range(3):
        thread.launch("again", number * 10 * MS, number * 10 * MS + 5 * MS, MS, 2**32 - 1)
    thread.launch("wrapped", 40 * MS, 40 * MS + 5 * US, MS, 0)
    tasks = read(store).device.tasks
    assert tasks["launch_ns"].to_list() == [WALL_NS + at * MS for at in (0, 10, 20, 40)]


def test_a_kernel_that_seems_to_begin_before_its_launch(tmp_path):
    store = StoreBuilder(tmp_path, framework=TORCH)
    thread = store.process().thread()
    thread.launch("early", 10 * MS, 10 * MS - 300, MS, 5)
    assert read(store).device.tasks["launch_ns"].to_list() == [WALL_NS + 10 * MS]


def test_a_kernel_without_its_call_stays(tmp_path):
    store = StoreBuilder(tmp_path, framework=TORCH)
    thread = store.process().thread()
    thread.device(Device.KERNEL, "", 10 * MS, 11 * MS, 5, place=(0, 2**32 - 1, 1, 3))
    recording = read(store)
    assert recording.device.tasks.select("name", "launch_ns", "stream").rows() == [
        ("(kernel without a name)", None, 2**32 - 1)
    ]
    assert recording.device.launches["graph"].to_list() == [3]
    assert measure(recording).stream.table["launch"].to_list() == [None]


def test_records_that_are_not_whole_are_left_out(tmp_path):
    store = StoreBuilder(tmp_path, framework=TORCH)
    thread = store.process().thread()
    thread.segment.add(Kind.DEVICE_PLACE, 1, 1, 1, 0, Device.KERNEL)
    thread.launch("whole", MS, 2 * MS, MS, 5)
    recording = read(store)
    assert recording.device.tasks["name"].to_list() == ["whole"]
    assert recording.counts.unknown == recording.counts.torn == 0


def test_several_devices_have_lanes_of_their_own(tmp_path):
    store = StoreBuilder(tmp_path, framework=TORCH)
    thread = store.process().thread()
    for number in range(2):
        thread.launch("kernel", MS, 2 * MS, MS, number, device=number)
    assert read(store).device.tasks["stream"].to_list() == [7, 2**16 + 7]


def test_a_schedule_cuts_kernels_by_their_launch(tmp_path):
    """Only step 1 is recorded. Its kernel runs in step 2 and stays; that of step 0 runs in step 1 and is left out."""
    store = StoreBuilder(tmp_path, framework=TORCH)
    thread = store.process().thread()
    for number in range(3):
        start = 10 * number * MS
        thread.launch(f"of step {number}", start + MS, start + 12 * MS, 3 * MS, number + 1)
        thread.step(number, start, start + 10 * MS, flags=0 if number == 1 else int(Flag.UNRECORDED))
    measures = measure(read(store))
    assert measures.recording.device.tasks["name"].to_list() == ["of step 1"]
    assert measures.recording.device.calls.height == 1
    assert measures.stream.table["step"].to_list() == [1]
    assert measures.stream.times.select("step", "computing").rows() == [(1, 3 * MS)]


def test_a_run_that_shares_a_store_has_the_kernels_launched_in_its_time(tmp_path):
    window = {"start_ns": RAW_NS + 60 * MS, "end_ns": RAW_NS + 70 * MS, "shift": 0}
    tasks = read(gpu(tmp_path, window=window)).device.tasks
    assert tasks["launch_ns"].to_list() == [WALL_NS + 60 * MS + at for at in (1020 * US, 5020 * US, 6020 * US)]


def test_kernels_of_other_processes_are_reported(tmp_path):
    store = gpu(tmp_path)
    store.process(4300, role="spawn").thread().launch("elsewhere", 51 * MS, 52 * MS, MS, 1)
    recording = read(store)
    assert "elsewhere" not in recording.device.tasks["name"].to_list()
    assert recording.info.not_collected[-1]["what"] == "kernels of 1 other process"


def test_operators_and_modules_around_the_launch(tmp_path):
    recording = read(gpu(tmp_path))
    measures = measure(recording)
    table, stream = measures.stream.table.sort("start_ns"), measures.stream
    launched = recording.names.gather(recording.spans["name"].gather(table["launch"]))
    assert launched.to_list() == ["aten::addmm", "AddmmBackward0", "AllReduce@world"] * 3
    assert stream.texts.gather(table["module"]).to_list() == ["Net.fc", None, None] * 3
    assert table["step"].to_list() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert measures.calls.select("operation", "group", "bytes", "start_ns", "end_ns").rows()[0] == (
        "AllReduce",
        "world",
        4096,
        WALL_NS + 58 * MS,
        WALL_NS + 60 * MS,
    )


@pytest.fixture(scope="module")
def analysed(tmp_path_factory):
    """Return the directory of the run of `gpu` after its analysis."""
    path = gpu(tmp_path_factory.mktemp("gpu"), options={"export_type": ["text", "kineto"]}).write()
    analyse([path])
    return path


def test_tables(analysed):
    kernels = rows(analysed, "kernel_details")
    assert [(row["Name"], row["Stream ID"], row["Module"], row["Duration(us)"]) for row in kernels[:2]] == [
        ("gemm(float*, int)", "7", "Net.fc", "2000.000"),
        ("dgrad", "7", "N/A", "3000.000"),
    ]
    statistic = {
        row["OP Type"]: (row["Device_id"], row["Core Type"], row["Count"]) for row in rows(analysed, "op_statistic")
    }
    assert statistic == {"gemm(float*, int)": ("0", "GPU", "3"), "dgrad": ("0", "GPU", "3")}
    times = rows(analysed, "step_trace_time")
    # Each step computes for 2 + 3 ms and exchanges for 2 ms, of which 1 ms overlaps. The device has no pause from 4 ms
    # into the step on. Before that, nothing runs.
    columns = ("Computing", "Communication", "Overlapped", "Free", "Stage", "Preparing")
    for row in times:
        assert [float(row[name]) for name in columns] == [5000, 2000, 1000, 4000, 10000, 4000]
    apis = {(row["Level"], row["API Name"]): row["Count"] for row in rows(analysed, "api_statistic")}
    assert apis["cuda", "cudaLaunchKernel"] == "9"
    assert apis["primitive", "aten::addmm"] == "3"


@pytest.mark.parametrize(
    ("called", "bubble"),
    [("AllToAll@world", 0), ("Receive@world", 2 * 1000), ("Send@world", 0), ("", 2 * 1000), ("aten::copy_", 0)],
)
def test_a_bubble_is_a_receiving_call_of_the_host(tmp_path, called, bubble):
    """NCCL's receiving kernel has the same name as its all-to-all kernel, so the host's call decides."""
    store = StoreBuilder(tmp_path, framework=TORCH)
    process = store.process()
    main, start = process.thread(), 50 * MS
    if called.startswith("aten"):
        main.span(called, Category.OP, start + MS, start + 3 * MS)
    elif called:
        main.span(called, Category.COMMUNICATION, start + MS, start + 3 * MS, arg=8)
    else:
        main.span("nccl:recv 1<-0", Category.OP, start + MS, start + 3 * MS)
    main.launch("ncclDevKernel_SendRecv", start + 2 * MS, start + 4 * MS, 2 * MS, 1, stream=20)
    main.step(0, start, start + 10 * MS)
    process.anchor(100 * MS)
    process.info.ended_ns = RAW_NS + 100 * MS
    path = store.write()
    analyse([str(path)])
    (row,) = rows(path, "step_trace_time")
    assert (float(row["Communication"]), float(row["Bubble"])) == (2 * 1000, bubble)


def test_operators_have_the_time_of_their_kernels(analysed):
    details = [row for row in rows(analysed, "operator_details") if row["Name"].startswith("aten::")]
    assert [
        (row["Name"], row["Module"], row["Device Self Duration(us)"], row["Device Total Duration(us)"])
        for row in details[:2]
    ] == [
        ("aten::linear", "Net.fc", "0.000", "2000.000"),
        ("aten::addmm", "Net.fc", "2000.000", "2000.000"),
    ]
    assert (details[0]["Host Self Duration(us)"], details[0]["Host Total Duration(us)"]) == ("1010.000", "2000.000")


def test_kineto_ties_kernels_to_calls_and_operators(analysed):
    trace = json.loads((analysed / "KINETO" / "kineto_trace_0.json").read_text())
    events = trace["traceEvents"]
    kernels = [event for event in events if event.get("cat") == "kernel"]
    calls = {event["args"]["correlation"]: event for event in events if event.get("cat") == "cuda_runtime"}
    operators = {event["args"]["External id"]: event["name"] for event in events if event.get("cat") == "cpu_op"}
    assert len(kernels) == len(calls) == 9
    for kernel in kernels:
        call = calls[kernel["args"]["correlation"]]
        assert call["name"] == "cudaLaunchKernel" and call["ts"] < kernel["ts"]
        assert call["args"]["External id"] == kernel["args"]["External id"]
    launchers = [operators.get(kernel["args"]["External id"]) for kernel in kernels if kernel["name"] != NCCL]
    assert sorted(launchers) == ["AddmmBackward0"] * 3 + ["aten::addmm"] * 3
    assert {(kernel["pid"], kernel["tid"]) for kernel in kernels} == {(0, 7), (0, 20)}
    flows = pl.DataFrame([(event["ph"], event["id"]) for event in events if event.get("cat") == "ac2g"], orient="row")
    assert sorted(flows.rows()) == sorted((end, number) for end in "sf" for number in calls)


def test_perfetto_and_summary_have_it_too(analysed):
    summary = json.loads((analysed / "summary.json").read_text())
    assert summary["device"]["form"] == "cupti"
    assert (summary["device"]["tasks"], summary["device"]["exchanges"], summary["device"]["streams"]) == (9, 3, 2)
    assert summary["sources"]["kernel_details"] == "CUPTI"
    assert summary["sources"]["modules"] == "host spans"
    assert summary["completeness"]["unknown"] == 0


def test_of_very_many_kernels_those_of_some_steps_stay(tmp_path, monkeypatch):
    monkeypatch.setattr(thinning, "TASKS", 8)
    monkeypatch.setattr(device, "PART", 5)
    store = StoreBuilder(tmp_path, framework=TORCH)
    thread = store.process().thread()
    for number in range(9):
        start = 10 * number * MS
        for place in range(2):
            thread.launch("kernel", start + place * MS, start + (9 + place) * MS, MS, 2 * number + place)
        thread.step(number, start, start + 9 * MS + (number == 4) * US)
    measures = measure(thinning.thin(read(store)))
    assert measures.stream.detailed == [0, 4, 8]
    assert measures.stream.table["step"].to_list() == [0, 0, 4, 4, 8, 8]
    assert measures.stream.count == 18
    assert measures.stream.times["computing"].to_list() == [2 * MS] * 9
    # in the steps that keep their kernels, each kernel begins 9 ms after its call
    assert intervals.total_ns(measures.stream.states.filter("computing")) == 6 * MS
    assert measures.recording.device.tasks.height == measures.stream.bound.height == 6
    assert measures.recording.device.calls.height == 6
    assert measures.recording.device.whole.call_sums["count"].to_list() == [18]
    # The other steps have no kernels that could explain their length, and the first step warms up.
    assert set(measures.diagnosis.parts["step"]) == {4, 8}


def test_kernels_of_the_chosen_steps_stay(tmp_path, monkeypatch):
    monkeypatch.setattr(thinning, "TASKS", 2)
    store = StoreBuilder(tmp_path, framework=TORCH)
    thread = store.process().thread()
    for number in range(9):
        thread.launch("kernel", 10 * number * MS, 10 * number * MS + US, MS, number)
        thread.step(number, 10 * number * MS, 10 * number * MS + 9 * MS)
    measures = measure(thinning.thin(read(store), [4, 5]), [4, 5])
    assert measures.stream.table["step"].to_list() == [0, 1]
    assert measures.stream.detailed == [4, 5]


def test_the_size_of_parts_does_not_change_the_result(tmp_path, monkeypatch):
    """A part ends where nothing runs. The idle time between two parts belongs to the step in which it begins."""
    generator = random.Random(5)
    store = StoreBuilder(tmp_path, framework=TORCH)
    thread = store.process().thread()
    moment = 0
    for number in range(60):
        moment += generator.choice((0, 1, 700)) * US
        name, stream = generator.choice((("kernel", 7), (NCCL, 20), ("other", 13)))
        thread.launch(name, moment, moment + US, generator.randrange(1, 900) * US, number, stream=stream)
    for number in range(5):
        thread.step(number, number * 4 * MS, (number + 1) * 4 * MS)
    recording = read(store)
    found = []
    for most in (10**6, 3):
        monkeypatch.setattr(device, "PART", most)
        found.append(measure(recording).stream)
    whole, parts = found
    assert len(list(device_steps.parts(recording.device.whole.runs, 3))) > 3
    for name in ("table", "states", "times", "bound"):
        assert_frame_equal(getattr(whole, name), getattr(parts, name))
    assert_frame_equal(whole.sums, parts.sums, check_row_order=False)


def test_parts_end_where_nothing_runs():
    runs = pl.DataFrame({"start_ns": [0, 5, 20, 30, 30, 41, 60], "end_ns": [10, 20, 25, 40, 41, 50, 61]})
    # a task that begins when another one ends belongs to the same part
    assert [part["start_ns"].to_list() for part in device_steps.parts(runs, 1)] == [[0, 5, 20], [30, 30, 41], [60]]
    assert [part["start_ns"].to_list() for part in device_steps.parts(runs, 4)] == [[0, 5, 20, 30, 30, 41], [60]]
    assert [part.height for part in device_steps.parts(runs, 7)] == [7]


def test_copies_are_drawn_and_compute_nothing(tmp_path):
    store = gpu(tmp_path, options={"export_type": ["text", "kineto", "db"]})
    thread = store.processes[0].thread(3, "loader", 4400)
    for number in range(3):
        start = 50 * MS + number * 10 * MS
        thread.span("aten::copy_", Category.OP, start, start + MS)
        thread.device(Device.API, "cudaMemcpyAsync_v3020", start + US, start + 2 * US, 900 + number, thread=4400)
        place = {"place": (0, 30, 1, 0), "amount": 4096}
        thread.device(Device.COPY, "Memcpy", start + 3 * US, start + 2 * MS, 900 + number, **place, detail="HtoD")
        thread.device(Device.SET, "Memset", start + 2 * MS, start + 3 * MS, 950 + number, **place)
    thread.device(Device.OVERHEAD, "lazy function load", 51 * MS, 52 * MS, 0)
    path = store.write()
    analyse([path])
    for row in rows(path, "step_trace_time"):
        # In the 4 ms before the first kernel, copies and sets leave free 1 ms and the 3 us before them.
        assert [float(row[name]) for name in ("Computing", "Free", "Stage")] == [5000, 1003, 10000]
    apis = {(row["Level"], row["API Name"]): row["Time(us)"] for row in rows(path, "api_statistic")}
    assert (apis["cuda", "cudaMemcpyAsync"], apis["overhead", "lazy function load"]) == ("3.000", "1000.000")
    events = json.loads((folder_of(path) / "trace_view.json").read_text())
    drawn = [event for event in events if event["ph"] == "X" and event["pid"] == 2 and event["tid"] == 30]
    assert [(event["name"], event["dur"], event["args"]) for event in drawn[:2]] == [
        ("Memcpy HtoD", "1997.000", {"bytes": 4096}),
        ("Memset", "1000.000", {"bytes": 4096}),
    ]
    assert (len(drawn), len({event["name"] for event in drawn})) == (6, 2)
    kineto = json.loads((path / "KINETO" / "kineto_trace_0.json").read_text())["traceEvents"]
    operators = {event["args"]["External id"]: event["name"] for event in kineto if event.get("cat") == "cpu_op"}
    copies = [event for event in kineto if event.get("cat") == "gpu_memcpy"]
    assert {(event["tid"], operators[event["args"]["External id"]]) for event in copies} == {(30, "aten::copy_")}
    assert {event["args"]["correlation"] for event in copies} == {900, 901, 902}
    assert len([event for event in kineto if event.get("cat") == "gpu_memset"]) == 3
    timeline = perfetto_reader.read(folder_of(path) / "trace.pftrace")
    copied = [piece for piece in timeline.slices if piece.category == "copy"]
    assert {timeline.lane(piece.track) for piece in copied} == {("GPU", "Stream 30")}
    assert [(piece.name, piece.end - piece.start, piece.args["bytes"]) for piece in copied[:2]] == [
        ("Memcpy HtoD", 1997 * US, 4096),
        ("Memset", MS, 4096),
    ]
