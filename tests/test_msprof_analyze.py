"""MindStudio's own command msprof-analyze reads our result directories.

`make test` makes a separate environment for the command inside ours: it needs numpy 2, and MindSpore needs numpy 1.
"""

import csv
import json
import re
import sqlite3
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from conftest import PROGRAMS, environment
from launches import msrun
from ms_profiler.analysis.driver import engine
from ms_profiler.store.format import Category
from store_builder import MS, ThreadBuilder, compiled, folder_of, write_training
from timeline import bounds, lanes, nanoseconds
from workbook import sheets

COMMAND = Path(sys.prefix) / "tools" / "bin" / "msprof-analyze"
#: The command's warnings about all results of a processor: files, lanes and columns that only a device can fill.
NO_DEVICE = (
    "operator_memory.csv does not exist",
    "memory_record.csv does not exist",
    "Can't find any memory event",
    "Can't find any flow event",
    "Can not find ai core frequency",
    "not contain aic_mte2_time",
    "Skip AICorePerformanceChecker",
)
#: The command's warnings that do not depend on the results.
ALWAYS = ("Do not run this tool as root", "OverallSummaryAnalyzer don't rely on any dataset")
#: The command's warnings about results without exchanges between ranks.
ALONE = (
    "does not have valid communication data",
    "comm_group_parallel_info not in",
    "communication.json does not exist",
    "Please ensure communication.json",
    "Can't find any communication op",
)
WORLD = "mccl_world_group"


def run(*words, expected=()):
    """Run the command, check that it prints no error and no unexpected warning, and return its output."""
    done = subprocess.run([COMMAND, *map(str, words)], capture_output=True, text=True, check=False, timeout=300)
    output = done.stdout + done.stderr
    assert done.returncode == 0 and "ERROR" not in output and "Traceback" not in output, output
    known = (*ALWAYS, *NO_DEVICE, *expected)
    warnings = [line for line in output.splitlines() if "[WARNING]" in line]
    assert not [line for line in warnings if not any(text in line for text in known)]
    return output


def table(path):
    with open(path, newline="") as stream:
        return list(csv.DictReader(stream))


@pytest.fixture
def results(tmp_path):
    """Return the results of two ranks under one parent directory."""
    names = [f"host_{pid}_2026010100000012{pid}_ascend_ms" for pid in (1, 2)]
    paths = [
        write_training(tmp_path / "data", name=name, rank=rank, world_size=2, steps=20 - rank)
        for rank, name in enumerate(names)
    ]
    engine.analyse(paths)
    return paths


@pytest.mark.slow
def test_cluster_accepts_both_ranks(results, tmp_path):
    run("cluster", "-d", results[0].parent, "-m", "all", "-o", tmp_path / "out", expected=ALONE)
    (file,) = (tmp_path / "out").rglob("cluster_step_trace_time.csv")
    rows = table(file)
    assert sorted({row["Index"] for row in rows}) == ["0", "1"]
    assert len(rows) == 20 + 19
    assert {float(row["Computing"]) for row in rows} == {6500.0}


def test_compare_accepts_two_results(results, tmp_path):
    no_kernels = ("kernel_details.csv does not exist", "Can't find any valid kernels")
    output = run("compare", "-d", results[0], "-bp", results[1], "-o", tmp_path / "out", expected=ALONE + no_kernels)
    assert list((tmp_path / "out").glob("*.xlsx"))
    # 20 steps have 6.5 ms computing and 3.5 ms free each, and 100 ms of compiling; the other result has one step less
    assert "0.130s" in output and "0.300s" in output and "0.290s" in output


@pytest.fixture
def kernels(tmp_path):
    """Return the results of two ranks that run compiled kernels and exchange gradients."""
    return run_kernels(tmp_path)


@pytest.fixture
def databases(tmp_path):
    """Return the results of the same two ranks, with databases."""
    return run_kernels(tmp_path, options={"export_type": ["text", "db"]})


