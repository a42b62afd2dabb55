import csv
import errno
import json
import os

import pytest
from ms_profiler.analysis import engine
from ms_profiler.analysis.writers import core, trace_view
from ms_profiler.errors import MsProfilerError, StoreError
from ms_profiler.store import layout
from ms_profiler.store.format import Category
from store_builder import MS, StoreBuilder, folder_of, training, write_training


def table(path, name):
    with open(folder_of(path) / name, newline="") as stream:
        return list(csv.DictReader(stream))


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


def test_what_was_not_collected_gets_no_file_and_loses_an_old_one(tmp_path):
    path = write_training(tmp_path)
    engine.analyse([path])
    assert (folder_of(path) / layout.DATASET).exists()
    store = StoreBuilder(tmp_path)
    store.process().thread().span("forward", Category.FORWARD, 0, MS)
    store.write()
    engine.analyse([path])
    assert not (folder_of(path) / layout.DATASET).exists()


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
    assert len(written) == 5
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


def test_full_disk_is_one_error_and_leaves_what_was_there(tmp_path, monkeypatch):
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


def test_steps_not_recorded_are_in_no_table(tmp_path):
    store = training(tmp_path, steps=4)
    thread = store.processes[0].thread(2, "unused", 1)
    assert thread.number == 2
    segment = store.processes[0].segments[1]
    # the last step of the thread becomes one that the schedule left out
    segment.slots[-2] = 4
    path = store.write()
    engine.analyse([path])
    assert [row["Step"] for row in table(path, layout.STEP_TRACE_TIME)] == ["0", "1", "2"]
    steps = json.loads((path / layout.SUMMARY).read_text())["steps"]
    assert (steps["count"], steps["recorded"]) == (4, 3)
