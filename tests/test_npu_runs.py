"""For runs on real NPUs, the analysis gives the same figures as the vendor's tools.

The tests remove the files that the vendor's tools derived before the analysis.
"""

import csv
import json
import os
import shutil
import sqlite3
from decimal import Decimal
from pathlib import Path

import polars as pl
import pytest
from ms_profiler.analysis import catalogue
from ms_profiler.analysis.driver import engine
from ms_profiler.store import layout

VARIABLE = "MS_PROFILER_TEST_DATA"
TEXTS = [(level, rank) for level in ("level0", "level1") for rank in (0, 1)]
#: limits of differences in us; as float64, the vendor's times since the epoch have steps of 0.25 us
STEP_LIMITS = {"Stage": Decimal("0.5"), "Preparing": Decimal("0.5")}
LIMIT = Decimal("0.1")
OPERATOR_LIMIT = Decimal("0.02")
LANES = {"Computing", "Communication", "Communication(Not Overlapped)", "Free"}
#: column of the table -> its name in the vendor's database
IN_DATABASE = {
    "Computing": "computing",
    "Communication(Not Overlapped)": "communication_not_overlapped",
    "Overlapped": "overlapped",
    "Communication": "communication",
    "Free": "free",
    "Stage": "stage",
    "Bubble": "bubble",
    "Communication(Not Overlapped and Exclude Receive)": "communication_not_overlapped_and_exclude_receive",
    "Preparing": "preparing",
}


@pytest.fixture(scope="module")
def runs():
    folder = os.environ.get(VARIABLE, "")
    if not folder:
        pytest.skip(f"{VARIABLE} does not name a folder with runs on NPUs, which are not ours to publish")
    return Path(folder)


@pytest.fixture
def bare(runs, tmp_path):
    """Return a function that copies a result without its derived files, and returns the output folders of both."""

    def copy(level, rank):
        source = runs / level / f"rank{rank}_ascend_pt"
        path = tmp_path / source.name
        shutil.copytree(source, path)
        for place in (path, *path.rglob("*")):
            place.chmod(0o755 if place.is_dir() else 0o644)
        for file in (path / layout.OUTPUT).iterdir():
            table = file.suffix == ".csv" and file.name != layout.KERNEL_DETAILS
            if table or file.name.startswith("communication") or file.name == "analysis.db":
                file.unlink()
        trace = path / layout.OUTPUT / layout.TRACE_VIEW
        if trace.exists():
            events = json.loads(trace.read_text(), parse_float=Decimal)
            pids = overlap_pids(events)
            assert pids
            trace.write_text(json.dumps([event for event in events if event["pid"] not in pids], default=float))
        return source / layout.OUTPUT, path / layout.OUTPUT

    return copy


def overlap_pids(events):
    named = [event for event in events if event["ph"] == "M" and event["name"] == "process_name"]
    return {event["pid"] for event in named if event["args"]["name"] == "Overlap Analysis"}


def table(path):
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


def lanes(path):
    """Return {lane: (number of intervals, their total length in us)} of the overlap lanes in a timeline."""
    events = json.loads(path.read_text(), parse_float=Decimal)
    pids = overlap_pids(events)
    found = {}
    for event in events:
        if event["ph"] == "X" and event["pid"] in pids:
            count, total = found.get(event["name"], (0, Decimal()))
            found[event["name"]] = count + 1, total + Decimal(event["dur"])
    return found


def compare_lanes(ours, theirs):
    assert ours.keys() == theirs.keys() == LANES
    for name, (count, total) in theirs.items():
        assert ours[name][0] == count
        assert abs(ours[name][1] - total) <= LIMIT, name


def compare_steps(ours, theirs):
    assert [row["Step"] for row in ours] == [row["Step"] for row in theirs]
    for own, other in zip(ours, theirs, strict=True):
        for name in IN_DATABASE:
            assert abs(Decimal(own[name]) - Decimal(str(other[name]))) <= STEP_LIMITS.get(name, LIMIT), name