def run_kernels(tmp_path, **info):
    paths = []
    for rank in range(2):
        name = f"host_{rank + 1}_2026010100000012{rank}_ascend_ms"
        store = compiled(tmp_path / "data", name=name, rank=rank, world_size=2, windows=1, **info)
        thread = ThreadBuilder(store.processes[0], 1, "MainThread", 4242)
        thread.instant("group world ranks 0,1", Category.COMMUNICATION, 51 * MS, 2)
        for number in range(20):
            start = (59 + 10 * number) * MS
            thread.span("AllReduce@world", Category.COMMUNICATION, start, start + MS // 2, arg=4_000_000)
            thread.span("MatMul", Category.OP, start - 7 * MS, start - 6 * MS)
        paths.append(store.write())
    engine.analyse(paths)
    return paths


@pytest.mark.slow
def test_cluster_reads_kernels_and_communication_of_both_ranks(kernels, tmp_path):
    run("cluster", "-d", kernels[0].parent, "-m", "all", "-o", tmp_path / "out")
    (file,) = (tmp_path / "out").rglob("cluster_step_trace_time.csv")
    rows = table(file)
    assert len(rows) == 40
    times = ("Computing", "Communication", "Overlapped", "Free", "Stage", "Preparing")
    assert {tuple(float(row[name]) for name in times) for row in rows} == {(5500, 500, 0, 4000, 10000, 2000)}
    (file,) = (tmp_path / "out").rglob("cluster_communication.json")
    content = json.loads(file.read_text())
    assert list(content) == ["(0, 1)"] and len(content["(0, 1)"]) == 20
    (file,) = (tmp_path / "out").rglob("cluster_communication_matrix.json")
    matrix = json.loads(file.read_text())["(0, 1)"]["step0"]["allreduce-total@world"]
    assert set(matrix) == {"0-0", "1-1"} and matrix["1-1"]["Transit Size(MB)"] == 4.0


def test_compare_has_kernels_operators_and_communication(kernels, tmp_path):
    output = run("compare", "-d", kernels[0], "-bp", kernels[1], "-o", tmp_path / "out")
    # 20 steps have 5.5 ms computing each, and 0.5 ms communication that overlaps nothing
    assert "0.110s" in output and "0.010s" in output
    found = sheets(tmp_path / "out")
    assert {"OverallMetrics", "KernelCompare", "CommunicationCompare", "OperatorCompare"} <= set(found)
    assert len(found["KernelCompare"]) > 4 and len(found["OperatorCompare"]) > 20
    assert found["CommunicationCompare"][2][:5] == [1, "allreduce", None, 20, 10_000]


@pytest.mark.slow
def test_advisor_accepts_kernels(kernels, tmp_path):
    assert "110.0ms" in run("advisor", "all", "-d", kernels[0], "-pt", "mindspore", "-o", tmp_path / "out")


#: The command's warnings about databases. The numbers of MindSpore's cards are in raw data of CANN, and no device did
#: anything that only its driver records.
NO_DRIVER = (
    "No RANK_DEVICE_MAP data",
    "No host info data",
    "No rank device map data",
    "no metadata or distributed args",
    "not found in",
    "No API statistic data",
)


def tables_of(path):
    connection = sqlite3.connect(path)
    try:
        return {
            name: connection.execute(f"SELECT * FROM [{name}]").fetchall()
            for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        }
    finally:
        connection.close()


def recipe(name, paths, tmp_path):
    """Run a recipe of the command, and return the tables that it writes by name."""
    run("cluster", "-m", name, "-d", paths[0].parent, "-o", tmp_path / "out", "--export_type", "db", expected=NO_DRIVER)
    (file,) = (tmp_path / "out").rglob("cluster_analysis.db")
    return tables_of(file)


@pytest.mark.slow
def test_cluster_reads_databases(databases, tmp_path):
    found = recipe("all", databases, tmp_path)
    # one row for each rank over all steps: computing, communication without overlap, overlapped, communication
    assert sorted(row[2] for row in found["ClusterStepTraceTime"]) == ["0", "1"]
    assert {row[3:7] for row in found["ClusterStepTraceTime"]} == {(110_000, 10_000, 0, 10_000)}
    ((kind, ranks, _, group, _),) = found["CommunicationGroupMapping"]
    assert (kind, ranks, group) == ("collective", "(0,1)", "world")
    # for each rank, one exchange in each step, and their sum
    assert len(found["ClusterCommunicationTime"]) == len(found["ClusterCommunicationBandwidth"]) == 2 * 20 * 2
    totals = {row[3:6] + row[7:] for row in found["ClusterCommunicationMatrix"] if row[1] == "Total Op Info"}
    assert totals == {(rank, rank, "LOCAL", 80, 10, 8.0) for rank in (0, 1)}


@pytest.mark.slow
def test_compare_reads_databases(databases, tmp_path):
    output = run("compare", "-d", databases[0], "-bp", databases[1], "-o", tmp_path / "out")
    # 20 steps have 5.5 ms computing each, and 0.5 ms communication that overlaps nothing
    assert "0.110s" in output and "0.010s" in output


@pytest.mark.slow
def test_recipes_read_kernels_of_databases(databases, tmp_path):
    found = recipe("compute_op_sum", databases, tmp_path)
    counts = {row[:3] for row in found["ComputeOpAllRankStats"]}
    assert counts == {("MatMul", "HOST_CPU", 80), ("ApplyMomentum", "HOST_CPU", 40)}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["hccl_sum", "free_analysis", "slow_rank", "export_summary"])
