"""Threads that run operators beside the main thread, and a script that removes all callbacks."""

import importlib.util
from collections import Counter
from importlib import metadata

import pytest
from ms_profiler.analysis.readers import store

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs PyTorch")

STRICT = {"MS_PROFILER_RAISE": "1"}
SHAPES = {"record_shapes": True, "overhead_budget": 0}

#: a thread that runs operators in each step from the given one on, while the main thread trains
BUSY = """
import sys
import threading
import torch

go, done, steps = threading.Event(), threading.Event(), 14

def work():
    for _ in range(int(sys.argv[1]), steps):
        go.wait()
        go.clear()
        torch.ones(4).cos()
        done.set()

thread = threading.Thread(target=work)
thread.start()
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(steps):
    if step >= int(sys.argv[1]):
        done.clear()
        go.set()
        done.wait()
    optimizer.zero_grad()
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
thread.join()
print("done")
"""


@pytest.mark.slow
@pytest.mark.parametrize("step", [0, 3])
def test_shapes_are_recorded_only_while_no_other_thread_runs_operators(job, step):
    """The thread begins before the steps with shapes, or in one of them."""
    run = job(BUSY, str(step), options=SHAPES, env=STRICT)
    assert (run.code, run.out) == (0, "done\n"), run.err
    assert run.err.splitlines() == [f"ms-profiler: {line}" for line in run.lines]
    without = [entry["why"] for entry in run.summary["not_collected"] if entry["what"].startswith("shapes of")]
    prevented = "forks, other profilers or operators of other threads prevented each attempt"
    waits = tuple(map(int, metadata.version("torch").split(".")[:2])) >= (2, 14)
    assert (prevented in without) is not waits
    recording = store.read(str(run.result))
    windows = Counter(recording.names.gather(recording.spans["name"]))["shape window"]
    assert windows == (0 if step == 0 and not waits else 1)


CLEARED = """
import torch
from torch._C._profiler import _RecordFunctionFast

torch.ones(2).cos()
with torch.profiler.record_function("around"):
    torch._C._autograd._clear_callbacks()
    torch.ones(2).sin()
torch.ones(2).tan()
print(_RecordFunctionFast)
"""


@pytest.mark.slow
def test_a_script_may_remove_all_callbacks(job):
    """Ours are added again, and PyTorch does not warn about them at the end; its class keeps its name."""
    bare = job(CLEARED, profile=False)
    run = job(CLEARED, options={"analyse": "off", "overhead_budget": 0}, env=STRICT)
    assert (run.code, run.out) == (bare.code, bare.out) == (0, bare.out), run.err
    assert run.err.splitlines() == [f"ms-profiler: {line}" for line in run.lines]
    recording = store.read(str(run.result))
    names = Counter(recording.names.gather(recording.spans["name"]))
    assert [names[name] for name in ("around", "aten::cos", "aten::sin", "aten::tan")] == [1, 1, 1, 1]
