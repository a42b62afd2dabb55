"""`max_disk` limits the total size of the files of all processes of a job and of the analysis."""

import json
import os

import pytest
from conftest import PROGRAMS
from ms_profiler.store import account, layout

pytest_plugins = ["recorder_fixtures"]

MOST = 5_000_000


def size(folder):
    return sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir())


@pytest.fixture(scope="module")
def bare(launch):
    return launch(PROGRAMS / "children.py", "24", "150", profile=False)


@pytest.fixture(scope="module")
def run(launch):
    options = {"max_disk": str(MOST), "overhead_budget": 0, "analyse": "sync"}
    return launch(PROGRAMS / "children.py", "24", "150", options=options)


@pytest.mark.slow
def test_the_job_is_unchanged(bare, run):
    assert (run.code, run.out) == (bare.code, bare.out), run.err
    assert len(run.lines) == 2, "children that find no room say nothing"


@pytest.mark.slow
def test_all_processes_and_the_analysis_keep_to_it_together(run):
    assert MOST / 2 < size(run.result / layout.FRAMEWORK) <= 0.75 * MOST + 20_000
    assert size(run.result) <= MOST


def test_processes_beyond_the_limit_are_reported(run):
    found = account.read(layout.account_path(str(run.result)))
    recorded = len(layout.process_dirs(str(run.result))) - 1
    assert found.refused == 24 - recorded and recorded >= 4 and found.refused >= 4
    reasons = {entry["what"]: entry["why"] for entry in run.summary["not_collected"]}
    assert "max_disk" in reasons[f"{found.refused} processes that the job started"]
    assert run.summary["completeness"]["dropped_limit"] > 1000


def test_timelines_have_the_steps_that_there_is_room_for(run):
    whats = [entry["what"] for entry in run.summary["not_collected"]]
    (what,) = (what for what in whats if what.startswith("the timeline"))
    assert "except for steps" in what
    events = json.loads((run.result / layout.OUTPUT / layout.TRACE_VIEW).read_text())
    assert sum(event["ph"] == "X" for event in events) > 100
    assert (run.result / layout.OUTPUT / layout.PERFETTO_TRACE).stat().st_size > 1000


@pytest.mark.slow
def test_steps_that_are_small_enough_are_shown_where_the_first_are_not(job):
    code = """
import torch
model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
one = torch.ones(2)
for number in range(60):
    for _ in range(700 if number < 6 else 4):
        one = one * 1
    optimizer.zero_grad()
    model(one).sum().backward()
    optimizer.step()
"""
    run = job(code, options={"max_disk": str(MOST), "overhead_budget": 0, "analyse": "sync"})
    (what,) = (entry["what"] for entry in run.summary["not_collected"] if entry["what"].startswith("the timeline"))
    first, last = map(int, what.removeprefix("the timeline and single kernels, except for steps ").split(" to "))
    assert 6 <= first <= last <= 16, "the first steps are too large, and operators end at a fixed step"
    events = json.loads((run.result / layout.OUTPUT / layout.TRACE_VIEW).read_text())
    assert sum(event.get("name") == "aten::mul" for event in events) == 4 * (last - first + 1)


def test_without_free_space_nothing_is_recorded(job, mounted):
    disk = mounted("-t", "tmpfs", "-o", "size=2m", "tmpfs")
    code = "import torch; print(float(torch.nn.Linear(2, 2)(torch.ones(1, 2)).sum()) < 9)"
    run = job(code, options={"output_path": str(disk), "analyse": "sync"})
    assert (run.code, run.out) == (0, "True\n")
    (line,) = run.lines
    assert "a tenth of the free disk space leaves" in line and "256 are needed" in line and "not profiled" in line
    assert not any(os.scandir(disk))


@pytest.mark.slow
def test_a_limit_by_the_free_space_is_called_so(job, mounted):
    disk = mounted("-t", "tmpfs", "-o", "size=12m", "tmpfs")
    code = """
import torch
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(400):
    for _ in range(20):
        model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
"""
    run = job(code, options={"output_path": str(disk), "overhead_budget": 0, "analyse": "sync"})
    assert run.code == 0, run.err
    (result,) = disk.iterdir()
    info = json.loads((result / layout.FRAMEWORK / "run_info.json").read_text())
    (entry,) = (entry for entry in info["not_collected"] if entry["what"].startswith("operators"))
    assert entry["why"] == "a tenth of the free disk space was reached"
