"""msprof's export of aclprof's data, with any columns, becomes our tasks, launches, calls and tables."""

import os
import shutil

import polars as pl
import pytest
from csv_rows import rows
from fakes_built import FAKES
from ms_profiler.analysis.catalogue import query
from ms_profiler.analysis.driver import export
from ms_profiler.analysis.driver.engine import analyse
from ms_profiler.analysis.model import tables
from ms_profiler.analysis.readers import msprof, store as reader
from ms_profiler.store.format import Category
from store_builder import MS, RAW_NS, WALL_NS, StoreBuilder

US = 1000
#: the thread's id in the operating system
THREAD = 4300
FOLDER = "PROF_000001_1_FAKE"
HEADER = "Op Name,OP Type,Task Type,Stream ID,Task Start Time(us),Task Duration(us),{blocks},aic_mac_ratio\n"


def task(name, kind, stream, launch, after, length):
    """Return a line of the made-up raw data; times are in microseconds."""
    start = WALL_NS + (launch + after) * US
    return f"{name} {kind} {stream} {WALL_NS + launch * US} {start} {length * US} {THREAD}\n"


def steps(parent, **info):
    """Build a run of three steps of 10 ms, each with a cell on the thread that launches; return its directory."""
    store = StoreBuilder(parent, **info)
    process = store.process()
    main = process.thread(1, "MainThread", THREAD)
    for number in range(3):
        start = 10 * number * MS
        main.span("Net.fc", Category.MODULE, start + MS, start + 4 * MS)
        main.step(number, start, start + 10 * MS)
    process.anchor(40 * MS)
    process.info.ended_ns = RAW_NS + 40 * MS
    return store.write()


def kernels_of(step):
    """Return the raw data of a step's launches; the second kernel runs after the step's end on the host."""
    begin = 10_000 * step
    return [
        task("MatMul1", "MatMul", 2, begin + 2000, 100, 50),
        task("Add1", "Add", 3, begin + 3000, 8000, 20),
        task("hcom_allReduce__001_0_1", "hcom_allReduce_", 9, begin + 5000, 500, 30),
    ]


def record(path, lines, folder=FOLDER):
    """Write raw data into a result."""
    data = path / folder / "device_0" / "data"
    data.mkdir(parents=True)
    (data / "tasks").write_text("".join(lines))


@pytest.fixture
def result(tmp_path, monkeypatch):
    """Return a run of three steps with raw data that are not exported yet, and put the made-up msprof on the path."""
    monkeypatch.setenv("PATH", os.pathsep.join([str(FAKES), os.environ["PATH"]]))
    monkeypatch.setenv("FAKE_MSPROF_LOG", str(tmp_path / "log"))
    path = steps(tmp_path)
    record(path, [line for step in range(3) for line in kernels_of(step)])
    return path


def read(path):
    recording = reader.read(str(path))
    msprof.attach(recording, export.export(str(path)))
    return recording


def test_tasks_and_their_launches(result):
    device = read(result).device
    assert device.form == tables.Form.ACLPROF
    first = device.tasks.row(0, named=True)
    assert first == {
        "stream": 2,
        "name": "MatMul1",
        "type": "MatMul",
        "core": "AI_CORE",
        "group": None,
        "shapes": "8,8;8,8",
        "start_ns": WALL_NS + 2100 * US,
        "end_ns": WALL_NS + 2150 * US,
        "exchange": False,
        "launch_ns": WALL_NS + 2000 * US,
        "driver_ns": WALL_NS + 2000 * US,
    }
    assert device.launches["thread"].unique().to_list() == [1]
    assert dict(zip(device.tasks["name"], device.launches["amount"], strict=True)) == {
        "MatMul1": 24,
        "Add1": 24,
        "hcom_allReduce__001_0_1": 0,
    }
    assert device.calls.select("level", "name", "thread").unique().rows() == [("node", "launch", THREAD)]
    assert device.modules.rows() == [("RUNTIME", WALL_NS + 2100 * US, 2 << 20)]


