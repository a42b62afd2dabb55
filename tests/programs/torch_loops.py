"""Train in the ways that scripts do, each time from the same initial state. usage: torch_loops.py KIND..."""

import sys

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.second = nn.Sequential(nn.ReLU(), nn.Linear(16, 4))

    def forward(self, x):
        return self.second(self.first(x))


loss_of = nn.functional.cross_entropy


def batches(workers=0):
    # the main process draws the seed of the workers from its own random generator
    return DataLoader(data, batch_size=4, num_workers=workers)


def plain():
    """Train 12 steps, with a scheduler and with an evaluation between two epochs."""
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3)
    for epoch in range(2):
        for number, (x, y) in enumerate(batches(2)):
            optimizer.zero_grad()
            loss = loss_of(net(x), y)
            loss.backward()
            optimizer.step()
            scheduler.step()
            losses.append(loss.item())
            if number == 5:
                break
        with torch.no_grad():
            for x, y in batches() if epoch == 0 else ():
                losses.append(loss_of(net(x), y).item())


def accumulate():
    """Train 4 steps, each with the gradients of 3 batches."""
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for number, (x, y) in enumerate(batches()):
        loss = loss_of(net(x), y) / 3
        loss.backward()
        losses.append(loss.item())
        if number % 3 == 2:
            optimizer.step()
            optimizer.zero_grad()


def gan():
    """Train 12 steps with two optimizers, the second of which steps twice in each."""
    critic = nn.Linear(4, 1)
    first = torch.optim.Adam(net.parameters(), lr=0.01)
    second = torch.optim.Adam(critic.parameters(), lr=0.01)
    for x, _ in batches():
        for _ in range(2):
            second.zero_grad()
            critic(net(x).detach()).mean().backward()
            second.step()
        first.zero_grad()
        loss = -critic(net(x)).mean()
        loss.backward()
        first.step()
        losses.append(loss.item())


def lbfgs():
    """Train 5 steps, each with several forward and backward passes."""
    optimizer = torch.optim.LBFGS(net.parameters(), max_iter=4)
    x, y = data[:16]

    def closure():
        optimizer.zero_grad()
        loss = loss_of(net(x), y)
        loss.backward()
        return loss

    for _ in range(5):
        losses.append(optimizer.step(closure).item())


def scaler():
    """Train 6 steps; one of them has gradients that are not finite, and leaves the parameters unchanged."""
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    for number, (x, y) in enumerate(batches()):
        if number == 6:
            break
        optimizer.zero_grad()
        loss = loss_of(net(x), y) * (float("inf") if number == 3 else 1.0)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(net.first.weight.sum().item())


def failing():
    """Train 12 steps; in the third, the optimizer's first call fails, and the script calls it again."""
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def closure():
        raise ArithmeticError

    for number, (x, y) in enumerate(batches()):
        optimizer.zero_grad()
        loss = loss_of(net(x), y)
        loss.backward()
        try:
            optimizer.step(closure if number == 2 else None)
        except ArithmeticError:
            optimizer.step()
        losses.append(loss.item())


def wrapped():
    """Train 12 steps with an optimizer that calls an inner one, whose `step` calls that of its base class."""

    class Inner(torch.optim.SGD):
        def step(self, closure=None):
            return super().step(closure)

    class Outer(torch.optim.Optimizer):
        def __init__(self, parameters):
            self.inner = Inner(parameters, lr=0.1)
            super().__init__(self.inner.param_groups, {})

        def step(self, closure=None):
            return self.inner.step(closure)

    optimizer = Outer(list(net.parameters()))
    for x, y in batches():
        optimizer.zero_grad()
        loss = loss_of(net(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())


def function():
    """Train 12 steps by autograd.grad, without an optimizer."""
    for x, y in batches():
        loss = loss_of(net(x), y)
        parameters = list(net.parameters())
        with torch.no_grad():
            for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
                parameter -= 0.1 * gradient
        losses.append(loss.item())


def inference():
    """Call a module 10 times, without an optimizer or a loader that would mark steps."""
    net.eval()
    with torch.no_grad():
        for _ in range(10):
            losses.append(net(data[:4][0]).sum().item())


def recompute():
    """Train 12 steps with two recomputed blocks, one for each way of recomputation."""
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for x, y in batches():
        optimizer.zero_grad()
        x.requires_grad_()
        hidden = checkpoint(net.first, x, use_reentrant=True)
        loss = loss_of(checkpoint(net.second, hidden, use_reentrant=False), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())


if __name__ == "__main__":
    for kind in sys.argv[1:]:
        torch.manual_seed(7)
        net, losses = Net(), []
        data = TensorDataset(torch.randn(48, 8), torch.randint(0, 4, (48,)))
        globals()[kind]()
        parameters = sum(parameter.detach().double().sum().item() for parameter in net.parameters())
        print(kind, *(value.hex() for value in (*losses, parameters)))
