"""Train in short steps, so that hooks rest between bursts; meanwhile do what needs the hooks.

Each part of the program first trains until the hooks rest. The program prints the names of the parts in which they
did, the numbers of steps and evaluations, and the last loss, as JSON.
"""

import collections
import copy
import json
import os
import threading

import torch
from resting import MOST, fails, inner, net, rests, x

FEW = 20
counts: collections.Counter[str] = collections.Counter()
resting: list[str] = []


def step(optimizer, net):
    counts["at rest"] += rests()
    optimizer.zero_grad()
    loss = net(x).sum()
    loss.backward()
    optimizer.step()
    counts["steps"] += 1
    return loss


def part(name):
    """Train until the hooks rest."""
    for _ in range(MOST):
        step(optimizer, net)
        if rests():
            resting.append(name)
            return


optimizer = torch.optim.SGD(net.parameters(), lr=1e-9)
part("begin")

for _ in range(FEW):
    try:
        optimizer.step(fails)
    except ValueError:
        counts["failed"] += 1
    step(optimizer, net)

part("evaluation")
data = torch.utils.data.TensorDataset(torch.rand(FEW, 8))
for _ in torch.utils.data.DataLoader(data, batch_size=1):
    step(optimizer, net)
net.eval()
with torch.no_grad():
    for (batch,) in torch.utils.data.DataLoader(data, batch_size=1):
        net(batch)
        counts["evaluated"] += 1
net.train()

part("skipped")
scaler = torch.amp.GradScaler("cpu", init_scale=1.0)
for _ in range(FEW):
    optimizer.zero_grad()
    scaler.scale(net(x).sum() * float("inf")).backward()
    scaler.step(optimizer)
    scaler.update()
    counts["steps"] += 1

part("thread")


def beside():
    own = torch.nn.Linear(8, 8)
    other = torch.optim.SGD(own.parameters(), lr=1e-9)
    for _ in range(10 * FEW):
        own(x).sum().backward()
        other.step()
        counts["beside"] += 1


thread = threading.Thread(target=beside)
thread.start()
while thread.is_alive():
    step(optimizer, net)

part("fork")
child = os.fork()
if child == 0:
    for _ in range(FEW):
        step(optimizer, net)
    os._exit(int(rests()))
counts["child"] = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

part("nested")


def nests():
    for _ in range(3):
        inner.step()
    return net(x).sum()


for _ in range(FEW):
    optimizer.step(nests)
    counts["steps"] += 1

part("within")


def evaluates():
    net.eval()
    net.train()
    return net(x).sum()


optimizer.step(evaluates)
counts["steps"] += 1

part("derived")


class Derived(torch.optim.SGD):
    def step(self, closure=None):
        return super().step(closure)


former, optimizer = optimizer, Derived(net.parameters(), lr=1e-9)
for _ in range(8 * FEW):
    step(optimizer, net)
part("derived rests")
for _ in range(FEW):
    step(optimizer, net)
optimizer, former = former, None
for _ in range(8 * FEW):
    step(optimizer, net)

part("copy")
optimizer = copy.deepcopy(optimizer)
for _ in range(FEW):
    step(optimizer, net)

former = torch.nn.Module.__call__


def replacement(self, *args, **kwargs):
    counts["replaced"] += 1
    return former(self, *args, **kwargs)


torch.nn.Module.__call__ = replacement
part("replaced")
for _ in range(FEW):
    step(optimizer, net)
torch.nn.Module.__call__ = former

part("compiled")
compiled = torch.compile(net, backend="eager")
for _ in range(FEW):
    step(optimizer, compiled)
part("after compilation")

part("second")
second = torch.optim.Adagrad(net.parameters(), lr=1e-9)
for _ in range(8 * FEW):
    step(optimizer, net)
    second.step()

loss = step(optimizer, net)
print(json.dumps({**counts, "resting": resting, "loss": loss.item()}))