@pytest.mark.parametrize(("level", "rank"), TEXTS)
def test_steps_and_lanes_of_text(bare, level, rank):
    theirs, ours = bare(level, rank)
    engine.analyse([ours.parent])
    expected = table(theirs / layout.STEP_TRACE_TIME)
    rows = table(ours / layout.STEP_TRACE_TIME)
    assert list(rows[0]) == list(expected[0])
    compare_steps(rows, expected)
    compare_lanes(lanes(ours / layout.OVERLAP_ANALYSIS), lanes(theirs / layout.TRACE_VIEW))


@pytest.mark.parametrize("rank", [0, 1])
def test_operators_of_text(bare, rank):
    theirs, ours = bare("level1", rank)
    engine.analyse([ours.parent])
    compare_operators(table(ours / layout.OP_STATISTIC), table(theirs / layout.OP_STATISTIC))


@pytest.mark.parametrize("rank", [0, 1])
def test_calls_of_the_driver(bare, rank):
    theirs, ours = bare("level1", rank)
    engine.analyse([ours.parent])
    derived, expected = (table(folder / layout.API_STATISTIC) for folder in (ours, theirs))
    compare_operators(derived, expected, ("Level", "API Name"))


def compare_operators(ours, theirs, keys=("OP Type", "Core Type")):
    assert list(ours[0]) == list(theirs[0])
    expected = {tuple(row[key] for key in keys): row for row in theirs}
    assert len(ours) == len(theirs) == len(expected)
    for row in ours:
        other = expected[tuple(row[key] for key in keys)]
        for name in row.keys() - set(keys):
            assert abs(Decimal(row[name]) - Decimal(other[name])) <= OPERATOR_LIMIT, (row, name)


@pytest.mark.parametrize("rank", [0, 1])
def test_kernels_of_the_trace_alone(bare, rank):
    theirs, ours = bare("level1", rank)
    (ours / layout.KERNEL_DETAILS).unlink()
    engine.analyse([ours.parent])
    compare_steps(table(ours / layout.STEP_TRACE_TIME), table(theirs / layout.STEP_TRACE_TIME))
    derived, known = (
        {row["Start Time(us)"].strip(): row for row in table(folder / layout.KERNEL_DETAILS)}
        for folder in (ours, theirs)
    )
    # exchanges do not count: the vendor truncates their times, which the trace rounds
    kernels = {start: row for start, row in known.items() if row["Accelerator Core"] != "HCCL"}
    assert kernels.keys() <= derived.keys() and len(derived) == len(known)
    for start, row in kernels.items():
        assert derived[start]["Name"] == row["Name"] and derived[start]["Stream ID"] == row["Stream ID"]
        for column in ("Duration(us)", "Wait Time(us)"):
            assert abs(Decimal(derived[start][column]) - Decimal(row[column])) <= Decimal("0.002"), column