def test_more_recipes_read_databases(databases, tmp_path, name):
    output = run("cluster", "-m", name, "-d", databases[0].parent, "-o", tmp_path / "out", expected=NO_DRIVER)
    assert re.search(r"Recipe \w+ analysis finished", output)


# -- real jobs


@pytest.fixture(scope="module", params=["graph", "pynative"])
def distributed(request, tmp_path_factory):
    """Return the results of a data-parallel job of two workers, sorted by rank."""
    directory = tmp_path_factory.mktemp(request.param)
    options = {"start": True, "output_path": str(directory / "data")}
    logs = msrun(directory, PROGRAMS / "data_parallel.py", request.param, 6, options=options)
    assert [sum(line.startswith(f"rank {rank} of 2") for line in log) for rank, log in enumerate(logs)] == [1, 1]
    paths = sorted(
        (directory / "data").glob("*_ascend_ms"),
        key=lambda path: json.loads((path / "summary.json").read_text())["rank"],
    )
    for rank, path in enumerate(paths):
        assert [file.name for file in path.glob("profiler_info_*")] == [f"profiler_info_{rank}.json"]
    assert len(paths) == 2
    return paths


def communication(path):
    """Return {(step, name): (ms, MB)} of a rank's collectives, and {step: (ms, MB)} of their sums."""
    content = json.loads((folder_of(path) / "communication.json").read_text())
    calls, totals = {}, {}
    for step, kinds in content.items():
        assert kinds["p2p"] == {}
        for name, call in kinds["collective"].items():
            link = call["Communication Bandwidth Info"]["TCP"]
            values = call["Communication Time Info"]["Elapse Time(ms)"], link["Transit Size(MB)"]
            if name == "Total Op Info":
                totals[step] = values
            else:
                calls[step, name] = values
    return calls, totals


