"""The summary names the cause that a user can change, not only the phase in which the time passes."""

import subprocess
import sys

import pytest

#: In each step, the scheduler sleeps. After every fourth step, an evaluation takes longer than the four steps.
SCHEDULED = """
import time
import torch
from torch import nn

class Slow(nn.Module):
    def forward(self, x):
        if not self.training:
            time.sleep(0.1)
        return x

def rate(step):
    time.sleep(0.04)
    return 0.9**step

torch.set_num_threads(1)
net = nn.Sequential(nn.Linear(8, 8), Slow(), nn.Linear(8, 2))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
for step in range(16):
    net(torch.ones(4, 8)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    scheduler.step()
    if step % 4 == 3:
        net.eval()
        with torch.no_grad():
            for _ in range(2):
                net(torch.ones(4, 8))
        net.train()
"""


@pytest.fixture(scope="module")
def scheduled(launch):
    run = launch(SCHEDULED)
    assert run.code == 0, run.err
    return run


def shown(run):
    """Return the lines that the user sees."""
    command = [sys.executable, "-m", "ms_profiler", "summary", str(run.result)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def test_a_slow_scheduler_of_learning_rates_is_named(scheduled):
    assert "most of it in the scheduler of learning rates" in scheduled.summary["verdict"]
    (waits,) = (item for item in scheduled.summary["advice"] if item["cause"] == "host-waits")
    assert "most of it in the scheduler of learning rates" in waits["evidence"]


def test_an_evaluation_has_its_share_of_the_training(scheduled):
    parts = {part["part"]: part for part in scheduled.summary["whole_run"][0]["parts"]}
    assert sum(part["training_share"] for part in parts.values()) == pytest.approx(1, abs=1e-5)
    assert parts["import"]["training_share"] == parts["set-up"]["training_share"] == 0
    share = parts["evaluation"]["training_share"]
    assert 0.25 < share > parts["evaluation"]["share"]
    steps = parts["steps"]["training_share"]
    line = f"Outside of the steps: evaluation {share * 100:.0f} % of the training; the steps {steps * 100:.0f} %"
    assert line in shown(scheduled)
