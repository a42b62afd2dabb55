"""The summary shows the parts of the whole run, and their sum is the run's time."""

import json
import os
import signal
import subprocess
import sys

import pytest
from conftest import PROGRAMS, environment
from ms_profiler.analysis.driver import engine
from ms_profiler.analysis.metrics import intervals, steps, stretches
from ms_profiler.analysis.readers import store
from ms_profiler.store import layout
from ms_profiler.store.names import OWN_WORK

KILLED = """
import sys
import torch
net = torch.nn.Linear(4, 2)
with torch.no_grad():
    for _ in range(100):
        net(torch.ones(1, 4))
if sys.argv[1] == "trained":
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(7):
        net(torch.ones(1, 4)).sum().backward()
        optimizer.step()
print("done", flush=True)
sys.stdin.read()
"""

SLOW_BOUNDARIES = """
import time
import torch
from ms_profiler.job import collection

def slow(count):
    time.sleep(0.05)
    return count + 4, False

collection.current().at_step(slow)
net = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(20):
    net(torch.ones(1, 4)).sum().backward()
    optimizer.step()
"""


def adds_up(summary):
    first = summary["whole_run"][0]
    assert sum(part["total_ns"] for part in first["parts"]) == first["total_ns"]
    assert round(first["total_ns"] / 1e9, 6) == summary["run"]["duration_s"]
    return {part["part"]: part for part in first["parts"]}


@pytest.mark.slow
def test_each_spawned_child_that_trains_has_its_place(job):
    run = job(PROGRAMS / "torch_spawned.py")
    assert (run.code, run.out) == (0, "0 0\n"), run.err
    summary = run.summary
    adds_up(summary)
    processes = summary["whole_run"]
    assert [process["steps"] for process in processes] == [10, 5]
    children = {row["pid"] for row in summary["run"]["processes"] if row["role"] == "spawn"}
    assert {process["pid"] for process in processes} == children
    page = subprocess.run(
        [sys.executable, "-m", "ms_profiler", "summary", "--all", str(run.result)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert f"10 steps of spawn SpawnProcess-2 (pid {processes[0]['pid']}), one of 2 processes that have steps" in page
    at = page.index("Processes that have steps")
    for process in processes:
        assert f"pid {process['pid']}" in page[at : page.index("\n\n", at)]


@pytest.mark.parametrize(("kind", "steps"), [("rollout", 100), pytest.param("trained", 7, marks=pytest.mark.slow)])
def test_a_killed_run_adds_up(tmp_path, kind, steps):
    """If a job is killed before its training, calls of the network are its steps; if later, they are not."""
    output = tmp_path / "data"
    options = {"start": True, "output_path": str(output), "quiet": True}
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, kind],
        env=environment(options),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    ) as process:
        assert process.stdout.readline() == "done\n"
        os.kill(process.pid, signal.SIGKILL)
    (result,) = output.glob("*_ascend_ms")
    engine.analyse([result])
    summary = json.loads((result / layout.SUMMARY).read_text())
    parts = adds_up(summary)
    assert summary["steps"]["count"] == steps
    assert ("network calls" in parts) == (kind == "trained")
    assert parts["import"]["total_ns"] > 0 and parts["steps"]["total_ns"] > 0


@pytest.mark.slow
def test_our_own_work_between_steps_belongs_to_no_step(job):
    """A read of a file at a step's end may take 5 ms on a busy machine: the next step must not look slow by it."""
    run = job(SLOW_BOUNDARIES, options={"overhead_budget": 0, "analyse": "off"})
    assert run.code == 0, run.err
    recording = store.read(str(run.result))
    own = recording.spans.filter(recording.names.gather(recording.spans["name"]) == OWN_WORK)
    found = steps.choose(recording).table
    assert found.height == 20 and intervals.intersect(own, found).is_empty()
    parts = dict(stretches.sums(stretches.stretches(recording)).select("part", "total_ns").iter_rows())
    assert parts["profiling"] > 4 * 50_000_000
