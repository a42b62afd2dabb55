"""Samples of Python stacks show which functions took a job's time, also if the job was killed."""

import ast
import json
import os
import re
import sys
import threading
from types import SimpleNamespace

import polars as pl
import pytest
from conftest import PROGRAMS
from ms_profiler import _native
from ms_profiler.analysis.driver import engine
from ms_profiler.analysis.metrics.stack_samples import Stacks, slices
from ms_profiler.analysis.metrics.stack_tree import Tree
from ms_profiler.analysis.model import tables
from ms_profiler.analysis.report.stacks import table as stacks_table
from ms_profiler.analysis.writers import stacks_summary
from ms_profiler.job.recorder.native import NativeRecorder
from ms_profiler.job.recorder.python import PythonRecorder
from recorders import poll

PLANTED = {"runs_python", "holds_the_gil", "lets_go_of_the_gil"}
OPTIONS = {"with_stack": "sample", "analyse": "off"}
MS = 1_000_000


@pytest.fixture(scope="module")
def killed(launch):
    """Return the analysed run of a job that kills itself."""
    run = launch(PROGRAMS / "sampled_stacks.py", "kill", options=OPTIONS)
    assert run.code == -9 and run.out.splitlines()[0] == "0 0", run.err
    engine.analyse([run.result])
    return run


def functions(part):
    """Return the names of the script's functions in a part of the summary."""
    named = [row["called_from"] or row for row in part["rows"]]
    return {row["function"] for row in named if row["file"].endswith("sampled_stacks.py")}


def test_functions_of_a_step_are_named(killed):
    sampled = killed.summary["stacks"]
    (host,) = [part for part in sampled["bounds"] if part["name"] == "host"]
    (other,) = [part for part in sampled["phases"] if part["name"] == "other"]
    for part in host, other:
        assert functions(part) >= PLANTED
        assert functions(part) <= {*PLANTED, "spends", "<module>"}
    source = (PROGRAMS / "sampled_stacks.py").read_text().splitlines()
    rows = [row for row in other["rows"] if row["function"] in PLANTED]
    assert len(rows) == len(PLANTED)  # one row for each function, though its samples show several lines
    lines = {row["function"]: source[row["line"] - 1] for row in rows}
    assert "sum(numbers)" in lines["holds_the_gil"] or "while" in lines["holds_the_gil"]
    assert "digest" in lines["lets_go_of_the_gil"] or "while" in lines["lets_go_of_the_gil"]
    assert sampled["rate"] == 100 and sampled["late"]["max_us"] >= sampled["late"]["median_us"] >= 0


def test_stacks_of_all_threads_of_the_job_and_none_of_ours(killed):
    folded = (killed.result / "ASCEND_PROFILER_OUTPUT" / "python_stacks.folded").read_text().splitlines()
    stacks = [line.rpartition(" ")[0].split(";") for line in folded]
    assert {stack[0].rpartition(" ")[0] for stack in stacks} == {"MainThread", "waiter"}
    assert any("waits (sampled_stacks.py:" in "".join(stack) for stack in stacks if stack[0].startswith("waiter"))
    assert sum(int(line.rpartition(" ")[2]) for line in folded) == killed.summary["stacks"]["samples"]
    assert [process["role"] for process in killed.summary["run"]["processes"]] == ["main"]


def test_the_files_for_other_tools(killed):
    content = json.loads((killed.result / "ASCEND_PROFILER_OUTPUT" / "python_stacks.speedscope.json").read_text())
    assert {profile["name"].rpartition(" ")[0].split()[0] for profile in content["profiles"]} == {
        "MainThread",
        "waiter",
    }
    frames = content["shared"]["frames"]
    for profile in content["profiles"]:
        assert len(profile["samples"]) == len(profile["weights"])
        assert sum(profile["weights"]) == profile["endValue"]
        assert {number for stack in profile["samples"] for number in stack} <= set(range(len(frames)))
    events = json.loads((killed.result / "ASCEND_PROFILER_OUTPUT" / "trace_view.json").read_text())
    lanes = {event["pid"] for event in events if event["name"] == "process_name" and event["args"]["name"] == "Python"}
    drawn = {event["name"].split(" ")[0] for event in events if event["ph"] == "X" and event["pid"] in lanes}
    assert drawn >= PLANTED


@pytest.mark.slow
def test_shares_are_those_of_the_job(job):
    run = job(PROGRAMS / "sampled_stacks.py", "exit", "120", options=OPTIONS | {"analyse": "sync"})
    assert run.code == 0, run.err
    spent = ast.literal_eval(run.out.splitlines()[-1])
    (other,) = [part for part in run.summary["stacks"]["phases"] if part["name"] == "other"]
    found = dict.fromkeys(PLANTED, 0)
    for row in other["rows"]:
        if row["function"] in PLANTED:
            found[row["function"]] += row["samples"]
    for name in PLANTED:
        assert found[name] / sum(found.values()) == pytest.approx(spent[name] / sum(spent.values()), abs=0.03)