def test_kernels_are_in_the_steps_that_launched_them_with_their_counters(result):
    analyse([str(result)])
    found = [(row["Step ID"], row["Name"], row["mac_ratio"], row["Module"]) for row in rows(result, "kernel_details")]
    computing = [row for row in found if not row[1].startswith("hcom_")]
    assert sorted(computing) == sorted(
        (str(step), name, "0.125", "Net.fc") for step in range(3) for name in ("MatMul1", "Add1")
    )
    assert [row["Computing"] for row in rows(result, "step_trace_time")] == ["70.000"] * 3
    assert [row["Communication"] for row in rows(result, "step_trace_time")] == ["30.000"] * 3


def test_the_same_again_gives_the_same_bytes_and_runs_msprof_once(result, tmp_path):
    def contents():
        output = result / "ASCEND_PROFILER_OUTPUT"
        return {path.name: path.read_bytes() for path in [*output.iterdir(), result / "summary.json"]}

    analyse([str(result)])
    before = contents()
    analyse([str(result)])
    assert contents() == before
    assert len((tmp_path / "log").read_text().splitlines()) == 1


def test_a_result_that_is_to_be_left_alone_is(result, tmp_path):
    before = sorted(result.rglob("*"))
    analyse([str(result)], output=str(tmp_path / "elsewhere"))
    assert sorted(result.rglob("*")) == before
    assert len(rows(tmp_path / "elsewhere" / result.name, "l2_cache")) == 6


def test_a_query_runs_nothing_and_names_the_command(result, tmp_path):
    assert query.ask([str(result)], "SELECT * FROM kernels").table.is_empty()
    assert not (tmp_path / "log").exists()
    recording = reader.read(str(result))
    msprof.attach(recording, export.look(str(result)))
    (entry,) = recording.info.not_collected
    assert entry == {
        "what": f"records of aclprof in {FOLDER}",
        "why": f"msprof has not read it yet; run: ms-profiler analyse {result}",
    }
    analyse([str(result)])
    assert query.ask([str(result)], "SELECT * FROM kernels").table.height == 9


def test_several_folders_are_one_recording(tmp_path, result):
    shutil.rmtree(result / FOLDER)
    for number, step in enumerate((2, 0)):
        record(result, kernels_of(step), f"PROF_00000{number + 1}_1_FAKE")
    device = read(result).device
    assert device.tasks["start_ns"].is_sorted()
    assert device.tasks["launch_ns"].to_list() == [
        WALL_NS + (10_000 * step + begin) * US for step in (0, 2) for begin in (2000, 5000, 3000)
    ]
    assert device.launches["amount"].to_list() == [24, 0, 24] * 2
    assert device.counters["l2_cache"].height == 4
    assert device.modules.height == 2


def test_a_schedule_cuts_kernels_by_their_launch(tmp_path, result):
    path = steps(
        tmp_path, name="other_1_2_ascend_ms", window={"start_ns": RAW_NS + 10 * MS, "end_ns": RAW_NS + 20 * MS}
    )
    shutil.copytree(result / FOLDER, path / FOLDER)
    device = read(path).device
    assert sorted(device.tasks["name"]) == ["Add1", "MatMul1", "hcom_allReduce__001_0_1"]
    assert device.launches.height == 3


def exported(path, **files):
    """Write msprof's files into a result; the keyword of a file is its name with an underscore for the dot."""
    output = path / FOLDER / export.OUTPUT
    output.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        stem, _, form = name.rpartition("_")
        (output / f"{stem}.{form}").write_text(content)


def start(microseconds):
    """Return a time since the run's begin in microseconds as msprof writes it."""
    return f"{(WALL_NS + microseconds * US) // US}.{WALL_NS % US:03d}\t"


