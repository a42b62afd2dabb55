"""Shapes of PyTorch's operators are those that torch.profiler finds, and the option changes no operator."""

import importlib.util
import json
import re
from collections import Counter

import polars as pl
import pytest
from conftest import PROGRAMS
from csv_rows import rows
from ms_profiler.analysis.metrics import operands
from ms_profiler.analysis.model import tables
from ms_profiler.analysis.readers import store
from ms_profiler.job.frameworks.torch.operands import text_of
from ms_profiler.store.format import Category
from unknown_torch import UNKNOWN

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs PyTorch")

STRICT = {"MS_PROFILER_RAISE": "1"}
SHAPES = {"record_shapes": True}


def operators(result):
    """Return the operators of a run in order, with columns for their text, shapes and step."""
    recording = store.read(str(result))
    spans = recording.spans.filter(pl.col("category").is_in([Category.OP, Category.MARKER])).sort("start_ns")
    starts = recording.steps["end_ns"]
    return spans.select(
        "process",
        "thread",
        "category",
        "parent",
        "flags",
        recording.names.gather(spans["name"]).alias("text"),
        recording.names.gather(operands.shapes(spans)).fill_null("").alias("shapes"),
        operands.TIE.alias("tie"),
        pl.Series("step", starts.search_sorted(spans["start_ns"], side="right")),
        recording.names.gather(recording.spans["name"].gather(spans["parent"])).alias("around"),
    )


PROGRAM = PROGRAMS / "torch_shapes.py"


@pytest.fixture(scope="module")
def bare(launch, tmp_path_factory):
    """Return the run without the profiler, and the operators that torch.profiler saw in it."""
    seen = tmp_path_factory.mktemp("seen") / "seen.json"
    run = launch(PROGRAM, str(seen), profile=False)
    assert run.code == 0, run.err
    return run, [(name, text_of(shapes)) for name, shapes in json.loads(seen.read_text())]


@pytest.fixture(scope="module")
def plain(launch):
    """Return the run without shapes."""
    return launch(PROGRAM, env=STRICT)


@pytest.fixture(scope="module")
def shaped(launch):
    """Return the run with shapes."""
    return launch(PROGRAM, options={**SHAPES, "export_type": ["text", "kineto"]}, env=STRICT)


@pytest.fixture(scope="module")
def without(launch):
    """Return the run with shapes in which the version of PyTorch is unknown."""
    return launch(UNKNOWN + PROGRAM.read_text(), options=SHAPES, env=STRICT)


@pytest.mark.slow
def test_shapes_are_those_of_torch_profiler(bare, shaped, without):
    _, theirs = bare
    for run in (shaped, without):
        window = operators(run.result).filter(pl.col("step").is_between(2, 4), pl.col("category") == Category.OP)
        # `events` of torch.profiler leaves out its own marks
        ours = [row for row in window.select("text", "shapes").rows() if not row[0].startswith("profiler::")]
        assert ours == theirs
    assert ("aten::convolution", "6,1,8,8;2,1,3,3;2;;;;;;;") in theirs


@pytest.mark.slow
def test_the_job_is_the_same_with_shapes(bare, plain, shaped, without):
    for run in (plain, shaped, without):
        assert run.out == bare[0].out
        assert run.err.splitlines() == [f"ms-profiler: {line}" for line in run.lines]
        assert len(run.lines) == 2


@pytest.mark.slow
def test_operators_are_the_same_with_shapes(plain, shaped):
    left, right = (operators(run.result) for run in (plain, shaped))
    columns = ["step", "thread", "category", "flags", "text", "around"]
    assert left.select(columns).rows() == right.select(columns).rows()
    assert left["shapes"].unique().to_list() == [""]
    known = right.filter(pl.col("shapes") != "")["step"].unique().sort().to_list()
    assert known == [2, 3, 4]
    # each thread has its own numbers, from which the ties are made; both runs have the same threads
    assert left["tie"].to_list() == right["tie"].to_list()
    gradients = right.filter(pl.col("tie") % 2 == 1, pl.col("text") == "ConvolutionBackward0")
    tied = right.filter(pl.col("tie").is_in((gradients["tie"] - 1).implode()), pl.col("text") == "aten::conv2d")
    assert gradients.height == tied.height > 6


