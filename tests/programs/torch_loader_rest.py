"""Train with a loader and a scheduler until hooks rest, then count the functions of ms-profiler that run in Python.

The job sleeps after each epoch from then on. It prints the numbers of epochs before the first sleep and of all epochs,
and for each epoch with a sleep whether the hooks rested all the time, and the calls of each function, as JSON.
"""

import collections
import json
import os
import sys
import time

import torch
from resting import MOST, net, rests

FEW, SLEEP = 20, 0.1
optimizer = torch.optim.SGD(net.parameters(), lr=1e-9)
scheduler = torch.optim.lr_scheduler.ConstantLR(optimizer)
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.rand(FEW, 8)), batch_size=1)
calls: collections.Counter[str] = collections.Counter()


def epoch():
    """Train an epoch; return whether the hooks rested in each step."""
    rested = []
    for (batch,) in loader:
        optimizer.zero_grad()
        net(batch).sum().backward()
        optimizer.step()
        scheduler.step()
        rested.append(rests())
    return all(rested)


def note(frame, event, argument):
    """Count a call of a function of ms-profiler; the interpreter calls this for each call of any function."""
    if event == "call" and os.path.join("ms_profiler", "job") in frame.f_code.co_filename:
        calls[f"{os.path.basename(frame.f_code.co_filename)} {frame.f_code.co_name}"] += 1


epochs = 1
while not epoch() and epochs < MOST // FEW:
    epochs += 1
quiet, found = epochs, []
for _ in range(8):
    time.sleep(SLEEP)
    calls.clear()
    sys.setprofile(note)
    rested = epoch()
    sys.setprofile(None)
    epochs += 1
    found.append([rested, calls.copy()])
print(json.dumps([quiet, epochs, found]))