@pytest.mark.slow
def test_each_rank_of_a_job_is_complete(distributed):
    for rank, path in enumerate(distributed):
        metadata = json.loads((path / "profiler_metadata.json").read_text())
        (group,) = metadata["parallel_group_info"].values()
        assert (group["group_rank"], group["global_ranks"]) == (rank, [0, 1])
        assert metadata["distributed_args"]["data_parallel_size"] == 2
    names = [{file.name for file in folder_of(path).iterdir()} for path in distributed]
    assert (
        names[0]
        == names[1]
        > {
            "trace_view.json",
            "step_trace_time.csv",
            "kernel_details.csv",
            "op_statistic.csv",
            "api_statistic.csv",
            "communication.json",
            "communication_matrix.json",
        }
    )
    for path in distributed:
        calls, totals = communication(path)
        # the two layers have 64 x 128 weights with 128 biases, and 128 x 10 with 10, as float32
        sizes = defaultdict(list)
        for (step, name), (_, megabytes) in calls.items():
            assert name.startswith("hcom_allReduce__") and name.endswith(f"@{WORLD}")
            sizes[step].append(round(megabytes * 1e6))
        assert len(sizes) == 6 and {tuple(sorted(step)) for step in sizes.values()} == {(40, 512, 5120, 32768)}
        # the communication of a step is the sum of its exchanges
        for row in table(folder_of(path) / "step_trace_time.csv"):
            elapsed, megabytes = totals[f"step{row['Step']}"]
            assert float(row["Communication"]) == pytest.approx(elapsed * 1000, abs=0.01)
            assert megabytes == 0.03844
    left, right = (communication(path)[0] for path in distributed)
    assert {key: size for key, (_, size) in left.items()} == {key: size for key, (_, size) in right.items()}
    for rank, path in enumerate(distributed):
        matrix = json.loads((folder_of(path) / "communication_matrix.json").read_text())
        assert len(matrix) == 6
        for kinds in matrix.values():
            (link,) = kinds["collective"][f"allreduce-total@{WORLD}"]
            assert link == f"{rank}-{rank}"


@pytest.mark.slow
def test_timeline_is_whole_and_agrees_with_the_steps(distributed):
    for path in distributed:
        check_timeline(path)


def check_timeline(path):
    """Check the flows, the nesting and the overlap lanes of a timeline, and return its events."""
    events = json.loads((folder_of(path) / "trace_view.json").read_text())
    assert {event["ph"] for event in events} <= {"X", "M", "C", "s", "f"}
    processes, threads = lanes(events)
    shown, ends = defaultdict(list), {"s": {}, "f": {}}
    for event in events:
        if event["ph"] == "X":
            shown[event["pid"], event["tid"]].append(bounds(event))
        elif event["ph"] in "sf":
            assert event["id"] not in ends[event["ph"]]
            ends[event["ph"]][event["id"]] = (event["pid"], event["tid"], nanoseconds(event["ts"]))
    assert ends["s"].keys() == ends["f"].keys()
    starts = {(*lane, start) for lane, slices in shown.items() for start, _ in slices}
    assert {*ends["s"].values(), *ends["f"].values()} <= starts
    for number, (*_, begin) in ends["s"].items():
        assert begin <= ends["f"][number][2]
    for lane, slices in shown.items():
        assert lane in threads
        # readers would drop or cut slices of a lane that do not nest
        around = []
        for start, end in sorted(slices, key=lambda part: (part[0], -part[1])):
            while around and around[-1] <= start:
                around.pop()
            assert not around or end <= around[-1]
            around.append(end)
    steps = steps_of(events)
    rows = {int(row["Step"]): row for row in table(folder_of(path) / "step_trace_time.csv")}
    assert steps.keys() == rows.keys()
    overlap = {name: shown[lane] for lane, name in threads.items() if processes[lane[0]] == "Overlap Analysis"}
    for number, (begin, finish) in steps.items():
        row = {name: nanoseconds(value) for name, value in rows[number].items() if name != "Step"}
        # steps that touch are a nanosecond apart
        assert row["Stage"] - (finish - begin) in (0, 1)
        finish = begin + row["Stage"]
        assert row["Computing"] + row["Communication(Not Overlapped)"] + row["Free"] == row["Stage"]
        assert row["Communication(Not Overlapped)"] + row["Overlapped"] == row["Communication"]
        for name, slices in overlap.items():
            inside = [(start, end) for start, end in slices if begin <= start < finish]
            assert all(end <= finish for _, end in inside)
            assert sum(end - start for start, end in inside) == row[name], (number, name)
    return events


