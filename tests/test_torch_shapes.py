"""Shapes of PyTorch's operators are those of torch.profiler, and the operators are the same as without shapes."""

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

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs PyTorch")

STRICT = {"MS_PROFILER_RAISE": "1"}
SHAPES = {"record_shapes": True}
NO_ITT = {"INTEL_LIBITTNOTIFY64": "/another.so"}


def operators(result):
    """Return the operators of a run with `text`, `shapes` and `step`, in order."""
    recording = store.read(str(result))
    spans = recording.spans.filter(pl.col("category").is_in([Category.OP, Category.MARKER])).sort("start_ns")
    starts = recording.steps["end_ns"]
    return spans.select(
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


@pytest.fixture(scope="module")
def runs(launch, tmp_path_factory):
    """Return the records of torch.profiler, and the runs: bare, profiled without shapes, with them, and without ITT."""
    seen = tmp_path_factory.mktemp("seen") / "seen.json"
    program = PROGRAMS / "torch_shapes.py"
    bare = launch(program, str(seen), profile=False)
    assert bare.code == 0, bare.err
    plain = launch(program, env=STRICT)
    shaped = launch(program, options={**SHAPES, "export_type": ["text", "kineto"]}, env=STRICT)
    without = launch(program, options=SHAPES, env=STRICT | NO_ITT)
    theirs = [(name, text_of(shapes)) for name, shapes in json.loads(seen.read_text())]
    return theirs, bare, plain, shaped, without


@pytest.mark.slow
def test_shapes_are_those_of_torch_profiler(runs):
    theirs, *_, shaped, without = runs
    for run in (shaped, without):
        window = operators(run.result).filter(pl.col("step").is_between(2, 4), pl.col("category") == Category.OP)
        # `events` leaves out the marks of regions
        ours = [row for row in window.select("text", "shapes").rows() if not row[0].startswith("profiler::")]
        assert ours == theirs
    assert ("aten::convolution", "6,1,8,8;2,1,3,3;2;;;;;;;") in theirs


@pytest.mark.slow
def test_the_job_is_the_same_with_shapes(runs):
    _, bare, plain, shaped, without = runs
    for run in (plain, shaped, without):
        assert run.out == bare.out
        assert run.err.splitlines() == [f"ms-profiler: {line}" for line in run.lines]
        assert len(run.lines) == 2


@pytest.mark.slow
def test_operators_are_the_same_with_shapes(runs):
    _, _, plain, shaped, _ = runs
    left, right = (operators(run.result) for run in (plain, shaped))
    columns = ["step", "thread", "category", "flags", "text", "around"]
    assert left.select(columns).rows() == right.select(columns).rows()
    assert left["shapes"].unique().to_list() == [""]
    known = right.filter(pl.col("shapes") != "")["step"].unique().sort().to_list()
    assert known == [2, 3, 4]
    tied = right.filter(pl.col("tie") > 0)
    assert tied["step"].unique().sort().to_list() == [2, 3, 4]
    gradients = Counter(tied.filter(pl.col("tie") % 2 == 1)["text"])
    assert gradients["ConvolutionBackward0"] == 6


def test_every_table_has_the_shapes(runs):
    *_, shaped, without = runs
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
    assert "names only" in shaped.summary["shapes"]["why"]
    (trace,) = shaped.result.glob("**/kineto_trace_*.json")
    events = json.loads(trace.read_text())["traceEvents"]
    found = [event for event in events if event.get("args", {}).get("Input Dims") == [[3], [6, 72], [72, 3], [], []]]
    assert {event["name"] for event in found} == {"aten::addmm"}


def test_without_the_option_there_are_no_shapes(runs):
    _, _, plain, _, _ = runs
    assert plain.summary["shapes"] is None
    assert not (plain.result / "ASCEND_PROFILER_OUTPUT" / "operator_details.csv").exists()


CUT = ["profile", "thread", "schedule", "all threads", "legacy", "itt", "fork", "fork in thread", "loader", "error"]


def said(run):
    """Return PyTorch's output, without times; Kineto's lines may be fewer, because it prints them at its first use."""
    lines = [line for line in run.err.splitlines() if not line.startswith(("ms-profiler: ", "USDT:", "ERROR:"))]
    return {re.sub(r"^\[W[\d. :]*", "", line) for line in lines}


@pytest.mark.slow
@pytest.mark.parametrize("what", CUT)
def test_what_needs_the_room_of_kineto_gets_it_and_no_operator_is_lost(job, what):
    program = PROGRAMS / "torch_shapes_cut.py"
    bare = job(program, what, profile=False)
    run = job(program, what, options=SHAPES, env=STRICT)
    assert (bare.code, run.code) == (0, 0), run.err
    assert run.out == bare.out
    assert said(run) == said(bare)
    if what == "loader":  # steps come from it
        return
    rows = operators(run.result)
    counted = {step: rows.filter(pl.col("step") == step, thread=rows["thread"][0]) for step in range(1, 9)}
    names = {step: Counter(found["text"]) for step, found in counted.items()}
    assert names[2] == names[1] == names[4] == names[8]
    assert what in ("schedule", "itt") or names[3] == names[1]
    shaped = {step for step, found in counted.items() if found.filter(pl.col("shapes") != "").height}
    assert shaped == {2, 3, 4, 5, 6}
    assert run.summary["shapes"]["steps"] == [2, 3, 4, 5, 6]
    whole = {found.filter(pl.col("shapes") != "").height for step, found in counted.items() if step in shaped - {3}}
    assert len(whole) == 1


@pytest.mark.slow
def test_threads_that_end_cut_shapes_and_nothing_else(job):
    run = job(PROGRAMS / "torch_shapes_cut.py", "threads end", options=SHAPES, env=STRICT)
    assert run.code == 0, run.err
    assert run.err.splitlines() == [f"ms-profiler: {line}" for line in run.lines]
    rows = operators(run.result)
    assert len({tuple(sorted(rows.filter(pl.col("step") == step)["text"])) for step in range(1, 9)}) == 1
    entries = [entry for entry in run.summary["not_collected"] if entry["what"].startswith("shapes of operators from")]
    assert ["threads that ended" in entry["why"] for entry in entries] == [True]


@pytest.mark.slow
def test_operators_that_a_thread_hands_on_have_shapes_too(job):
    run = job(PROGRAMS / "torch_shapes_cut.py", "handed on", options=SHAPES, env=STRICT)
    assert run.code == 0, run.err
    rows = operators(run.result)
    sines = rows.filter(pl.col("text") == "aten::sin")
    assert sines.select("step", "shapes").rows()[-9:-4] == [(1, ""), (2, "2,3;"), (3, "2,3;"), (4, "2,3;"), (5, "")]
    assert sines["thread"][-1] != rows["thread"][0]


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
        "no recorded step began after 2 others"
    ]


@pytest.mark.slow
def test_a_schedule_decides_which_steps_have_shapes(job):
    options = SHAPES | {"schedule": {"wait": 4, "active": 2, "repeat": 1}}
    run = job(PROGRAMS / "torch_shapes.py", options=options, env=STRICT)
    assert run.code == 0, run.err
    assert run.err.splitlines() == [f"ms-profiler: {line}" for line in run.lines]
    assert run.summary["shapes"]["steps"] == [4, 5]


@pytest.mark.slow
def test_a_recording_that_is_not_held_has_the_same_shapes(runs, monkeypatch):
    shaped = runs[3]
    held = operators(shaped.result).filter(pl.col("shapes") != "")
    monkeypatch.setattr(store, "MOST_SLOTS", 100)
    recording = store.read(str(shaped.result))
    assert recording.again is not None
    again = pl.concat(recording.again((tables.EARLIEST, tables.LATEST), True)).sort("start_ns")
    shapes = recording.names.gather(operands.shapes(again)).drop_nulls()
    assert shapes.to_list() == held["shapes"].to_list()
