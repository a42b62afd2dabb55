"""The analysis uses the readable parts of other tools' damaged results, and counts the unreadable ones.

A result without readable parts is an error.
"""

import json
import sqlite3

import pytest
from ascend_builder import absolute, exchanging
from csv_rows import rows
from ms_profiler.analysis.readers import ascend_db
from ms_profiler.cli import main
from ms_profiler.store import layout

EVENT = {"ph": "X", "name": "bad", "pid": 4242, "tid": 4242, "args": {}}
PART = {"ph": "X", "name": "Memcpy", "pid": 3_000_000_002, "tid": 2, "ts": absolute(41), "dur": 1}


def analyse(path, capsys):
    """Analyse a result; return the exit code, stderr, and the counts of the summary if there is one."""
    code = main(["analyse", str(path)])
    summary = path / layout.SUMMARY
    content = json.loads(summary.read_text()) if summary.exists() else {}
    return code, capsys.readouterr().err, content.get("completeness")


def edit_trace(path, *events):
    trace = path / layout.OUTPUT / layout.TRACE_VIEW
    trace.write_text(json.dumps([*json.loads(trace.read_text()), *events]))


def edit_table(path, *lines):
    table = path / layout.OUTPUT / layout.KERNEL_DETAILS
    table.write_text(table.read_text() + "".join(f"{line}\n" for line in lines))


@pytest.fixture
def text(tmp_path):
    made = exchanging(tmp_path)
    made.kernel("Add1", 60, 70, launch=61)
    return made.text()


@pytest.mark.parametrize(
    ("events", "counted"),
    [
        ([{**EVENT, "ts": "soon", "dur": 1}], 1),
        ([{**EVENT, "ts": absolute(5), "dur": "long"}], 1),
        ([{**EVENT, "ts": absolute(5), "dur": -1}], 1),
        ([{**EVENT, "ts": [1], "dur": {}}], 1),
        ([{**EVENT, "ph": "E", "ts": absolute(5)}, 7, None, "x", {"ph": 3}], 5),
        ([{**PART, "args": {"size(Byte)": "many", "transport type": "SDMA", "link type": "HCCS"}}], 1),
        ([{**PART, "args": {"size(Byte)": -4, "transport type": "SDMA", "link type": "HCCS"}}], 1),
        # the part belongs to no exchange
        ([{**PART, "ts": absolute(90), "args": {"size(Byte)": 4, "transport type": "SDMA", "link type": "HCCS"}}], 1),
    ],
)
def test_events_that_make_no_sense_are_counted(text, capsys, events, counted):
    edit_trace(text, *events)
    code, err, counts = analyse(text, capsys)
    assert (code, counts["damaged_events"]) == (0, counted)
    assert f"{counted} events that cannot be read" in err
    assert [row["Computing"] for row in rows(text, layout.STEP_TRACE_TIME)] == ["30.000"]
    content = json.loads((text / layout.OUTPUT / layout.COMMUNICATION).read_text())
    assert content["step7"]["collective"]["Total Op Info"]["Communication Time Info"]["Transit Time(ms)"] == 0.013


@pytest.mark.parametrize(
    "line",
    [
        "2,Bad,Add,AI_CORE,1700000000000080.000,-3,0",
        "2,Bad,Add,AI_CORE,1700000000000080.000,long,0",
        "2,Bad,Add,AI_CORE,,1,0",
        "2,Bad",
        "2,Bad,Add,AI_CORE,99999999999999999999999,1,0",
    ],
)
def test_rows_of_the_table_that_make_no_sense_are_counted(text, capsys, line):
    edit_table(text, line)
    code, err, counts = analyse(text, capsys)
    assert (code, counts["damaged_kernels"]) == (0, 1) and "1 kernels that cannot be read" in err
    assert [row["Computing"] for row in rows(text, layout.STEP_TRACE_TIME)] == ["30.000"]


@pytest.mark.parametrize("name", [layout.TRACE_VIEW, layout.KERNEL_DETAILS])
@pytest.mark.parametrize("content", [b"", b"\x00" * 64, b"{}", b"[", b"\xff\xfe\x00"])
def test_one_file_of_no_use_leaves_the_other(text, capsys, name, content):
    (text / layout.OUTPUT / name).write_bytes(content)
    code, err, _ = analyse(text, capsys)
    assert code == 0 and name in err
    assert len(rows(text, layout.OP_STATISTIC if name == layout.TRACE_VIEW else layout.STEP_TRACE_TIME)) == 1