def test_a_job_that_ends_has_the_samples_too(job):
    run = job(
        "import torch, sys\ndef turns():\n    for _ in range(3_000_000): pass\nturns(); print(sys.stderr.name)",
        options={"with_stack": "sample", "stack_rate": 500},
    )
    assert (run.code, run.out) == (0, "<stderr>\n"), run.err
    assert run.summary["stacks"]["rate"] == 500
    assert (
        " turns" in "\n".join(run.lines)
        or "turns (" in (run.result / "ASCEND_PROFILER_OUTPUT" / "python_stacks.folded").read_text()
    )


@pytest.fixture
def sampling(tmp_path):
    """Return a recorder that samples a thousand times a second."""
    recorder = NativeRecorder()
    recorder.open(str(tmp_path))
    assert recorder.sample_stacks(1000) == ""
    yield recorder
    recorder.sample_no_stacks()
    recorder.close()


def test_sampling_a_second_time_is_refused_and_stopping_twice_is_nothing(sampling):
    assert sampling.sample_stacks(10) != ""
    sampling.sample_no_stacks()
    sampling.sample_no_stacks()
    assert sampling.sample_stacks(10) == ""


def test_nothing_is_sampled_while_paused_and_before_a_store_is_open(sampling):
    poll(lambda: sampling.stats().records > 3)
    sampling.pause(True)
    sampling.sample_no_stacks()
    before = sampling.stats().records
    assert sampling.sample_stacks(1000) == ""
    for _ in range(300_000):
        pass
    sampling.sample_no_stacks()
    assert sampling.stats().records == before


def test_a_fork_child_has_no_sampler(sampling):
    child = os.fork()
    if child == 0:
        sampling.sample_no_stacks()
        os._exit(len(os.listdir("/proc/self/task")) - 1)
    assert os.waitpid(child, 0)[1] == 0


def test_deep_recursion_and_threads_that_come_and_go(sampling):
    def deep(levels):
        return deep(levels - 1) + 1 if levels else sum(range(200_000))

    def thread():
        deep(300)

    sys.setrecursionlimit(5000)
    try:
        for _ in range(20):
            started = [threading.Thread(target=thread) for _ in range(3)]
            for one in started:
                one.start()
            deep(1500)
            for one in started:
                one.join()
    finally:
        sys.setrecursionlimit(1000)
    poll(lambda: sampling.stats().records > 50)
    assert sampling.stats().dropped == 0


def test_code_that_comes_and_goes_is_sampled_and_the_collector_stays_as_it_was(sampling):
    import gc

    for number in range(300):
        space = {}
        exec(f"def made_{number}(): return sum(range(20000))", space)
        space[f"made_{number}"]()
        assert gc.isenabled()
    gc.disable()
    try:
        for _ in range(200_000):
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_the_way_to_ask_threads_is_found_in_this_interpreter():
    while not _native.find_pending():
        pass
    assert _native.find_pending()


def test_the_recorder_in_python_says_that_it_samples_nothing():
    assert "extension" in PythonRecorder().sample_stacks(100.0)


FRAMES = [
    # columns: node, caller's node, name, file, first line, line, thread
    (1, 0, 1, 0, 0, 0, 77),
    (2, 1, 2, 5, 1, 10, 0),  # main
    (3, 2, 3, 5, 20, 21, 0),  # a, called from main
    (4, 2, 3, 5, 20, 22, 0),  # another line of a
    (5, 4, 4, 6, 30, 33, 0),  # b, a function of a library, called from a
]
NAMES = pl.Series("name", ["", "thread", "main", "a", "b", "/job/train.py", "/x/site-packages/lib.py"])


def frames():
    """Return the frames of process 9."""
    return pl.DataFrame([(9, *row) for row in FRAMES], tables.FRAMES, orient="row")


def samples(*rows):
    """Return samples of process 9 from rows (node, begin in ms, end in ms, number of samples)."""
    values = [(9, node, start * MS, end * MS, count, 1) for node, start, end, count in rows]
    return pl.DataFrame(values, tables.SAMPLES, orient="row")


class Made:
    """A recording with only the parts that `Stacks` uses."""

    def __init__(self, rows):
        self.frames, self.samples, self.names = frames(), rows, NAMES
        self.calls, self.threads = pl.DataFrame(schema=tables.CALLS), pl.DataFrame(schema=tables.THREADS)
        self.info = type("Info", (), {"options": {"stack_rate": 1000}})()


def made(*rows):
    """Return the stacks of a run with these samples."""
    return Stacks(Made(samples(*rows)), (tables.EARLIEST, tables.LATEST))


