import json
import sqlite3

import pytest
from ascend_builder import exchanging, ns, sample
from csv_rows import rows as table
from ms_profiler.analysis.driver import engine
from ms_profiler.analysis.readers import ascend_db
from ms_profiler.store import layout


def add(path, script):
    connection = sqlite3.connect(ascend_db.database(str(path)))
    connection.executescript(script)
    connection.commit()
    connection.close()


@pytest.mark.parametrize("form", ["text", "database"])
def test_memory_of_the_application(tmp_path, form):
    path = getattr(exchanging(tmp_path), form)()
    engine.analyse([path])
    common = {"Component": "APP", "Total Allocated(MB)": "", "Total Active(MB)": "", "Stream Ptr": ""}
    common["Device Type"] = "NPU:0" if form == "text" else "NPU:3"
    assert table(path, layout.MEMORY_RECORD) == [
        {**common, "Timestamp(us)": "1700000000000005.000\t", "Total Reserved(MB)": "2.0"},
        {**common, "Timestamp(us)": "1700000000000015.000\t", "Total Reserved(MB)": "3.0"},
    ]


MEMORY = f"""
CREATE TABLE MEMORY_RECORD (component INTEGER, timestamp INTEGER, totalAllocated INTEGER, totalReserved INTEGER,
    totalActive INTEGER, streamPtr INTEGER, deviceId INTEGER);
CREATE TABLE OP_MEMORY (
    name INTEGER, size INTEGER, allocationTime INTEGER, releaseTime INTEGER,
    activeReleaseTime INTEGER, duration INTEGER, activeDuration INTEGER,
    allocationTotalAllocated INTEGER, allocationTotalReserved INTEGER, allocationTotalActive INTEGER,
    releaseTotalAllocated INTEGER, releaseTotalReserved INTEGER, releaseTotalActive INTEGER,
    streamPtr INTEGER, deviceId INTEGER);
CREATE TABLE NPU_MODULE_MEM (moduleId INTEGER, timestampNs INTEGER, totalReserved NUMERIC, deviceId INTEGER);
CREATE TABLE ENUM_MODULE (id INTEGER PRIMARY KEY, name TEXT);
INSERT INTO STRING_IDS VALUES (9001, 'PTA'), (9002, 'aten::empty');
INSERT INTO MEMORY_RECORD VALUES (9001, {ns(1)}, 1048576, 4194304, 524288, 77, 3), (NULL, {ns(2)}, 1, 1, 1, 1, 3),
    (9001, 'soon', 1, 1, 1, 1, 3);
INSERT INTO OP_MEMORY VALUES
    (9002, 2048, {ns(1)}, {ns(4)}, {ns(3)}, 3000, 2000, 1048576, 4194304, 524288, 0, 4194304, 0, 77, 3),
    (9002, 512, {ns(2)}, NULL, NULL, NULL, NULL, 1048576, 4194304, 524288, NULL, NULL, NULL, 77, 3);
INSERT INTO ENUM_MODULE VALUES (4, 'HCCL');
INSERT INTO NPU_MODULE_MEM VALUES (4, {ns(1)}, 3145728, 3), (99, {ns(1)}, 1, 3);
"""


def test_components_operators_and_modules_of_a_database(tmp_path):
    path = sample(tmp_path).database()
    add(path, MEMORY)
    engine.analyse([path])
    (row,) = table(path, layout.MEMORY_RECORD)
    counted = json.loads((path / layout.SUMMARY).read_text())["completeness"]["damaged_memory"]
    # the rows without a component, with an invalid time, and of an unknown module
    assert counted == 3
    assert list(row.values()) == ["PTA", "1700000000000001.000\t", "1.0", "4.0", "0.5", "77", "NPU:3"]
    first, second = table(path, layout.OPERATOR_MEMORY)
    times = [f"170000000000000{number}.000\t" for number in (1, 4, 3)]
    totals = ["1.0", "4.0", "0.5", "0.0", "4.0", "0.0"]
    assert list(first.values()) == ["aten::empty", "2.0", *times, "3.000", "2.000", *totals, "77", "NPU:3"]
    assert [second[name] for name in ("Size(KB)", "Release Time(us)", "Duration(us)")] == ["0.5", "", ""]
    (module,) = table(path, layout.MODULE_MEMORY)
    assert list(module.values()) == ["HCCL", "1700000000000001.000\t", "3.0", "NPU:3"]


def test_mindspore_writes_na(tmp_path):
    made = sample(tmp_path)
    made.suffix = "_ascend_ms"
    path = made.database()
    add(path, MEMORY)
    engine.analyse([path])
    assert "Stream Ptr" not in table(path, layout.MEMORY_RECORD)[0]
    assert table(path, layout.OPERATOR_MEMORY)[1]["Release Time(us)"] == "N/A"


def test_tables_without_records_are_absent_and_reported(tmp_path):
    path = sample(tmp_path).text()
    engine.analyse([path])
    assert not (path / layout.OUTPUT / layout.MEMORY_RECORD).exists()
    reasons = {item["what"]: item["why"] for item in json.loads((path / layout.SUMMARY).read_text())["not_collected"]}
    assert reasons[layout.MEMORY_RECORD] == "memory was not recorded"
    assert "database" in reasons[layout.OPERATOR_MEMORY]
    assert "level 1" in reasons[layout.COMMUNICATION]