def test_a_trace_cut_anywhere_is_used_up_to_there(text, capsys):
    trace = text / layout.OUTPUT / layout.TRACE_VIEW
    whole = trace.read_bytes()
    (text / layout.OUTPUT / layout.KERNEL_DETAILS).unlink()
    found = []
    for share in (3, 2, 1):
        trace.write_bytes(whole[: len(whole) * share // 4])
        code, err, _ = analyse(text, capsys)
        found.append(code)
        if code == 0:
            assert "no whole JSON" in err
        else:
            assert code == 2 and "holds no event that can be read" in err
    assert found[0] == 0


def test_an_unreadable_result_is_an_error_that_names_it(text, capsys):
    for name in (layout.TRACE_VIEW, layout.KERNEL_DETAILS):
        (text / layout.OUTPUT / name).write_bytes(b"")
    assert main(["analyse", str(text)]) == 2
    err = capsys.readouterr().err
    assert f"{text} holds no event that can be read" in err and len(err.splitlines()) <= 2
    assert not (text / layout.SUMMARY).exists()


def test_a_clock_that_jumps_moves_no_step(text, capsys):
    """Kernels from the years 1970 and 2200 are in the kernel table, but in no step."""
    edit_table(text, "2,Early,Add,AI_CORE,12.500,1,0", "2,Late,Add,AI_CORE,7258118400000000.000,1,0")
    code, _, _ = analyse(text, capsys)
    assert code == 0
    (step,) = rows(text, layout.STEP_TRACE_TIME)
    assert (step["Computing"], step["Communication"]) == ("30.000", "30.000")


def test_steps_that_go_back_in_time_do_not_overlap(tmp_path, capsys):
    made = exchanging(tmp_path)
    made.step(8, 50, 150)
    made.step(9, 40, 160)
    made.kernel("Add1", 120, 130, launch=110)
    path = made.text()
    code, _, _ = analyse(path, capsys)
    steps = rows(path, layout.STEP_TRACE_TIME)
    assert code == 0 and sum(float(row["Computing"]) for row in steps) == 30.0


@pytest.mark.parametrize(
    ("statement", "kind", "counted"),
    [
        ("UPDATE TASK SET endNs = startNs - 1 WHERE globalTaskId = 1", "damaged_kernels", 1),
        ("UPDATE STRING_IDS SET value = x'ff00' WHERE value = 'Add1'", "damaged_kernels", 1),
        ("UPDATE COMMUNICATION_TASK_INFO SET size = 'many' WHERE globalTaskId = 2001", "damaged_events", 1),
        ("INSERT INTO STEP_TIME VALUES (8, 'soon', 5)", "damaged_events", 1),
        ("UPDATE NPU_MEM SET timestampNs = 'soon'", "damaged_memory", 2),
        *(
            pytest.param(*each, marks=pytest.mark.slow)
            for each in (
                ("UPDATE TASK SET startNs = 'soon' WHERE globalTaskId = 1", "damaged_kernels", 1),
                ("UPDATE TASK SET streamId = 'two' WHERE globalTaskId = 1", None, 0),
                ("UPDATE COMPUTE_TASK_INFO SET name = 4711 WHERE globalTaskId = 1", "damaged_kernels", 1),
                ("UPDATE PYTORCH_API SET endNs = x'ff' WHERE connectionId = 1", "damaged_events", 1),
                # parts have no details, as at a low profiler level
                ("UPDATE COMMUNICATION_TASK_INFO SET size = -1, transportType = 65534", None, 0),
                ("UPDATE COMMUNICATION_TASK_INFO SET size = -1", "damaged_events", 7),
                ("UPDATE COMMUNICATION_TASK_INFO SET opId = 5 WHERE globalTaskId = 2001", "damaged_events", 1),
                ("INSERT INTO STEP_TIME VALUES (8, 6, 5)", "damaged_events", 1),
                ("INSERT INTO CANN_API VALUES ('soon', 5, 10000, 1, 77, 0)", "damaged_events", 1),
                ("UPDATE COMMUNICATION_OP SET groupName = 'g', connectionId = 'c'", None, 0),
                ("UPDATE RANK_DEVICE_MAP SET deviceId = 'three'", None, 0),
            )
        ),
    ],
)
def test_cells_of_a_database_that_make_no_sense_are_counted(tmp_path, capsys, statement, kind, counted):
    made = exchanging(tmp_path)
    made.kernel("Add1", 60, 70, launch=61)
    path = made.database()
    connection = sqlite3.connect(ascend_db.database(str(path)))
    assert connection.execute(statement).rowcount
    connection.commit()
    connection.close()
    code, err, counts = analyse(path, capsys)
    assert code == 0 and bool(err) == bool(counted)
    assert {name: number for name, number in counts.items() if name.startswith("damaged_") and number} == (
        {kind: counted} if kind else {}
    )
    assert len(rows(path, layout.KERNEL_DETAILS)) == 3 - (kind == "damaged_kernels")