@pytest.mark.parametrize("rank", [0, 1])
def test_database(bare, rank):
    theirs, ours = bare("level1_db", rank)
    engine.analyse([ours.parent])
    rows = table(ours / layout.STEP_TRACE_TIME)
    columns = ", ".join(IN_DATABASE.values())
    with sqlite3.connect(f"file:{theirs / 'analysis.db'}?mode=ro&immutable=1", uri=True) as connection:
        found = connection.execute(f"SELECT step, {columns} FROM StepTraceTime").fetchall()
    connection.close()
    compare_steps(rows, [dict(zip(["Step", *IN_DATABASE], row, strict=True)) for row in found])
    database = theirs / f"ascend_pytorch_profiler_{rank}.db"
    with sqlite3.connect(f"file:{database}?mode=ro&immutable=1", uri=True) as connection:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
        expected = dict.fromkeys(LANES)
        if "OVERLAP_ANALYSIS" in tables:
            sums = connection.execute(
                "SELECT type, count(*), sum(endNs - startNs) FROM OVERLAP_ANALYSIS GROUP BY type ORDER BY type"
            ).fetchall()
            names = ("Computing", "Communication", "Communication(Not Overlapped)", "Free")
            expected = {
                name: (count, Decimal(total) / 1000) for name, (_, count, total) in zip(names, sums, strict=True)
            }
        kernels = connection.execute(
            """SELECT types.value, cores.value, count(*), sum(endNs - startNs), min(endNs - startNs),
                max(endNs - startNs)
            FROM COMPUTE_TASK_INFO JOIN TASK USING (globalTaskId) JOIN STRING_IDS AS types ON types.id = opType
            JOIN STRING_IDS AS cores ON cores.id = COMPUTE_TASK_INFO.taskType GROUP BY 1, 2"""
        ).fetchall()
    connection.close()
    derived = lanes(ours / layout.TRACE_VIEW)
    if all(expected.values()):
        compare_lanes(derived, expected)
    assert derived.keys() == LANES
    ours_by_type = {(row["OP Type"], row["Core Type"]): row for row in table(ours / layout.OP_STATISTIC)}
    assert len(ours_by_type) == len(kernels)
    for kind, core, count, *times in kernels:
        row = ours_by_type[kind, core]
        assert int(row["Count"]) == count
        own = [Decimal(row[name]) for name in ("Total Time(us)", "Min Time(us)", "Max Time(us)")]
        assert own == [Decimal(time) / 1000 for time in times]


def without_groups(content):
    """Return a content with exchanges named without their group, because a trace does not have the group's number."""
    if isinstance(content, dict):
        return {name.partition("@")[0]: without_groups(value) for name, value in content.items()}
    return content


def compare_numbers(ours, theirs, where=""):
    """Check that our values contain the vendor's.

    Texts have to be equal, times to 0.1 us, and shares and quotients to the last digit.
    """
    if isinstance(theirs, dict):
        assert theirs.keys() <= ours.keys(), where
        for key, value in theirs.items():
            compare_numbers(ours[key], value, f"{where}/{key}")
    elif isinstance(theirs, list):
        assert len(ours) == len(theirs), where
        for own, other in zip(ours, theirs, strict=True):
            compare_numbers(own, other, where)
    elif isinstance(theirs, str):
        assert ours == theirs, where
    else:
        # the vendor divides times that have fractions of nanoseconds, some of which are only a few microseconds
        share = 2e-4 if "Bandwidth(GB/s)" in where else 0
        limit = 1.5e-4 if "Ratio" in where else 1e-4
        assert abs(ours - theirs) <= limit + share * abs(theirs), (where, ours, theirs)


@pytest.mark.parametrize("rank", [0, 1])
def test_exchanges_of_text(bare, rank):
    theirs, ours = bare("level1", rank)
    engine.analyse([ours.parent])
    for name in (layout.COMMUNICATION, layout.COMMUNICATION_MATRIX):
        derived, expected = (json.loads((folder / name).read_text()) for folder in (ours, theirs))
        compare_numbers(without_groups(derived), without_groups(expected))
        (step,) = derived
        assert len(derived[step]["collective"]) == len(expected[step]["collective"])


