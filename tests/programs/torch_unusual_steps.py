"""Train in steps that are rarely sampled; meanwhile do what the usual case of a hook does not cover.

With the argument "stay", it uses a profiler of its own first. Then hooks stay between bursts.
The program prints the number of calls of each kind, as JSON. Without ms-profiler, `shortcuts` is None.
"""

import collections
import json
import sys
import threading

import torch

USUAL = 600
counts: collections.Counter[str] = collections.Counter()


class Outer(torch.optim.SGD):
    """An optimizer whose step runs the step of another one."""

    def __init__(self, parameters, inner):
        super().__init__(parameters, lr=1e-6)
        self.inner = inner

    def step(self, closure=None):
        self.inner.step()
        counts["inner"] += 1
        return super().step(closure)


def network():
    return torch.nn.Sequential(*(torch.nn.Tanh() for _ in range(30)), torch.nn.Linear(4, 4))


def forward(net):
    counts["forward"] += 1
    return net(x).sum()


def step(net, optimizer):
    optimizer.zero_grad()
    loss = forward(net)
    counts["backward"] += 1
    loss.backward()
    optimizer.step()
    counts["steps"] += 1


def fails():
    raise ValueError("the closure fails")


torch.set_num_threads(1)
x = torch.rand(4)
net = network()
optimizer = torch.optim.SGD(net.parameters(), lr=1e-6)
if sys.argv[1:] == ["stay"]:
    with torch.autograd.profiler.profile():
        pass
for _ in range(USUAL):
    step(net, optimizer)

net.eval()
with torch.no_grad():
    for _ in range(20):
        net(x)
        counts["evaluated"] += 1
net.train()

for _ in range(10):
    try:
        optimizer.step(fails)
    except ValueError:
        counts["failed"] += 1
for _ in range(20):
    step(net, optimizer)

for _ in range(10):
    torch.autograd.grad(forward(net), list(net.parameters()))
    counts["gradients"] += 1
    step(net, optimizer)


def beside():
    """Train another network on another thread, whose steps do not count."""
    own = network()
    other = torch.optim.SGD(own.parameters(), lr=1e-6)
    for _ in range(20):
        other.zero_grad()
        own(x).sum().backward()
        other.step()
        counts["beside"] += 1


thread = threading.Thread(target=beside)
thread.start()
thread.join()
for _ in range(20):
    step(net, optimizer)

for _ in range(5):  # a new optimizer often gets the address of the last one
    optimizer = None
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-6)
    for _ in range(40):
        step(net, optimizer)

optimizer = None
optimizer = Outer(net.parameters(), torch.optim.Adagrad(net.parameters(), lr=1e-6))
for _ in range(100):
    step(net, optimizer)

native = sys.modules.get("ms_profiler._native")
print(json.dumps({**counts, "shortcuts": None if native is None else native.optimizer_steps()}))
