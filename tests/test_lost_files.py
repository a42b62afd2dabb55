"""A job survives the loss of store files while it records, and its own handlers get the signals that follow."""

import json
import signal
import subprocess
import sys

import pytest
from conftest import PROGRAMS, environment
from ms_profiler.store import layout
from recorders import TESTS

#: Recorders that survive a truncated file. The mapped Python recorder cannot repair a page: see docs/architecture.md.
MENDED = ("native", "native-written", "python-written")


def run(kind, folder, event, **extra):
    """Run the program with an event; return its exit code, its stdout, and its first line on stderr."""
    folder.mkdir(parents=True)
    command = [sys.executable, str(PROGRAMS / "recorder_lost.py"), kind, str(folder), event]
    variables = environment(PYTHONPATH=str(TESTS), **extra)
    ended = subprocess.run(command, capture_output=True, text=True, env=variables, timeout=100, check=False)
    return ended.returncode, ended.stdout, ended.stderr.partition("\n")[0]


@pytest.mark.parametrize("kind", MENDED)
def test_truncated_files_do_not_end_a_job(kind, tmp_path):
    printed = "dropped" if kind == "native" else "written again"
    assert run(kind, tmp_path / "store", "truncate") == (0, f"{printed}\nno handler\n", "")


@pytest.mark.parametrize("event", ["own page", "faulthandler", "sent", "handler", "fork"])
def test_any_other_sigbus_has_its_usual_effect(event, tmp_path):
    bare = run("none", tmp_path / "bare", event)
    assert run("native", tmp_path / "store", event) == bare
    assert bare[0] == (0 if event in ("handler", "fork") else -signal.SIGBUS)
    assert bool(bare[2]) == (event == "faulthandler")


JOB = """
import glob, os, resource, signal, sys
import torch
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
torch.manual_seed(1)
def step():
    loss = model(torch.ones(2, 4)).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
for number in range(1500):
    step()
    if number == 500 and sys.argv[1] == "truncate":
        for path in glob.glob("data/*/FRAMEWORK/**", recursive=True):
            if os.path.isfile(path):
                os.truncate(path, 0)
    if number == 500 and sys.argv[1] == "limit":
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
print(number)
"""


@pytest.mark.parametrize("event", ["truncate", pytest.param("limit", marks=pytest.mark.slow)])
def test_a_job_continues_without_its_files(job, event):
    ended = job(JOB, event, options={"overhead_budget": 0})
    assert (ended.code, ended.out) == (0, "1499\n"), ended.err
    assert "Traceback" not in ended.err
    if event == "truncate":
        messages = json.loads((ended.recorded / layout.FRAMEWORK / layout.RUN_INFO).read_text())["not_collected"]
        assert any("disk" in entry["why"] for entry in messages)
