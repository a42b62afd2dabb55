"""Train, and call in every step a function of 2 ms through a wrapper of ms-profiler that takes 0.5 ms itself.

The program prints the mean time of the function in ns. On a busy machine, both the function and the wrapper take
longer.
"""

import time

import torch
from ms_profiler import _native

STEPS = 1200


def spin(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def work():
    begin = time.perf_counter_ns()
    spin(0.002)
    times.append(time.perf_counter_ns() - begin)


def fails(reason):
    raise reason


times = []
called = _native.Wrapper(work, before=lambda: spin(0.0005), after=lambda *_: None, failed=fails, forked=[])
torch.set_num_threads(1)
net = torch.nn.Sequential(*(torch.nn.Tanh() for _ in range(100)), torch.nn.Linear(4, 4))
optimizer = torch.optim.SGD(net.parameters(), lr=1e-6)
x = torch.rand(4)
for _ in range(STEPS):
    optimizer.zero_grad()
    net(x).sum().backward()
    called()
    optimizer.step()
print(sum(times) / len(times))
