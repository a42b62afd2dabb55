import errno
import json
import os
import shutil

import pytest
from csv_rows import rows as table
from ms_profiler.analysis.driver import engine
from ms_profiler.analysis.writers import core, trace_view
from ms_profiler.cli import main
from ms_profiler.errors import MsProfilerError, StoreError
from ms_profiler.store import layout
from ms_profiler.store.format import Category
from store_builder import BACKWARD, FORWARD, MS, UPDATE, StoreBuilder, compiled, folder_of, training, write_training

pytest_plugins = ["recorder_fixtures"]


def test_step_trace_time_has_the_columns_of_the_documents(tmp_path):
    path = write_training(tmp_path)
    engine.analyse([path])
    header = (folder_of(path) / layout.STEP_TRACE_TIME).read_text().splitlines()[0]
    assert header == (
        "Step,Computing,Communication(Not Overlapped),Overlapped,Communication,Free,Stage,Bubble,"
        "Communication(Not Overlapped and Exclude Receive),Preparing"
    )
    rows = table(path, layout.STEP_TRACE_TIME)
    assert [row["Step"] for row in rows] == [str(number) for number in range(20)]
    assert rows[1] == {
        "Step": "1",
        "Computing": "6500.000",
        "Communication(Not Overlapped)": "0.000",
        "Overlapped": "0.000",
        "Communication": "0.000",
        "Free": "3500.000",
        "Stage": "10000.000",
        "Bubble": "0.000",
        "Communication(Not Overlapped and Exclude Receive)": "0.000",
        "Preparing": "3000.000",
    }


def test_step_trace_time_without_steps_is_one_row_0(tmp_path):
    store = StoreBuilder(tmp_path)
    process = store.process()
    process.thread().span("forward", Category.FORWARD, MS, 3 * MS)
    process.anchor(10 * MS)
    path = store.write()
    engine.analyse([path])
    (row,) = table(path, layout.STEP_TRACE_TIME)
    assert (row["Step"], row["Computing"], row["Stage"], row["Preparing"]) == ("0", "2000.000", "10000.000", "1000.000")


def test_dataset_table(tmp_path):
    path = write_training(tmp_path)
    engine.analyse([path])
    assert table(path, layout.DATASET) == [
        {
            "Operation": "next",
            "Stage": "data",
            "Occurrences": "20",
            "Avg. time (us)": "3000.000",
            "Custom Info": "N/A",
        }
    ]


def test_a_table_without_data_is_not_written_and_an_old_one_is_deleted(tmp_path):
    path = write_training(tmp_path)
    engine.analyse([path])
    assert (folder_of(path) / layout.DATASET).exists()
    store = StoreBuilder(tmp_path)
    store.process().thread().span("forward", Category.FORWARD, 0, MS)
    store.write()
    engine.analyse([path])
    assert not (folder_of(path) / layout.DATASET).exists()


def test_kernel_details_has_the_columns_of_the_documents_and_the_module_where_it_is_known(tmp_path):
    path = compiled(tmp_path).write()
    engine.analyse([path])
    lines = (folder_of(path) / layout.KERNEL_DETAILS).read_text().splitlines()
    assert lines[0] == (
        "Step ID,Model ID,Task ID,Stream ID,Name,Type,OP State,Accelerator Core,Start Time(us),Duration(us),"
        "Wait Time(us),Block Num,Input Shapes,Module,Module Binding"
    )
    # with the tab behind it, a spreadsheet reads a number as text and keeps its 19 digits
    assert ",1760000000175456.789\t," in lines[1]
    rows = table(path, layout.KERNEL_DETAILS)
    assert len(rows) == 60
    assert rows[4] == {
        "Step ID": "1",
        "Model ID": "N/A",
        "Task ID": "N/A",
        "Stream ID": "0",
        "Name": BACKWARD,
        "Type": "MatMul",
        "OP State": "N/A",
        "Accelerator Core": "HOST_CPU",
        "Start Time(us)": "1760000000187456.789\t",
        "Duration(us)": "3000.000",
        "Wait Time(us)": "0.000",
        "Block Num": "0",
        "Input Shapes": '"4,8;8,8"',
        "Module": "network._backbone.fc",
        "Module Binding": "exact",
    }
    assert [row["Wait Time(us)"] for row in rows[:4]] == ["0.000", "0.000", "1000.000", "3500.000"]
    # the first kernel of the second window has no kernel before it
    assert rows[30]["Step ID"] == "10" and rows[30]["Wait Time(us)"] == "0.000"


