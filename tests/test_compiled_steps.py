"""The runs of an optimizer's compiled step end the steps of a job that marks none."""

import importlib.util
import json

import pytest
from conftest import PROGRAMS
from ms_profiler.analysis.metrics import steps
from ms_profiler.analysis.readers import step_marks, store
from ms_profiler.store.format import StepSource

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs PyTorch")
PROGRAM = PROGRAMS / "torch_compiled_training.py"


def test_each_call_of_a_compiled_training_function_is_a_step(job):
    bare = job(PROGRAM, profile=False)
    run = job(PROGRAM)
    assert (run.code, run.out) == (bare.code, bare.out), run.err
    summary = json.loads((run.result / "summary.json").read_text())
    found = summary["steps"]
    assert (found["count"], found["source"]) == (25, "optimizer_cycle")
    assert "torch.compile" in found["why"]
    assert summary["phases"]["compile"]["share"] > 0, "the first step compiles"

    recording = store.read(str(run.result))
    used = steps.choose(recording)
    assert used.table["number"].to_list() == list(range(25))
    assert (used.table["start_ns"][1:] == used.table["end_ns"][:-1]).all()
    marked = recording.steps.with_columns(source=int(StepSource.DATASET)).head(7)
    recording.steps = marked
    step_marks.add_compiled(recording)
    assert recording.steps.equals(marked), "the job has marked steps"
