"""The time in which a backward pass recomputes a forward pass is stated, with what is recomputed."""

import importlib.util
import json

import pytest
from ms_profiler.analysis.report import remarks

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs PyTorch")

#: The block knows by its own clock how long it takes while it runs again.
JOB = """
import json, sys, time
import torch
from torch.utils.checkpoint import checkpoint
again, clock = [], []
class Slow(torch.autograd.Function):
    @staticmethod
    def forward(context, value):
        return value.clone()
    @staticmethod
    def backward(context, gradient):
        start = time.perf_counter()
        while time.perf_counter() - start < 0.01:
            pass
        return gradient.clone()
class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
    def forward(self, value):
        start = time.perf_counter()
        # long beside PyTorch's own work for a recomputation, which is up to 0.8 ms on a busy machine
        while time.perf_counter() - start < 0.02:
            pass
        try:
            return Slow.apply(self.linear(value))
        finally:  # PyTorch stops the second run by an exception, once it has what it needs
            if clock:
                again.append(time.perf_counter() - start)
block = Block()
optimizer = torch.optim.SGD(block.parameters(), lr=0.01)
for _ in range(20):
    value = torch.ones(2, 4, requires_grad=True)
    loss = checkpoint(block, value, use_reentrant=sys.argv[1] == "True") if sys.argv[1:] else block(value)
    loss = loss.sum()
    clock.append(1)
    loss.backward()
    clock.clear()
    optimizer.step()
    optimizer.zero_grad()
print(json.dumps(again[1:]))
"""


@pytest.mark.parametrize("reentrant", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_the_time_of_recomputations_is_that_of_the_jobs_own_clock(launch, reentrant):
    """With `use_reentrant=True`, the span of a recomputation also contains the backward pass of the block."""
    run = launch(JOB, str(reentrant), options={"overhead_budget": 0})
    own = json.loads(run.out)
    found = run.summary["recomputation"]
    assert len(own) == 19 and found["modules"] == ["Block"]
    assert found["per_step_ms"] == pytest.approx(sum(own) / len(own) * 1e3, rel=0.15)
    assert 0.1 < found["share"] < 0.6
    (line,) = remarks.again(run.summary)
    assert line.startswith("In the backward pass, ") and line.endswith("recomputes the forward pass of Block")


@pytest.mark.slow
def test_a_job_that_recomputes_nothing_has_no_line(launch):
    run = launch(JOB, options={"overhead_budget": 0})
    assert run.summary["recomputation"] is None and remarks.again(run.summary) == []