def test_kernel_details_without_shapes_and_outside_of_steps(tmp_path):
    store = StoreBuilder(tmp_path)
    process = store.process()
    thread = process.thread()
    thread.window(0, 0, 5 * MS, [("Mul", MS // 2, 1234, ""), ("Mul", 2 * MS, 10, "", 2)])
    thread.step(7, MS, 4 * MS)
    process.anchor(6 * MS)
    path = store.write()
    engine.analyse([path])
    rows = table(path, layout.KERNEL_DETAILS)
    assert "Input Shapes" not in rows[0]
    assert [(row["Step ID"], row["Stream ID"], row["Duration(us)"]) for row in rows] == [
        ("", "0", "1.234"),
        ("7", "2", "0.010"),
    ]


def test_kernel_details_of_operators_have_every_moment_once(tmp_path):
    """A product does its work itself, and contains an operator that does nothing."""
    store = StoreBuilder(tmp_path, framework={"name": "torch", "version": "2.13.0", "device": "CPU"})
    process = store.process()
    thread = process.thread()
    for number in range(3):
        start = number * 10 * MS
        thread.span("aten::mm", Category.OP, start, start + 6 * MS)
        thread.span("aten::resolve_conj", Category.OP, start + MS, start + MS + 500)
        thread.span("aten::relu", Category.OP, start + 7 * MS, start + 9 * MS)
        thread.step(number, start, start + 10 * MS)
    process.anchor(40 * MS)
    path = store.write()
    engine.analyse([path])
    rows = [(row["Name"], row["Duration(us)"], row["Wait Time(us)"]) for row in table(path, layout.KERNEL_DETAILS)]
    first = [("aten::mm", "5999.500", "0.000"), ("aten::resolve_conj", "0.500", "0.000")]
    assert rows[:3] == [*first, ("aten::relu", "2000.000", "1000.000")]
    computing = [float(row["Computing"]) for row in table(path, layout.STEP_TRACE_TIME)]
    assert sum(computing) == pytest.approx(sum(float(duration) for _, duration, _ in rows))
    selfs = {row["OP Type"]: float(row["Self Time(us)"]) for row in table(path, layout.OP_STATISTIC)}
    assert selfs == {
        name: pytest.approx(sum(float(row[1]) for row in rows if row[0] == name)) for name in {row[0] for row in rows}
    }


def test_op_statistic(tmp_path):
    path = compiled(tmp_path).write()
    engine.analyse([path])
    first, second = table(path, layout.OP_STATISTIC)
    assert first == {
        "Device_id": "host",
        "OP Type": "MatMul",
        "Core Type": "HOST_CPU",
        "Count": "40",
        "Total Time(us)": "100000.000",
        "Min Time(us)": "2000.000",
        "Avg Time(us)": "2500.000",
        "Max Time(us)": "3000.000",
        "Ratio(%)": "90.909",
    }
    assert (second["OP Type"], second["Ratio(%)"]) == ("ApplyMomentum", "9.091")


def test_api_statistic(tmp_path):
    store = training(tmp_path, steps=2)
    store.processes[0].thread(2, "x", 1).span("forward", Category.FORWARD, 0, MS)
    path = store.write()
    engine.analyse([path])
    rows = {(row["Level"], row["API Name"]): row for row in table(path, layout.API_STATISTIC)}
    assert list(rows) == [
        ("backward", "backward"),
        ("compile", "compile train_step"),
        ("dataset", "next"),
        ("forward", "forward"),
        ("module", "Net"),
        ("module", "Dense fc1"),
        ("optimizer", "Momentum"),
        ("primitive", "MatMul"),
    ]
    # the calls take 2, 2 and 1 ms
    assert rows["forward", "forward"] == {
        "Device_id": "host",
        "Level": "forward",
        "API Name": "forward",
        "Time(us)": "5000.000",
        "Count": "3",
        "Avg(us)": "1666.667",
        "Min(us)": "1000.000",
        "Max(us)": "2000.000",
        "Variance": "222222.222",
    }
    assert rows["module", "Net"]["Variance"] == "0.000"


@pytest.mark.parametrize("shapes", [True, False])
def test_operator_details_only_with_shapes(tmp_path, shapes):
    store = compiled(tmp_path, steps=2, windows=1, options={"record_shapes": shapes})
    path = store.write()
    engine.analyse([path])
    if not shapes:
        assert not (folder_of(path) / layout.OPERATOR_DETAILS).exists()
        return
    assert (
        table(path, layout.OPERATOR_DETAILS)
        == [
            {"Name": FORWARD, "Input Shapes": "4,8;8,8;"},
            {"Name": BACKWARD, "Input Shapes": "4,8;8,8"},
            {"Name": UPDATE, "Input Shapes": "8,8;8,8"},
        ]
        * 2
    )


@pytest.mark.parametrize("shapes", [True, False])
def test_synchronous_operators_have_their_times(tmp_path, shapes):
    framework = {"name": "torch", "version": "2.13.0"}
    store = StoreBuilder(tmp_path, framework=framework, options={"record_shapes": shapes})
    thread = store.process().thread()
    thread.span("Net.layer", Category.MODULE, 0, 10 * MS)
    thread.span("aten::linear", Category.OP, MS, 5 * MS)
    thread.span("aten::addmm", Category.OP, 2 * MS, 4 * MS)
    path = store.write()
    engine.analyse([path])
    if not shapes:
        assert not (folder_of(path) / layout.OPERATOR_DETAILS).exists()
        return
    columns = ("Name", "Module", "Host Self Duration(us)", "Host Total Duration(us)")
    assert [tuple(row[name] for name in columns) for row in table(path, layout.OPERATOR_DETAILS)] == [
        ("aten::linear", "Net.layer", "2000.000", "4000.000"),
        ("aten::addmm", "Net.layer", "2000.000", "2000.000"),
    ]


def test_run_without_kernels_has_no_table_of_them(tmp_path):
    path = write_training(tmp_path, options={"record_shapes": True})
    engine.analyse([path])
    written = {file.name for file in folder_of(path).iterdir()}
    assert not written & {layout.KERNEL_DETAILS, layout.OP_STATISTIC, layout.OPERATOR_DETAILS}


def test_profiler_info_has_the_keys_of_the_documents(tmp_path):
    options = {"start": True, "schedule": {"wait": 1, "active": 2}, "profiler_level": "Level0"}
    path = write_training(tmp_path, rank=3, device_id=5, options=options)
    engine.analyse([path])
    assert json.loads((path / "profiler_info_3.json").read_text()) == {
        "profiler_parameters": {"is_set_schedule": True, **options},
        "ms_profiler_info": {"rank_id": "3", "device_id": "5"},
        "cann_profiler_info": {},
        "analysis_cost_time": {},
        "ms_version": "2.10.0",
        "cann_version": "",
        "jit_level": "",
    }


def test_metadata_describes_the_run(tmp_path):
    path = write_training(tmp_path, rank=3, world_size=8, job="j1")
    engine.analyse([path])
    content = json.loads((path / layout.METADATA).read_text())["ms_profiler"]
    assert (content["rank"], content["world_size"], content["framework_version"]) == ("3", "8", "2.10.0")
    assert all(isinstance(value, str) for value in content.values())


def test_files_are_private_to_user_and_group(tmp_path):
    path = write_training(tmp_path)
    old = os.umask(0)
    try:
        engine.analyse([path])
    finally:
        os.umask(old)
    assert folder_of(path).stat().st_mode & 0o777 == 0o750
    written = [path / layout.SUMMARY, path / layout.METADATA, *folder_of(path).iterdir()]
    assert len(written) == 7
    for file in written:
        assert file.stat().st_mode & 0o777 == 0o640, file


def test_file_takes_its_place_when_it_is_whole(tmp_path):
    path = tmp_path / "artefact"
    path.write_text("old")
    with core.replaced(str(path)) as stream:
        stream.write(b"new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert os.listdir(tmp_path) == ["artefact"]


def test_half_written_file_vanishes(tmp_path):
    path = tmp_path / "artefact"
    path.write_text("old")
    with pytest.raises(RuntimeError, match="in the middle"), core.replaced(str(path)) as stream:
        stream.write(b"ne")
        raise RuntimeError("in the middle")
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["artefact"]


def test_link_in_the_place_of_a_file_is_replaced_and_not_followed(tmp_path):
    target = tmp_path / "precious"
    target.write_text("keep")
    path = tmp_path / "artefact"
    path.symlink_to(target)
    with core.replaced(str(path)) as stream:
        stream.write(b"new")
    assert target.read_text() == "keep" and not path.is_symlink()


def test_a_full_disk_is_one_error_and_leaves_the_old_files(tmp_path, monkeypatch):
    path = write_training(tmp_path)
    engine.analyse([path])
    before = {file: file.read_bytes() for file in folder_of(path).iterdir()}

    def full(*arguments, **options):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(trace_view, "write", full)
    with pytest.raises(MsProfilerError, match=r"trace_view.json: No space left on device. Is there space left"):
        engine.analyse([path])
    assert {file: file.read_bytes() for file in folder_of(path).iterdir()} == before


def test_link_in_the_place_of_the_folder_is_refused(tmp_path):
    path = write_training(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    folder_of(path).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match="symbolic link"):
        engine.analyse([path])
    assert os.listdir(tmp_path / "elsewhere") == []


@pytest.mark.parametrize("end", ["", "/"])
def test_result_that_is_a_link_is_refused_before_anything_is_made(tmp_path, end):
    path = write_training(tmp_path / "elsewhere")
    link = tmp_path / path.name
    link.symlink_to(path)
    before = sorted(path.iterdir())
    with pytest.raises(StoreError, match=f"symbolic link; .* Name the target of the link: {path}"):
        engine.analyse([f"{link}{end}"])
    assert sorted(path.iterdir()) == before


@pytest.mark.parametrize("size", ["210k", "340k"])
def test_disk_that_is_full_is_one_line_and_leaves_no_half_of_a_file(tmp_path, mounted, capfd, size):
    disk = mounted("-t", "tmpfs", "-o", f"size={size}", "tmpfs")
    path = shutil.copytree(write_training(tmp_path), disk / "a_1_20260101000000123_ascend_ms")
    assert main(["analyse", str(path), "--export", "db,parquet"]) == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith(f"ms-profiler: Cannot write {path}/") and "--output DIR" in line
    assert [file.name for file in path.rglob("*") if ".tmp" in file.name] == []
    for trace in path.rglob("*.json"):
        json.loads(trace.read_text())


def test_tables_that_find_a_full_disk_are_one_line(tmp_path, mounted, capfd):
    disk = mounted("-t", "tmpfs", "-o", "size=8k", "tmpfs")
    (tmp_path / "t.json").write_text(json.dumps([{"ph": "X", "name": "op", "pid": 1, "tid": 1, "ts": 1, "dur": 5}] * 9))
    assert main(["analyse", str(tmp_path / "t.json"), "--output", str(disk), "--export", "parquet"]) == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith(f"ms-profiler: Cannot write {disk}/t_analysis/")


def test_steps_not_recorded_are_in_no_table(tmp_path):
    store = training(tmp_path, steps=4)
    thread = store.processes[0].thread(2, "unused", 1)
    assert thread.number == 2
    segment = store.processes[0].segments[1]
    # mark the thread's last step as one that the schedule left out
    segment.slots[-2] = 4
    path = store.write()
    engine.analyse([path])
    assert [row["Step"] for row in table(path, layout.STEP_TRACE_TIME)] == ["0", "1", "2"]
    steps = json.loads((path / layout.SUMMARY).read_text())["steps"]
    assert (steps["count"], steps["recorded"]) == (4, 3)
