"""Train with a profiler of the script for three iterations, then without it; print how long its stop took.

usage: own_profiler_between.py FOLDER
"""

import sys
import time

import ms_profiler
import torch

network = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(network.parameters(), lr=0.1)


def train():
    network(torch.randn(4, 8)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()


profiler = ms_profiler.profile(on_trace_ready=ms_profiler.tensorboard_trace_handler(sys.argv[1]))
for _ in range(3):
    train()
begun = time.perf_counter()
profiler.stop()
print(time.perf_counter() - begun)
for _ in range(3):
    train()
