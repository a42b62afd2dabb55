import csv
import json
import shutil
import sqlite3

import pytest
from ascend_builder import exchanging, sample
from ms_profiler.analysis.driver import engine
from ms_profiler.cli import main
from ms_profiler.errors import MsProfilerError
from ms_profiler.store import layout
from ms_profiler.store.format import Category
from store_builder import MS, ThreadBuilder, compiled, folder_of, training
from test_sections import operators
from test_thinning import small  # noqa: F401 - a fixture

OURS = "ascend_mindspore_profiler_0.db"
#: tables that are the same for every source of a run
TABLES = (layout.STEP_TRACE_TIME, layout.OP_STATISTIC)


def query(path, statement):
    connection = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    try:
        return connection.execute(statement).fetchall()
    finally:
        connection.close()


def exchanging_run(parent, **info):
    """Write a run of ms-profiler in which operators launch kernels and each step exchanges gradients."""
    store = compiled(parent, windows=1, **info)
    thread = ThreadBuilder(store.processes[0], 1, "MainThread", 4242)
    thread.instant("group world ranks 0,1", Category.COMMUNICATION, 51 * MS, 2)
    for number in range(20):
        start = (59 + 10 * number) * MS
        thread.span("AllReduce@world", Category.COMMUNICATION, start, start + MS // 2, arg=4_000_000)
    return store.write()


@pytest.fixture
def run(tmp_path):
    path = exchanging_run(tmp_path / "run", world_size=2, options={"start": True, "export_type": ["text", "db"]})
    engine.analyse([path])
    return path


def moved(database, tmp_path):
    """Return the path of a new result that consists of a database only."""
    output = tmp_path / "moved" / f"host_1_2{database.parent.parent.name[-10:]}" / layout.OUTPUT
    output.mkdir(parents=True)
    shutil.copy(database, output)
    return output.parent


def test_our_own_run_reads_back_with_the_same_steps_and_operators(run, tmp_path):
    back = moved(folder_of(run) / OURS, tmp_path)
    engine.analyse([back])
    for name in TABLES:
        assert (folder_of(back) / name).read_bytes() == (folder_of(run) / name).read_bytes(), name


def test_rows_of_our_own_run(run):
    path = folder_of(run) / OURS
    rows = query(
        path,
        """SELECT names.value, types.value, cores.value, shapes.value, endNs - startNs, globalPid
        FROM COMPUTE_TASK_INFO AS info JOIN TASK USING (globalTaskId) JOIN STRING_IDS AS names ON names.id = info.name
        JOIN STRING_IDS AS types ON types.id = opType JOIN STRING_IDS AS cores ON cores.id = info.taskType
        JOIN STRING_IDS AS shapes ON shapes.id = inputShapes ORDER BY startNs""",
    )
    assert len(rows) == 60
    assert [row[1:] for row in rows[:3]] == [
        ("MatMul", "HOST_CPU", '"4,8;8,8;"', 2 * MS, 4242),
        ("MatMul", "HOST_CPU", '"4,8;8,8"', 3 * MS, 4242),
        ("ApplyMomentum", "HOST_CPU", '"8,8;8,8"', MS // 2, 4242),
    ]
    exchanges = query(
        path,
        """SELECT names.value, types.value, groups.value, endNs - startNs FROM COMMUNICATION_OP
        JOIN STRING_IDS AS names ON names.id = opName JOIN STRING_IDS AS types ON types.id = opType
        JOIN STRING_IDS AS groups ON groups.id = groupName ORDER BY startNs""",
    )
    assert len(exchanges) == 20 and exchanges[3][1:] == ("hcom_allReduce_", "world", MS // 2)
    assert query(path, "SELECT min(id), max(id), sum(endNs - startNs) FROM STEP_TIME") == [(0, 19, 200 * MS)]
    calls = query(path, "SELECT count(*), min(globalTid >> 32), min(globalTid % 4294967296) FROM PYTORCH_API")
    assert calls == [(60, 4242, 4242)]
    metadata = dict(query(path, "SELECT name, value FROM META_DATA"))
    assert json.loads(metadata["parallel_group_info"])["world"]["global_ranks"] == [0, 1]
    assert query(path, "SELECT hostName FROM HOST_INFO") == [("host",)]
    assert query(path, "SELECT count(*) FROM CANN_API") == [(0,)]


@pytest.mark.parametrize(
    ("build", "suffix"),
    [
        (sample, "_ascend_pt"),
        (exchanging, "_ascend_ms"),
        pytest.param(sample, "_ascend_ms", marks=pytest.mark.slow),
        pytest.param(exchanging, "_ascend_pt", marks=pytest.mark.slow),
    ],
)
def test_text_of_another_tool_reads_back_with_the_same_tables(tmp_path, build, suffix):
    made = build(tmp_path / "text")
    made.suffix = suffix
    path = made.text()
    assert main(["analyse", str(path), "--export", "db"]) == 0
    framework = "pytorch" if suffix == "_ascend_pt" else "mindspore"
    database = path / layout.OUTPUT / f"ascend_{framework}_profiler_0.db"
    back = moved(database, tmp_path)
    engine.analyse([back])
    names = [*TABLES, layout.API_STATISTIC, layout.COMMUNICATION, layout.COMMUNICATION_MATRIX, layout.MEMORY_RECORD]
    there = [name for name in names if (path / layout.OUTPUT / name).exists()]
    assert len(there) == (6 if build == exchanging else 3)
    for name in there:
        assert (folder_of(back) / name).read_bytes() == (path / layout.OUTPUT / name).read_bytes(), name


def test_a_task_is_connected_with_both_calls_that_launched_it(tmp_path):
    made = exchanging(tmp_path)
    made.call("aten::linear", 5, 9)
    made.call("aten::mm", 5, 8)
    made.driven = (0,)
    path = made.text()
    engine.analyse([path], forms=["db"])
    rows = query(
        path / layout.OUTPUT / "ascend_pytorch_profiler_0.db",
        """SELECT CANN_API.startNs, texts.value FROM TASK JOIN CANN_API USING (connectionId)
        JOIN CONNECTION_IDS USING (connectionId) JOIN PYTORCH_API ON PYTORCH_API.connectionId = CONNECTION_IDS.id
        JOIN STRING_IDS AS texts ON texts.id = PYTORCH_API.name""",
    )
    assert rows == [(1_700_000_000_000_001_000, "aten::mm")]


def test_a_database_of_ours_is_no_source_and_is_renewed(tmp_path):
    path = sample(tmp_path).text()
    database = path / layout.OUTPUT / "ascend_pytorch_profiler_0.db"
    engine.analyse([path], forms=["db"])
    first = database.read_bytes()
    summary = json.loads((path / layout.SUMMARY).read_text())
    assert f"{layout.OUTPUT}/{database.name}" in summary["derived"]["written"]
    engine.analyse([path], forms=["db"])
    again = json.loads((path / layout.SUMMARY).read_text())
    assert database.read_bytes() == first and again == summary
    assert again["device"]["files"] == [layout.TRACE_VIEW, layout.KERNEL_DETAILS]
    engine.analyse([path])
    assert not database.exists()


def test_a_database_is_written_only_on_request(tmp_path):
    path = compiled(tmp_path).write()
    engine.analyse([path])
    assert not [file.name for file in folder_of(path).iterdir() if file.suffix == ".db"]
    engine.analyse([path], forms=["db"])
    assert (folder_of(path) / OURS).exists()
    # a result that is a database itself gets no second database
    database = sample(tmp_path / "db").database()
    engine.analyse([database], forms=["db"])
    assert not (database / layout.OUTPUT / "analysis.db").exists()


def test_the_same_run_gives_the_same_bytes(run):
    before = {name: (folder_of(run) / name).read_bytes() for name in (OURS, layout.COMMUNICATION_DB)}
    engine.analyse([run])
    assert before == {name: (folder_of(run) / name).read_bytes() for name in before}
    assert (folder_of(run) / OURS).stat().st_mode & 0o777 == 0o640


def test_chosen_steps_alone(run):
    engine.analyse([run], step_list=[3, 4])
    path = folder_of(run) / OURS
    assert query(path, "SELECT id FROM STEP_TIME") == [(3,), (4,)]
    assert query(path, "SELECT count(*) FROM COMPUTE_TASK_INFO") == [(6,)]
    assert query(path, "SELECT count(*) FROM COMMUNICATION_OP") == [(2,)]


def test_a_failed_write_leaves_the_old_database(run, monkeypatch):
    path = folder_of(run) / OURS
    before, names = path.read_bytes(), sorted(folder_of(run).iterdir())

    def full(*_):
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr("ms_profiler.analysis.writers.database_schema.Table.create", full)
    with pytest.raises(MsProfilerError, match=rf"Cannot write .*{OURS}: database or disk is full\."):
        engine.analyse([run])
    assert path.read_bytes() == before and sorted(folder_of(run).iterdir()) == names


def test_a_form_that_is_none(run, capsys):
    with pytest.raises(SystemExit) as exit_:
        main(["analyse", str(run), "--export", "sqlite"])
    assert exit_.value.code == 2
    assert "some of db, html, kineto, parquet, separated by commas, not sqlite" in capsys.readouterr().err


def test_operators_that_compute_as_they_are_called_are_the_tasks(tmp_path):
    framework = {"name": "torch", "version": "2.13.0", "device": "CPU"}
    store = training(tmp_path, steps=1, framework=framework, options={"export_type": ["db"]})
    thread = ThreadBuilder(store.processes[0], 1, "MainThread", 4242)
    thread.span("aten::addmm", Category.OP, 156 * MS + 1000, 156 * MS + 3000)
    path = store.write()
    engine.analyse([path])
    joined = query(
        folder_of(path) / OURS,
        """SELECT kernels.value, calls.value, TASK.startNs = PYTORCH_API.startNs + 0 FROM COMPUTE_TASK_INFO
        JOIN TASK USING (globalTaskId) JOIN STRING_IDS AS kernels ON kernels.id = COMPUTE_TASK_INFO.name
        JOIN CONNECTION_IDS ON CONNECTION_IDS.connectionId = TASK.connectionId
        JOIN PYTORCH_API ON PYTORCH_API.connectionId = CONNECTION_IDS.id
        JOIN STRING_IDS AS calls ON calls.id = PYTORCH_API.name""",
    )
    assert sorted(joined) == [("MatMul", "MatMul", 1), ("aten::addmm", "aten::addmm", 1)]
    lengths = query(folder_of(path) / OURS, "SELECT endNs - startNs FROM TASK ORDER BY startNs")
    assert lengths == [(MS - 2000,), (2000,)]
    with open(folder_of(path) / layout.KERNEL_DETAILS, newline="") as stream:
        assert [row["Name"] for row in csv.DictReader(stream)] == ["MatMul", "aten::addmm"]


def test_steps_missing_in_the_database_of_a_long_run_are_reported(tmp_path, small, capsys):  # noqa: F811
    path = operators(tmp_path).write()
    assert main(["analyse", str(path), "--export", "db"]) == 0
    ((held,),) = query(path / layout.OUTPUT / OURS, "SELECT count(*) FROM PYTORCH_API")
    err = capsys.readouterr().err
    detailed = json.loads((path / "summary.json").read_text())["coverage"]["detailed_steps"]
    assert 0 < len(detailed) < 40
    assert f"{OURS} holds the spans and kernels of {len(detailed)} of 40 steps" in err
    assert held < 40 * 80
    assert main(["analyse", str(path)]) == 0
    assert capsys.readouterr().err == ""


def test_an_impossible_export_is_reported(tmp_path, capsys):
    trace = tmp_path / "t.pt.trace.json"
    trace.write_text(json.dumps([{"ph": "X", "name": "op", "cat": "cpu_op", "pid": 1, "tid": 1, "ts": 1, "dur": 5}]))
    assert main(["analyse", str(trace), "--export", "db,kineto,parquet"]) == 0
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith(f"ms-profiler: --export db makes no database of {trace}: ")
    assert second.startswith(f"ms-profiler: --export kineto makes nothing of {trace}: ")
    assert list((tmp_path / "t.pt.trace_analysis").rglob("*.parquet"))
