"""Train, and call in every step a function of 2 ms through a wrapper of ms-profiler that takes 0.5 ms itself."""

import time

import torch
from ms_profiler import _native

STEPS = 1200


def spin(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def fails(reason):
    raise reason


called = _native.Wrapper(spin, before=lambda _: spin(0.0005), after=lambda *_: None, failed=fails, forked=[])
torch.set_num_threads(1)
net = torch.nn.Sequential(*(torch.nn.Tanh() for _ in range(100)), torch.nn.Linear(4, 4))
optimizer = torch.optim.SGD(net.parameters(), lr=1e-6)
x = torch.rand(4)
for _ in range(STEPS):
    optimizer.zero_grad()
    net(x).sum().backward()
    called(0.002)
    optimizer.step()
