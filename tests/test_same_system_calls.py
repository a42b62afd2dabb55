"""A job that replaces functions of the system, like tests, sees no call of ms-profiler, and misleads none of them."""

import re
from pathlib import Path

import ms_profiler.job
import ms_profiler.store
import pytest

MOCKED = """
from unittest import mock

import torch

model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

def train():
    for _ in range(600):
        optimizer.zero_grad()
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()

with open("mine.txt", "w") as mine:
    # a mock as a number is 1, the descriptor of stdout
    with mock.patch("os.open") as first, mock.patch("os.close"), mock.patch("os.pread") as read:
        train()
    with mock.patch("os.open", return_value=mine.fileno()) as second:
        train()
    mine.write("mine")
with mock.patch("builtins.open", mock.mock_open(read_data="lr=3")) as opened:
    train()
    open("settings").read()
opened.assert_called_once_with("settings")
print(first.call_count, second.call_count, read.call_count, open("mine.txt").read())
"""


def test_a_mock_is_called_by_the_job_alone(job):
    run = job(MOCKED, env={"MS_PROFILER_RAISE": "1"})
    assert (run.code, run.out) == (0, "0 0 0 mine\n"), run.err
    assert run.summary["steps"]["count"] == 1800
    assert run.summary["hooks"]["failed"] == {}


@pytest.mark.parametrize("package", [ms_profiler.job, ms_profiler.store])
def test_no_module_of_the_job_side_looks_up_a_function_that_a_job_may_replace(package):
    """`posix` has the same functions as `os`, and `_io` the same `open`, but no test replaces them there."""
    looked_up = re.compile(
        r"\bos\.(open|fdopen|close|read|write|pread|listdir|stat|replace|unlink|sysconf|mkdir|rmdir)\("
    )
    for path in sorted(Path(package.__file__).parent.rglob("*.py")):
        text = path.read_text()
        assert not looked_up.search(text), path
        if re.search(r"(?m)^(?!\s*def ).*(?<![\w.])open\(", re.sub(r'"""[\s\S]*?"""', "", text)):
            assert "from _io import open" in text, path


def test_hooks_of_the_job_have_the_numbers_that_they_have_without_us(job):
    program = """
import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
handles = [model.register_forward_hook(lambda *_: None), optimizer.register_step_post_hook(lambda *_: None)]
handles += [register_optimizer_step_pre_hook(lambda *_: print("stepped"))]
for _ in range(3):
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
handles.pop().remove()
for _ in range(3):
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
print([handle.id for handle in handles])
"""
    bare, run = job(program, profile=False), job(program)
    assert (run.code, run.out) == (0, bare.out), run.err
    assert run.summary["steps"]["count"] == 6
