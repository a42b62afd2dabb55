import shutil
import sqlite3
from pathlib import Path

import pytest
from ascend_builder import TASKS, AscendBuilder, sample
from ms_profiler.analysis.readers import ascend_db, foreign
from ms_profiler.errors import StoreError

COLUMNS = ("stream", "name", "core", "group", "exchange", "launch_ns")


def read(path):
    return ascend_db.read(str(path), ascend_db.database(str(path)))


def edit(path, *statements):
    connection = sqlite3.connect(ascend_db.database(str(path)))
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


def test_the_same_as_from_text(tmp_path):
    recording = read(sample(tmp_path).database())
    expected = [(row[0], row[1], *row[3:]) for row in TASKS]
    assert recording.device.tasks.select(*COLUMNS).rows() == expected
    assert recording.device.tasks["type"].to_list() == ["MatMul", "hcom_", "Add"]
    assert recording.device.tasks["shapes"].to_list() == ["8,8", None, "8,8"]
    assert recording.steps["number"].to_list() == [1] and recording.info.device_id == 3
    assert not recording.counts.damaged and recording.processes["process"].to_list() == [4242]
    # the first call and the step are on one thread, and the launches have their own spans
    assert recording.threads["native_tid"].to_list() == [4242, 4300]
    assert recording.spans.height == 3 + 3


def test_stacks_are_no_operators(tmp_path):
    path = sample(tmp_path).database()
    before = read(path).spans.height
    edit(path, "INSERT INTO PYTORCH_API SELECT startNs, endNs, globalTid, NULL, name, 50003 FROM PYTORCH_API")
    assert read(path).spans.height == before


def test_calls_of_the_driver_launch_where_the_framework_is_not_known(tmp_path):
    path = sample(tmp_path).database()
    edit(
        path,
        "INSERT INTO CANN_API SELECT 1700000000000001000, 1700000000000002000, 10000, 18219251275923, 0, 0",
        "DROP TABLE CONNECTION_IDS",
    )
    device = read(path).device
    assert device.tasks["launch_ns"].to_list() == [1700000000000001000, None, None]
    assert device.calls.select("level", "start_ns").rows() == [("node", 1700000000000001000)]


@pytest.mark.parametrize("table", ["PYTORCH_API", "CANN_API", "STEP_TIME", "COMMUNICATION_OP", "ENUM_API_TYPE"])
def test_a_table_that_is_not_there_is_empty(tmp_path, table):
    path = sample(tmp_path).database()
    edit(path, f"DROP TABLE {table}")
    recording = read(path)
    assert recording.device.tasks.height == (2 if table == "COMMUNICATION_OP" else 3)
    assert not recording.counts.damaged


def test_sqlites_message_about_a_damaged_schema_is_no_utf_8(tmp_path):
    path = Path(ascend_db.database(str(sample(tmp_path).database())))
    path.write_bytes(path.read_bytes().replace(b"CREATE TABLE CANN", b"CR\xc5ATE TABLE CANN"))
    with pytest.raises(StoreError, match="texts that are not UTF-8"):
        read(path.parent.parent)


@pytest.mark.parametrize("name", ["more than one", "a); SELECT 1; --", '"', "select"])
def test_a_table_with_an_odd_name_hides_no_other(tmp_path, name):
    path = sample(tmp_path).database()
    before = read(path)
    edit(path, 'CREATE TABLE "{}" (x)'.format(name.replace('"', '""')))
    after = read(path)
    assert not after.counts.damaged
    assert after.device.tasks.equals(before.device.tasks) and after.spans.equals(before.spans)


def test_rows_that_make_no_sense_are_counted(tmp_path):
    path = sample(tmp_path).database()
    edit(
        path,
        "UPDATE TASK SET endNs = startNs - 1 WHERE globalTaskId = 0",
        "UPDATE PYTORCH_API SET startNs = 'soon' WHERE connectionId IS NULL AND globalTid % 4294967296 = 4300",
        "INSERT INTO COMPUTE_TASK_INFO VALUES (0, 777, 0, 0, 0)",
    )
    counts = read(path).counts
    assert (counts.damaged_kernels, counts.damaged_events) == (2, 1)


def test_half_a_file(tmp_path):
    made = AscendBuilder(tmp_path)
    made.step(1, 0, 100_000)
    for number in range(3000):
        made.kernel(f"kernel{number}", 10 * number, 10 * number + 5, launch=10 * number)
    path = made.database()
    database = ascend_db.database(str(path))
    with open(database, "r+b") as stream:
        stream.seek(0, 2)
        stream.truncate(stream.tell() // 2)
    try:
        assert read(path).counts.damaged_files
    except StoreError as error:
        assert "malformed" in str(error)


@pytest.mark.parametrize("content", [b"", b"SQLite format 3\x00" + b"\xff" * 4000, b"text"])
def test_text_is_used_where_the_database_is_of_no_use(tmp_path, content):
    path = sample(tmp_path).database()
    database = ascend_db.database(str(path))
    with open(database, "wb") as stream:
        stream.write(content)
    with pytest.raises(StoreError, match="holds no event that can be read"):
        foreign.read(str(path), frozenset())
    text = sample(tmp_path / "text").text()
    shutil.copy(database, text / "ASCEND_PROFILER_OUTPUT")
    recording = foreign.read(str(text), frozenset())
    assert recording.device.tasks.height == 3
    assert (recording.counts.damaged_files[-1][0], recording.counts.damaged) == ("ascend_pytorch_profiler_0.db", True)


def test_reading_leaves_no_file_behind(tmp_path):
    path = sample(tmp_path).database()
    before = sorted(path.rglob("*"))
    read(path)
    assert sorted(path.rglob("*")) == before