def test_every_table_has_the_shapes(shaped, without):
    for run in (shaped, without):
        output = run.result / "ASCEND_PROFILER_OUTPUT"
        details = rows(run.result, "operator_details")
        assert list(details[0])[:2] == ["Name", "Input Shapes"]
        assert ("aten::addmm", "3;5,72;72,3;;;") not in {(row["Name"], row["Input Shapes"]) for row in details}
        assert ("aten::addmm", "3;6,72;72,3;;;") in {(row["Name"], row["Input Shapes"]) for row in details}
        kernels = rows(run.result, "kernel_details")
        assert any(row["Input Shapes"].startswith('"6,2') for row in kernels)
        events = json.loads((output / "trace_view.json").read_text())
        dims = {event["args"].get("Input Dims") for event in events if event["ph"] == "X"}
        assert "3;6,72;72,3;;;" in dims
        summary = run.summary["shapes"]
        assert summary["steps"] == [2, 3, 4]
        assert 0 < summary["with_shapes"] < summary["operators"]
    assert "report no shapes" in shaped.summary["shapes"]["why"]
    (trace,) = shaped.result.glob("**/kineto_trace_*.json")
    events = json.loads(trace.read_text())["traceEvents"]
    found = [event for event in events if event.get("args", {}).get("Input Dims") == [[3], [6, 72], [72, 3], [], []]]
    assert {event["name"] for event in found} == {"aten::addmm"}


@pytest.mark.slow
def test_without_the_option_there_are_no_shapes(plain):
    assert plain.summary["shapes"] is None
    assert not (plain.result / "ASCEND_PROFILER_OUTPUT" / "operator_details.csv").exists()


CUT = ["profile", "thread", "schedule", "all threads", "legacy", "itt", "fork", "fork in thread", "loader", "error"]


def said(run):
    """Return PyTorch's lines on stderr, without their times, and without lines that Kineto prints at its first use."""
    lines = [line for line in run.err.splitlines() if not line.startswith(("ms-profiler: ", "USDT:", "ERROR:"))]
    return {re.sub(r"^\[W[\d. :]*", "", line) for line in lines}


@pytest.mark.slow
@pytest.mark.parametrize("what", CUT)
def test_events_beyond_the_buffer_of_kineto_lose_no_operator(job, what):
    program = PROGRAMS / "torch_shapes_cut.py"
    bare = job(program, what, profile=False)
    run = job(program, what, options=SHAPES, env=STRICT)
    assert (bare.code, run.code) == (0, 0), run.err
    assert run.out == bare.out
    assert said(run) == said(bare)
    if what == "loader":  # the loader makes these steps
        return
    rows = operators(run.result)
    first = {"process": rows["process"][0], "thread": rows["thread"][0]}
    counted = {step: rows.filter(pl.col("step") == step, **first) for step in range(1, 9)}
    names = {step: Counter(found["text"]) for step, found in counted.items()}
    assert names[2] == names[1] == names[4] == names[8]
    beside = {"profile": 1, "schedule": 4, "all threads": 1, "legacy": 1, "itt": 1}  # work on this thread in `what`
    assert (names[3] - names[1])["region"] == beside.get(what, 0)
    assert not names[1] - names[3] and (what in beside or names[3] == names[1])
    shaped = {step for step, found in counted.items() if found.filter(pl.col("shapes") != "").height}
    # after a step in which another thread runs operators, PyTorch before 2.14 records no shapes
    assert shaped == ({2, 3, 5, 6, 7} if what == "thread" else {2, 3, 4, 5, 6})
    assert run.summary["shapes"]["steps"] == sorted(shaped)
    whole = {found.filter(pl.col("shapes") != "").height for step, found in counted.items() if step in shaped - {3}}
    assert len(whole) == 1