@pytest.mark.parametrize("blocks", ["Block Dim", "Block Num"])
def test_a_table_alone_with_the_names_of_older_tools(tmp_path, blocks):
    path = steps(tmp_path)
    lines = f"MatMul1,MatMul,AI_CORE,2,{start(2100)},50.5,16,0.9\nAdd1,N/A,AI_VECTOR_CORE,3,{start(2300)},1,8,N/A\n"
    exported(path, op_summary_1_csv=HEADER.format(blocks=blocks) + lines)
    device = read(path).device
    assert device.tasks.select("name", "type", "core", "stream", "launch_ns").rows() == [
        ("MatMul1", "MatMul", "AI_CORE", 2, None),
        ("Add1", None, "AI_VECTOR_CORE", 3, None),
    ]
    assert (device.tasks["end_ns"] - device.tasks["start_ns"]).to_list() == [50_500, 1000]
    assert device.launches["amount"].to_list() == [16, 8]
    analyse([str(path)])
    assert [(row["Block Num"], row["aic_mac_ratio"]) for row in rows(path, "kernel_details")] == [
        ("16", "0.9"),
        ("8", "N/A"),
    ]


def test_a_damaged_table_costs_that_table(result):
    read(result)
    (second,) = (result / FOLDER / export.OUTPUT).glob("op_summary_slice_1_*")
    second.write_text("Op Name,OP Type\nMatMul1,MatMul\n")
    (cache,) = (result / FOLDER / export.OUTPUT).glob("l2_cache_*")
    cache.write_bytes(b"")
    recording = read(result)
    assert recording.device.details.height == 2
    names = [name for name, _ in recording.counts.damaged_files]
    assert names == [second.name, cache.name] or names == [cache.name, second.name]
    analyse([str(result)])
    assert not (result / "ASCEND_PROFILER_OUTPUT" / "l2_cache.csv").exists()


def test_counters_without_a_kernel_are_worth_having(tmp_path):
    path = steps(tmp_path)
    exported(path, msprof_1_json="[]", hbm_1_csv="Device_id,Metric,Read(MB/s),Write(MB/s)\n0,Average,1.5,2\n")
    device = read(path).device
    assert device.tasks.is_empty()
    assert device.counters["hbm"].rows() == [("0", "Average", "1.5", "2")]
    analyse([str(path)])
    assert rows(path, "hbm") == [
        {"Device_id": "0", "Metric": "Average", "Read(MB/s)": "1.5", "Write(MB/s)": "2"},
    ]


def test_an_empty_folder_is_no_device(tmp_path):
    path = steps(tmp_path)
    exported(path, msprof_1_json="[]")
    assert read(path).device is None


@pytest.mark.parametrize(("unit", "size"), [("KB", 1024), ("MB", 1 << 20)])
def test_sizes_have_their_unit_in_the_name_of_the_column(tmp_path, unit, size):
    path = steps(tmp_path)
    held = (
        f"Component,Timestamp(us),Total Allocated({unit}),Total Reserved({unit}),Device\nAPP,{start(5)},1.5,2,NPU:0\n"
    )
    exported(
        path, op_summary_1_csv=HEADER.format(blocks="Block Num"), memory_record_1_csv=held + "APP,soon,1,1,NPU:0\n"
    )
    exported(path, hbm_1_csv="Metric\nRead\n")
    recording = read(path)
    assert recording.device.memory.select("component", "allocated", "reserved").rows() == [
        ("APP", size * 3 // 2, size * 2)
    ]
    assert recording.counts.damaged_memory == 1


def test_a_killed_run_says_so_where_msprof_fails(result, monkeypatch):
    monkeypatch.setenv("FAKE_MSPROF", "fails")
    recording = reader.read(str(result))
    recording.processes = recording.processes.with_columns(pl.lit("killed or vanished").alias("state"))
    msprof.attach(recording, export.export(str(result)))
    (entry,) = recording.info.not_collected
    assert entry["why"].endswith("; the job was killed before aclprof had ended")
    assert [name for name, _ in recording.counts.damaged_files] == [FOLDER]
