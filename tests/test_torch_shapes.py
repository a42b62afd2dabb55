"""Shapes of PyTorch's operators are those of torch.profiler, and operators stay what they are without them."""

import csv
import importlib.util
import json
from collections import Counter

import polars as pl
import pytest
from conftest import PROGRAMS
from ms_profiler.analysis.metrics import operands
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
    """Return what torch.profiler saw, and the runs: bare, profiled without shapes, with them, and without ITT."""
    seen = tmp_path_factory.mktemp("seen") / "seen.json"
    program = PROGRAMS / "torch_shapes.py"
    bare = launch(program, str(seen), profile=False)
    assert bare.code == 0, bare.err
    plain = launch(program, env=STRICT)
    shaped = launch(program, options={**SHAPES, "export_type": ["text", "kineto"]}, env=STRICT)
    without = launch(program, options=SHAPES, env=STRICT | NO_ITT)
    theirs = [(name, text_of(shapes)) for name, shapes in json.loads(seen.read_text())]
    return theirs, bare, plain, shaped, without


def test_shapes_are_those_of_torch_profiler(runs):
    theirs, *_, shaped, without = runs
    for run in (shaped, without):
        window = operators(run.result).filter(pl.col("step").is_between(2, 4), pl.col("category") == Category.OP)
        # `events` leaves out what marks a region
        ours = [row for row in window.select("text", "shapes").rows() if not row[0].startswith("profiler::")]
        assert ours == theirs
    assert ("aten::convolution", "6,1,8,8;2,1,3,3;2;;;;;;;") in theirs


def test_the_job_is_the_same_with_shapes(runs):
    _, bare, plain, shaped, without = runs
    for run in (plain, shaped, without):
        assert run.out == bare.out
        assert run.err.splitlines() == [f"ms-profiler: {line}" for line in run.lines]
        assert len(run.lines) == 2


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
        rows = list(csv.DictReader((output / "operator_details.csv").read_text().splitlines()))
        assert list(rows[0])[:2] == ["Name", "Input Shapes"]
        assert ("aten::addmm", "3;5,72;72,3;;;") not in {(row["Name"], row["Input Shapes"]) for row in rows}
        assert ("aten::addmm", "3;6,72;72,3;;;") in {(row["Name"], row["Input Shapes"]) for row in rows}
        kernels = list(csv.DictReader((output / "kernel_details.csv").read_text().splitlines()))
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