#: train with a profiler that the script prepares some steps before it starts, and print its events
PREPARED = """
import sys
from collections import Counter
import torch
from torch.profiler import ProfilerActivity, profile, schedule

optimizer = torch.optim.SGD([torch.ones(3, requires_grad=True)], lr=0.1)
def show(kept):
    print(sorted(Counter(event.name for event in kept.events()).items()), flush=True)
with profile(
    activities=[ProfilerActivity.CPU],
    schedule=schedule(wait=0, warmup=6, active=2, repeat=1),
    on_trace_ready=show,
) as kept:
    for _ in range(int(sys.argv[1])):
        optimizer.param_groups[0]["params"][0].square().sum().backward()
        optimizer.step()
        kept.step()
for _ in range(6):
    optimizer.param_groups[0]["params"][0].square().sum().backward()
    optimizer.step()
print(optimizer.param_groups[0]["params"][0].tolist())
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("known", "steps"),
    [(True, 8), (False, 8), (True, 5)],
    ids=["known", "unknown version", "stopped while prepared"],
)
def test_a_profiler_that_the_script_has_prepared_keeps_kineto(job, known, steps):
    bare = job(PREPARED, str(steps), profile=False)
    options = SHAPES | {"overhead_budget": 0}
    run = job(PREPARED if known else UNKNOWN + PREPARED, str(steps), options=options, env=STRICT)
    assert (bare.code, run.code) == (0, 0), run.err
    assert run.out == bare.out
    assert said(run) == said(bare)
    shaped = run.summary["shapes"]["steps"]
    assert len(shaped) >= 3 and min(shaped) >= steps, shaped


#: end the recording of shapes inside of regions, and begin the next one; a write into freed memory ends the process
LEFT_OPEN = """
import os
import torch
from torch.profiler import record_function

weight = torch.ones(8, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.1)
def step():
    weight.square().sum().backward()
    optimizer.step()
for number in range(20):
    step()
    step()
    regions = [record_function(f"region {each}") for each in range(300)]
    for region in regions:
        region.__enter__()
    if os.fork() == 0:
        os._exit(0)
    os.wait()
    [torch.ones(3).add(each) for each in range(50)]
    step()
    kept = [bytearray(1 << size) for size in range(4, 20) for _ in range(20)]
    for region in regions:
        region.__exit__(None, None, None)
    assert not any(map(any, kept))
print("done")
"""


@pytest.mark.slow
def test_a_region_may_be_open_when_a_recording_of_shapes_ends(job):
    run = job(LEFT_OPEN, options=SHAPES | {"analyse": "off", "overhead_budget": 0}, env=STRICT)
    assert (run.code, run.out) == (0, "done\n"), run.err
    assert run.result


def prevented(run):
    """Return whether no shapes were recorded because other threads ran operators, with PyTorch before 2.14."""
    reasons = [entry["why"] for entry in run.summary["not_collected"] if entry["what"].startswith("shapes of")]
    why = "forks, other profilers or operators of other threads prevented each attempt"
    return run.summary["shapes"] is None and why in reasons


@pytest.mark.slow
def test_threads_that_end_change_nothing(job):
    run = job(PROGRAMS / "torch_shapes_cut.py", "threads end", options=SHAPES, env=STRICT)
    assert run.code == 0, run.err
    assert run.err.splitlines() == [f"ms-profiler: {line}" for line in run.lines]
    rows = operators(run.result)
    assert len({tuple(sorted(rows.filter(pl.col("step") == step)["text"])) for step in range(1, 9)}) == 1
    assert prevented(run)


@pytest.mark.slow
def test_operators_of_another_thread_are_recorded_without_shapes(job):
    run = job(PROGRAMS / "torch_shapes_cut.py", "handed on", options=SHAPES, env=STRICT)
    assert run.code == 0, run.err
    rows = operators(run.result)
    sines = rows.filter(pl.col("text") == "aten::sin")
    assert sines.select("step", "shapes").rows()[-9:-4] == [(step, "") for step in range(1, 6)]
    assert sines["thread"][-1] != rows["thread"][0]
    assert prevented(run)


@pytest.mark.slow
def test_a_step_that_is_too_long_has_no_shapes(job):
    program = """