def test_slices_nest_and_lines_of_a_function_are_one():
    stacks = made((3, 0, 0, 1), (4, 1, 1, 1), (5, 2, 3, 2), (2, 4, 4, 1), (3, 20, 20, 1))
    tree = Tree(frames(), NAMES)
    table = slices(stacks.samples, tree, MS)
    rows = [(tree.functions[place].name, depth, start // MS, end // MS) for _, place, depth, start, end in table.rows()]
    assert rows == [
        ("main", 0, 0, 5),
        ("a", 1, 0, 4),
        ("b", 2, 2, 4),
        ("main", 0, 20, 21),
        ("a", 1, 20, 21),
    ]
    drawn, labels = stacks.lanes
    assert labels == ["thread 77 of process 9"]
    assert drawn["name"][0] == "main (train.py:1)"


def test_functions_of_a_part():
    stacks = made((3, 0, 9, 10), (5, 10, 29, 20), (2, 30, 39, 10))
    pieces = pl.DataFrame({"part": ["host", "data"], "start_ns": [0, 30 * MS], "end_ns": [30 * MS, 99 * MS]})
    host, data = stacks.consists_of(stacks.of_thread(9, 77), pieces, "part")
    assert (host["name"], host["samples"], data["name"], data["samples"]) == ("host", 30, "data", 10)
    first, second = host["rows"]
    assert (first["function"], first["line"], first["samples"]) == ("b", 33, 20)
    assert first["called_from"] == {"function": "a", "file": "/job/train.py", "line": 22}
    assert (second["function"], second["line"], second["called_from"]) == ("a", 21, None)
    assert stacks.of_thread(9, 78).is_empty() and stacks.of_thread(8, 77).is_empty()


def test_lines_of_a_function_of_the_script_are_one_row():
    stacks = made((3, 0, 5, 6), (4, 6, 8, 3), (3, 9, 9, 1), (2, 10, 11, 2))
    pieces = pl.DataFrame({"part": ["host"], "start_ns": [0], "end_ns": [99 * MS]})
    (host,) = stacks.consists_of(stacks.of_thread(9, 77), pieces, "part")
    rows = [(row["function"], row["line"], row["other_lines"], row["samples"]) for row in host["rows"]]
    assert rows == [("a", 21, [22], 10), ("main", 10, [], 2)]
    table = stacks_table({"bounds": [host], "phases": []})
    assert [cell.plain for cell in table.columns[0].cells] == ["a (train.py:21, 22)", "main (train.py:10)"]


def test_calls_traced_before_sampling_have_their_time():
    """If another tool takes the tracing interface, stacks are sampled from then on; traced calls keep their time."""
    stacks = made((3, 50, 89, 40))
    row = (9, 1, 1, 2, 5, 0, False, False, 0, 20 * MS)
    stacks.recording.calls = pl.DataFrame([row], tables.CALLS, orient="row")
    pieces = pl.DataFrame({"part": ["host"], "phase": ["forward"], "start_ns": [0], "end_ns": [99 * MS]})
    diagnosis = SimpleNamespace(pieces=pieces.select("part", "start_ns", "end_ns"))
    used = SimpleNamespace(process=9, thread=1)
    found = stacks_summary.functions(
        SimpleNamespace(
            stacks=stacks,
            recording=SimpleNamespace(calls_left_out=0),
            steps=used,
            diagnosis=diagnosis,
            pieces=pieces.select("phase", "start_ns", "end_ns"),
        )
    )
    assert stacks.known
    for part in (*found["bounds"], *found["phases"]):
        assert (part["time_us"], [row["time_us"] for row in part["rows"]]) == (20_000, [20_000])


def test_frames_of_a_damaged_store_are_left_out():
    tree = Tree(frames().filter(pl.col("node") != 2), NAMES)
    assert list(tree.places) == [1]


@pytest.mark.slow
def test_the_advice_names_the_function_of_a_job_of_mindspore(job):
    pytest.importorskip("mindspore")
    run = job(PROGRAMS / "planted_mindspore.py", "python", options={"with_stack": "sample"})
    assert run.code == 0, run.err
    source = (PROGRAMS / "planted_mindspore.py").read_text().splitlines()
    begin = 1 + source.index("def busy(seconds):")
    (host,) = [item for item in run.summary["advice"] if item["cause"] == "host-bound"]
    lines = rf"({begin + 3}, {begin + 4}|{begin + 4}, {begin + 3}|{begin + 3}|{begin + 4})"
    assert re.search(rf"mostly busy at \S+planted_mindspore.py:{lines} \(\d+ %\)", host["evidence"])
    parts = {part["name"]: functions_of(part) for part in run.summary["stacks"]["bounds"]}
    assert "busy" in parts["host"]


def functions_of(part):
    """Return the names of the functions in a part of the summary."""
    return {row["function"] for row in part["rows"]}


DECODED = """
import time
from concurrent.futures import ThreadPoolExecutor
import torch

def decode(row):
    end = time.thread_time() + 0.01
    while time.thread_time() < end:
        row *= 1.0001
    return [row] * 8

model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
with ThreadPoolExecutor(2) as pool:
    for step in range(40):
        model(torch.tensor(list(pool.map(decode, (1.0, 2.0, 3.0))))).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
"""


def test_the_function_that_other_threads_run_while_the_loop_waits_is_named(job):
    run = job(DECODED, options={"analyse": "sync", "with_stack": "sample"}, env={"OMP_NUM_THREADS": "1"})
    assert run.code == 0, run.err
    evidence = next(item["evidence"] for item in run.summary["advice"] if item["cause"] == "host-waits")
    found = re.search(
        r"other threads of this process use \S+ processors in these steps; their samples show mostly decode at (\S+)",
        evidence,
    )
    assert found, evidence