@pytest.mark.parametrize("rank", [0, 1])
def test_exchanges_of_a_database(bare, rank):
    theirs, ours = bare("level1_db", rank)
    engine.analyse([ours.parent])
    content = json.loads((ours / layout.COMMUNICATION).read_text())["step50"]["collective"]
    matrix = json.loads((ours / layout.COMMUNICATION_MATRIX).read_text())["step50"]["collective"]
    with sqlite3.connect(f"file:{theirs / 'analysis.db'}?mode=ro&immutable=1", uri=True) as connection:
        connection.row_factory = sqlite3.Row
        times, bands, links = (
            connection.execute(f"SELECT * FROM CommAnalyzer{name}").fetchall()
            for name in ("Time", "Bandwidth", "Matrix")
        )
    connection.close()
    assert len(times) == len(content) - 1 == 4 and len(bands) == 12 and len(links) == 48
    for row in times:
        own = content[f"{row['hccl_op_name']}@{row['group_name']}"]["Communication Time Info"]
        for name in ("elapse", "transit", "wait", "synchronization", "idle"):
            assert abs(own[f"{name.capitalize()} Time(ms)"] - row[f"{name}_time"]) <= 1e-5, name
    for row in bands:
        own = content[f"{row['hccl_op_name']}@{row['group_name']}"]["Communication Bandwidth Info"]
        link = own[row["transport_type"]]
        assert abs(link["Transit Size(MB)"] - row["transit_size"]) <= 1e-9
        assert abs(link["Transit Time(ms)"] - row["transit_time"]) <= 1e-4
        if row["count"]:
            count, milliseconds = link["Size Distribution"][str(row["package_size"])]
            assert count == row["count"] and abs(milliseconds - row["total_duration"]) <= 1e-4
    for row in links:
        own = matrix[f"{row['hccl_op_name']}@{row['group_name']}"][f"{row['src_rank']}-{row['dst_rank']}"]
        assert own["Transport Type"] == row["transport_type"] and own.get("Op Name", "") == (row["op_name"] or "")
        assert abs(own["Transit Size(MB)"] - row["transit_size"]) <= 1e-9
        assert abs(own["Transit Time(ms)"] - row["transit_time"]) <= 1e-4


@pytest.mark.parametrize(("level", "rank"), [*TEXTS, ("level1_db", 0), ("level1_db", 1)])
def test_analysing_again_gives_the_same_bytes_and_changes_nothing_of_theirs(bare, level, rank):
    _, ours = bare(level, rank)
    before = {path: path.read_bytes() for path in ours.parent.rglob("*") if path.is_file()}
    engine.analyse([ours.parent])
    first = {path: path.read_bytes() for path in ours.parent.rglob("*") if path.is_file()}
    assert before.items() <= first.items() and len(first) > len(before)
    engine.analyse([ours.parent])
    again = {path: path.read_bytes() for path in ours.parent.rglob("*") if path.is_file()}
    assert again == first


def test_ranks_are_found_below_and_written_elsewhere(runs, tmp_path):
    done = engine.analyse([runs / "level1"], output=str(tmp_path / "out"))
    assert [Path(result.directory).name for result in done] == ["rank0_ascend_pt", "rank1_ascend_pt"]
    for result in done:
        folder = Path(result.directory) / layout.OUTPUT
        compare_steps(
            table(folder / layout.STEP_TRACE_TIME),
            table(runs / "level1" / Path(result.directory).name / layout.OUTPUT / layout.STEP_TRACE_TIME),
        )
        assert lanes(folder / layout.TRACE_VIEW).keys() == LANES


@pytest.mark.parametrize("level", ["level0", "level1", "level1_db"])
def test_every_kernel_has_the_operator_that_launched_it(runs, level):
    measures = engine.measured(str(runs / level / "rank0_ascend_pt"))
    kernels = catalogue.named("kernels").of(measures)
    assert kernels.height == 191
    assert not kernels["span"].has_nulls()
    optimizes = kernels.filter(pl.col("part") == "optimizer")
    assert optimizes.height == 4 and set(optimizes["module"]) == {"SGD"}
    assert set(kernels.filter(pl.col("part").ne_missing("optimizer"))["bound"]) == {"operator"}
    spans = dict(zip(*catalogue.named("spans").of(measures).select("id", "name").get_columns(), strict=True))
    launched = {spans[span] for span in kernels.filter(pl.col("name").str.contains("MatMulV2"))["span"]}
    assert launched and all("aclnn" in name or "mm" in name.lower() for name in launched)


def test_without_calls_of_the_runtime_there_is_no_critical_path(runs):
    """At level 0, the host's waits are unknown. A critical path would show a host that never waits."""
    for level, with_path in (("level0", False), ("level1", True)):
        measures = engine.measured(str(runs / level / "rank0_ascend_pt"))
        assert measures.diagnosis.path.is_empty() != with_path
        assert ("the critical path" in [entry["what"] for entry in measures.recording.info.not_collected]) != with_path
        assert sum(measures.diagnosis.shares.values()) == pytest.approx(1)