import torch
from ms_profiler.job.frameworks.torch import shapes
shapes.MOST = 100
optimizer = torch.optim.SGD([torch.ones(3, requires_grad=True)], lr=0.1)
for _ in range(6):
    optimizer.param_groups[0]["params"][0].square().sum().backward()
    for _ in range(50):
        torch.ones(2).cos()
    optimizer.step()
"""
    run = job(program, options=SHAPES, env=STRICT)
    assert run.code == 0, run.err
    assert run.summary["shapes"] is None
    (entry,) = [entry for entry in run.summary["not_collected"] if "100 can be held" in entry["why"]]
    assert entry["what"] == "shapes of operators from step 2 on"


@pytest.mark.slow
def test_a_run_without_steps_says_why_it_has_no_shapes(job):
    run = job("import torch\ntorch.ones(2).cos()", options=SHAPES, env=STRICT)
    assert run.code == 0, run.err
    assert [entry["why"] for entry in run.summary["not_collected"] if entry["what"] == "shapes of operators"] == [
        "no step after the first 2 was recorded"
    ]


@pytest.mark.slow
def test_a_schedule_decides_which_steps_have_shapes(job):
    options = SHAPES | {"schedule": {"wait": 4, "active": 2, "repeat": 1}}
    run = job(PROGRAMS / "torch_shapes.py", options=options, env=STRICT)
    assert run.code == 0, run.err
    assert run.err.splitlines() == [f"ms-profiler: {line}" for line in run.lines]
    assert run.summary["shapes"]["steps"] == [4, 5]


@pytest.mark.slow
def test_a_recording_that_is_not_held_has_the_same_shapes(shaped, monkeypatch):
    held = operators(shaped.result).filter(pl.col("shapes") != "")
    monkeypatch.setattr(store, "MOST_SLOTS", 100)
    recording = store.read(str(shaped.result))
    assert recording.again is not None
    again = pl.concat(recording.again((tables.EARLIEST, tables.LATEST), True)).sort("start_ns")
    shapes = recording.names.gather(operands.shapes(again)).drop_nulls()
    assert shapes.to_list() == held["shapes"].to_list()


IN_A_THREAD = """
import threading, torch
torch.manual_seed(0)
model = torch.nn.Linear(4, 4)
def train():
    for _ in range(9):
        loss = model(torch.ones(2, 4)).sum()
        loss.backward()
    print(loss.item().hex())
thread = threading.Thread(target=train)
thread.start()
thread.join()
"""


@pytest.mark.slow
@pytest.mark.parametrize("known", [True, False])
def test_a_thread_that_did_not_import_pytorch_may_train(job, known):
    program = IN_A_THREAD if known else UNKNOWN + IN_A_THREAD
    bare, run = job(program, profile=False), job(program, options=SHAPES, env=STRICT)
    assert (run.code, run.out) == (0, bare.out), run.err
    assert run.err.splitlines() == [f"ms-profiler: {line}" for line in run.lines], "Kineto printed nothing"
    assert len(run.summary["shapes"]["steps"]) == 3


@pytest.mark.slow
@pytest.mark.parametrize("version", ["2.13", "unknown"])
def test_exceptions_of_signal_handlers_leave_no_profiler_behind(job, version):
    """They come between the lines that start and stop Kineto, too. If Kineto is started twice, PyTorch crashes."""
    program = (PROGRAMS / "torch_alarms.py").read_text().replace("int(sys.argv[1])", "300")
    run = job(
        program if version == "2.13" else UNKNOWN + program, options={**SHAPES, "analyse": "off", "overhead_budget": 0}
    )
    sent, got = map(int, run.out.split())
    assert run.code == 0 and sent == got == 300
    assert run.err.splitlines() == [f"ms-profiler: {line}" for line in run.lines]
