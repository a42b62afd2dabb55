"""The curves of a device and the memory of PyTorch's allocators are the planted ones, with times in microseconds."""

import json
from pathlib import Path

import polars as pl
from ms_profiler.analysis import catalogue
from ms_profiler.analysis.driver import engine
from ms_profiler.analysis.metrics import device_counters, memory
from ms_profiler.analysis.model import tables
from perfetto_reader import read
from test_kineto_devices import US, Trace

MB = 2**20


def memory_event(time, kind, device, allocated, reserved):
    args = {"Device Type": kind, "Device Id": device, "Bytes": 512, "Addr": 1}
    totals = {} if allocated is None else {"Total Allocated": allocated * MB, "Total Reserved": reserved * MB}
    event = {"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 4242, "tid": 11, "ts": time}
    return event | {"args": args | totals}


def planted():
    """Return a trace of two steps of 100 us with two kernels in the first, and a kernel and a copy in the second."""
    trace = Trace()
    trace.steps(0, 100, 200)
    trace.kernel("a", 1, 10, 50)
    trace.kernel("b", 5, 50, 70)
    number = trace.call("MemcpyAsync", 110, 112)
    trace.ran("Memcpy HtoD (Pinned -> Device)", 120, 130, number, stream=9, kind="copy", bytes=20_000)
    trace.kernel("c", 113, 125, 180)
    return trace


def curves(rows):
    found = {}
    for name, time, value in rows:
        found.setdefault(name, []).append((time, value))
    return found


def test_the_curves_of_a_device(tmp_path):
    trace = planted()
    trace.events += [memory_event(20, 1, 0, 100, 200), memory_event(80, 1, 0, 300, 400)]
    measures = trace.measured(tmp_path)
    table = device_counters.counters(measures.recording.device)
    expected = {
        "queue of stream 7": [(1, 1), (5, 2), (10, 1), (50, 0), (113, 1), (125, 0)],
        "queue of stream 9": [(110, 1), (120, 0)],
        # a kernel that begins when another one ends does not change the number of running tasks
        "at once on device 0": [(10, 1), (50, 1), (70, 0), (120, 1), (125, 2), (130, 1), (180, 0)],
        "GB/s of Memcpy HtoD (Pinned -> Device)": [(120, 2.0), (130, 0)],
        "allocated by GPU 0, bytes": [(20, 100 * MB), (80, 300 * MB)],
        "reserved by GPU 0, bytes": [(20, 200 * MB), (80, 400 * MB)],
    }
    assert curves(table.with_columns(pl.col("time_ns") // US).iter_rows()) == expected
    (done,) = engine.analyse([tmp_path / "a.json"])
    output = Path(done.directory) / "ASCEND_PROFILER_OUTPUT"
    events = json.loads((output / "trace_view.json").read_text())
    drawn = [event for event in events if event["ph"] == "C"]
    device = {event["pid"] for event in events if event["name"] == "process_name" and event["args"]["name"] == "GPU"}
    assert {event["pid"] for event in drawn} == device
    rows = [(event["name"], float(event["ts"]), event["args"]["value"]) for event in drawn]
    assert curves(rows) == expected
    timeline = read(output / "trace.pftrace")
    rows = [(timeline.tracks[track].name, time // US, value) for track, time, value in timeline.counters]
    assert curves(rows) == expected


def test_a_curve_of_many_points_has_its_peaks_and_its_end():
    times = pl.int_range(100_000, eager=True).alias("start_ns") * 10
    ends = times + 5 + 5 * (pl.int_range(100_000, eager=True) == 77_777).cast(pl.Int64)
    copies = pl.DataFrame({"start_ns": times, "end_ns": ends, "name": "copy", "bytes": 100, "stream": 1})
    device = tables.Device.none()
    device.copies = pl.concat([pl.DataFrame(schema=tables.COPIES), copies], how="diagonal_relaxed").cast(tables.COPIES)
    points = device_counters.counters(device)
    rates = points.filter(pl.col("name") == "GB/s of copy")
    assert device_counters.MOST // 2 <= rates.height <= device_counters.MOST + 2
    assert (rates["value"].max(), rates["value"][-1]) == (20.0, 0.0)


def test_memory_of_allocators(tmp_path):
    trace = planted()
    args = [(20, 1, 0, 100, 200), (80, 1, 0, 300, 400), (150, 1, 0, 50, 400), (30, 0, -1, 777, 0), (40, 1, 1, 7, 8)]
    trace.events += [memory_event(*row) for row in args]
    measures = trace.measured(tmp_path)
    rows = catalogue.named("memory").of(measures).sort("time").select("component", "time", "allocated", "reserved")
    assert rows.rows() == [
        ("GPU 0", 20 * US, 100 * MB, 200 * MB),
        ("CPU", 30 * US, 777 * MB, None),
        ("GPU 1", 40 * US, 7 * MB, 8 * MB),
        ("GPU 0", 80 * US, 300 * MB, 400 * MB),
        ("GPU 0", 150 * US, 50 * MB, 400 * MB),
    ]
    # the memory of the processor counts only if there is no other memory
    assert measures.held["component"].unique().to_list() == ["GPU 0"]
    assert memory.by_step(measures.held, measures.steps).rows() == [(0, 300 * MB, 300 * MB), (1, 50 * MB, 50 * MB)]
    (done,) = engine.analyse([tmp_path / "a.json"])
    summary = json.loads((Path(done.directory) / "summary.json").read_text())
    found = {name: summary["memory"][name] for name in ("component", "peak_mb", "reserved_mb", "peak_step")}
    assert found == {"component": "GPU 0", "peak_mb": 300, "reserved_mb": 400, "peak_step": 0}
    table = (Path(done.directory) / "ASCEND_PROFILER_OUTPUT" / "memory_record.csv").read_text().splitlines()
    assert table[1] == "GPU 0,20.000\t,100.0,200.0,,GPU:0"


def test_memory_without_totals_is_absent_and_reported(tmp_path):
    trace = planted()
    trace.events.append(memory_event(20, 1, 0, None, None))
    measures = trace.measured(tmp_path)
    assert catalogue.named("memory").of(measures).is_empty()
    assert "memory of tensors" in [entry["what"] for entry in measures.recording.info.not_collected]