def steps_of(events):
    """Return {number: (begin, end) in ns} of the steps in a timeline."""
    marks = [event for event in events if event["name"].startswith("ProfilerStep#")]
    return {int(event["name"].partition("#")[2]): bounds(event) for event in marks}


def totals(path):
    """Return a result's milliseconds as other tools compute them: from first to last step, and this time's parts."""
    rows = table(folder_of(path) / "step_trace_time.csv")
    steps = steps_of(json.loads((folder_of(path) / "trace_view.json").read_text())).values()
    found = {"E2E Time": (max(end for _, end in steps) - min(start for start, _ in steps)) / 1e6}
    for name, column in (("Computing", "Computing"), ("Uncovered Communication", "Communication(Not Overlapped)")):
        found[f"{name} Time"] = sum(float(row[column]) for row in rows) / 1000
    # the time between two steps counts as free
    return found | {"Free Time": 2 * found["E2E Time"] - sum(found.values())}


@pytest.mark.slow
def test_cluster_repeats_the_figures_of_a_job(distributed, tmp_path):
    run("cluster", "-d", distributed[0].parent, "-m", "all", "-o", tmp_path)
    (folder,) = tmp_path.iterdir()
    groups = json.loads((folder / "communication_group.json").read_text())
    assert groups["collective"] == [[0, 1]]
    found = {(int(row["Index"]), int(row["Step"])): row for row in table(folder / "cluster_step_trace_time.csv")}
    assert len(found) == len(table(folder / "cluster_step_trace_time.csv")) == 12
    exchanged = json.loads((folder / "cluster_communication.json").read_text())["(0, 1)"]
    matrix = json.loads((folder / "cluster_communication_matrix.json").read_text())["(0, 1)"]
    for rank, path in enumerate(distributed):
        for row in table(folder_of(path) / "step_trace_time.csv"):
            theirs = found[rank, int(row["Step"])]
            assert {name: float(theirs[name]) for name in row} == {name: float(value) for name, value in row.items()}
        own = json.loads((folder_of(path) / "communication.json").read_text())
        for step, kinds in own.items():
            for name, call in kinds["collective"].items():
                if name != "Total Op Info":
                    assert exchanged[step][name][str(rank)] == call
        own = json.loads((folder_of(path) / "communication_matrix.json").read_text())
        for step, kinds in own.items():
            for name, links in kinds["collective"].items():
                assert links[f"{rank}-{rank}"].items() <= matrix[step][name][f"{rank}-{rank}"].items()


def calls_of(path):
    """Return the names of the operators and graphs that the host called, one for each call."""
    events = json.loads((folder_of(path) / "trace_view.json").read_text())
    names = [event["name"] for event in events if event.get("cat") == "cpu_op"]
    return [name for name in names if not name.startswith("ProfilerStep#")]


def check_comparison(base, other, out):
    """Check that the sheets of a comparison agree with the files of both results, and return the sheets."""
    found = sheets(out)
    metrics = {str(row[0]).strip(): row for row in found["OverallMetrics"][2:]}
    for first, path in ((1, base), (4, other)):
        for name, total in totals(path).items():
            if total:
                assert metrics[name][first] == pytest.approx(total, abs=0.02), name
    for total_at, path in ((3, base), (8, other)):
        ours, theirs = defaultdict(lambda: [0.0, 0]), defaultdict(lambda: [0.0, 0])
        for row in found["KernelCompare"][2:]:
            if row[total_at + 4]:
                theirs[row[1]][0] += row[total_at]
                theirs[row[1]][1] += row[total_at + 4]
        for row in table(folder_of(path) / "kernel_details.csv"):
            ours[row["Type"]][0] += float(row["Duration(us)"])
            ours[row["Type"]][1] += 1
        assert ours.keys() == theirs.keys()
        for name, (total, count) in ours.items():
            assert theirs[name][1] == count and theirs[name][0] == pytest.approx(total, abs=0.01 * count), name
    return found


