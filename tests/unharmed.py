"""Training jobs for the tests of robustness, and the comparison of a profiled run with the run without the profiler."""

import json
import re
from pathlib import Path

from ms_profiler.analysis.driver import engine

#: a short training that prints its last loss exactly; tests add statements before the import and at the end
TRAIN = """
import os, signal, sys, threading, time
{before}
import torch
torch.set_num_threads(1)
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 4))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
def step():
    optimizer.zero_grad()
    loss = model(torch.ones(2, 4)).square().sum()
    loss.backward()
    optimizer.step()
    return loss.item().hex()
for number in range({steps}):
    loss = step()
print(loss, flush=True)
{after}
"""


def training(after="", before="", steps=6):
    """Return the text of a job.

    Args:
        after: statements after the training; they may call `step()`.
        before: statements before the import of PyTorch.
        steps: the number of steps.
    """
    return TRAIN.format(before=before, after=after, steps=steps)


def others(text):
    """Return the lines on stderr that are not ours, with N in place of numbers and addresses.

    When a process crashes, `faulthandler` lists the extension modules, to which the profiler adds cffi.
    """
    lines = [line for line in text.splitlines() if not line.startswith(("ms-profiler: ", "Extension modules: "))]
    return [re.sub(r"0x[0-9a-f]+|\d+", "N", line) for line in lines]


def unharmed(run, bare):
    """Check that exit code, stdout and the job's own lines on stderr are those of the run without the profiler."""
    assert (run.code, run.out, others(run.err)) == (bare.code, bare.out, others(bare.err)), run.err


def analysed(run):
    """Analyse the only result of a job, whose files all have to be readable, and return its summary."""
    (found,) = engine.analyse([run.result])
    assert not found.error and not found.warning, found
    return json.loads((Path(run.result) / "summary.json").read_text())