@pytest.mark.slow
def test_compare_repeats_the_figures_of_a_job(distributed, tmp_path):
    own, base = distributed
    run("compare", "-d", own, "-bp", base, "-o", tmp_path / "all")
    found = check_comparison(base, own, tmp_path / "all")
    (row,) = found["CommunicationCompare"][2:]
    for first, path in ((1, base), (8, own)):
        calls, _ = communication(path)
        assert row[first] == "allreduce" and row[first + 2] == len(calls) == 24
        assert row[first + 3] == pytest.approx(sum(elapsed for elapsed, _ in calls.values()) * 1000, abs=0.1)
    # OperatorCompare has a row for each outermost call of an operator or graph, ApiCompare one for each name
    assert 6 <= len(found["OperatorCompare"]) - 2 <= len(calls_of(own)) == len(calls_of(base))
    assert {row[1]: row[5] for row in found["ApiCompare"][2:]} == Counter(calls_of(base))
    # the comparison of a single step
    run("compare", "-d", own, "-bp", base, "--base_step", 4, "--comparison_step", 4, "-o", tmp_path / "step")
    found = sheets(tmp_path / "step")
    (row,) = found["CommunicationCompare"][2:]
    assert row[3] == row[10] == 4
    details = table(folder_of(base) / "kernel_details.csv")
    assert sum(row[7] for row in found["KernelCompare"][2:]) == sum(row["Step ID"] == "4" for row in details)
    assert 0 < len(found["OperatorCompare"]) - 2 < len(calls_of(own)) / 5 + 1


@pytest.mark.slow
def test_advisor_repeats_the_figures_of_a_job(distributed, tmp_path):
    for number, path in enumerate(distributed):
        output = run("advisor", "all", "-d", path, "-pt", "mindspore", "-o", tmp_path / str(number))
        check_advice(path, output)


def check_advice(path, output):
    """Check that the advisor's output has the figures of a result."""
    found = [float(text) for text in re.findall(r"(\d+(?:\.\d+)?)ms", output)]
    for name, total in totals(path).items():
        assert any(figure == pytest.approx(total, abs=0.02) for figure in found), (name, total, output)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["graph", "pynative", "torch"])
def test_job_of_one_process_is_accepted(kind, tmp_path):
    """For a job without exchanges, run twice, the command prints only the expected warnings about missing parts."""
    options = {"start": True, "output_path": str(tmp_path / "data")}
    program = ["torch_loops.py", "plain"] if kind == "torch" else ["networks.py", "mlp", kind, "8"]
    for _ in range(2):
        command = [sys.executable, PROGRAMS / program[0], *program[1:]]
        subprocess.run(command, env=environment(options), check=True, timeout=300, cwd=tmp_path, capture_output=True)
    base, other = sorted((tmp_path / "data").glob("*_ascend_ms"), key=lambda path: path.stat().st_mtime)
    for path in (base, other):
        events = check_timeline(path)
        flows = {event["cat"] for event in events if event["ph"] == "s"} - {"fwdbwd"}
        assert bool(flows) == (kind == "pynative")
    run("cluster", "-d", base.parent, "-m", "all", "-o", tmp_path / "cluster", expected=ALONE)
    (file,) = (tmp_path / "cluster").rglob("cluster_step_trace_time.csv")
    # the results are of the same rank, and the command uses the newest
    assert [
        {name: float(value) for name, value in row.items() if name not in ("Type", "Index")} for row in table(file)
    ] == [
        {name: float(value) for name, value in row.items()} for row in table(folder_of(other) / "step_trace_time.csv")
    ]
    run("compare", "-d", other, "-bp", base, "-o", tmp_path / "compare", expected=ALONE)
    found = check_comparison(base, other, tmp_path / "compare")
    assert {row[1]: row[5] for row in found["ApiCompare"][2:]} == Counter(calls_of(base))
    output = run("advisor", "all", "-d", other, "-pt", "mindspore", "-o", tmp_path / "advisor", expected=ALONE)
    check_advice(other, output)
