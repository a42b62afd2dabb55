"""Train in the ways that scripts do, each from the same begin. usage: torch_loops.py KIND..."""

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
    # the seed of the workers is drawn from the generator of the main process
    return DataLoader(data, batch_size=4, num_workers=workers)


def plain():
    """12 steps, with a scheduler and an evaluation between two epochs."""
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
    """4 steps of 3 batches."""
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for number, (x, y) in enumerate(batches()):
        loss = loss_of(net(x), y) / 3
        loss.backward()
        losses.append(loss.item())
        if number % 3 == 2:
            optimizer.step()
            optimizer.zero_grad()


def gan():
    """12 steps with two optimizers, the second of which steps twice."""
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
    """5 steps, each of several passes."""
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
    """6 steps, of which one has gradients that are not finite; its parameters stay as they are."""
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
    """12 steps; at the third, the first call of the optimizer fails and is made again."""
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
    """12 steps of an optimizer that contains another one, whose class calls the step of its base."""

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
    """12 steps without an optimizer, by autograd.grad."""
    for x, y in batches():
        loss = loss_of(net(x), y)
        parameters = list(net.parameters())
        with torch.no_grad():
            for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
                parameter -= 0.1 * gradient
        losses.append(loss.item())


def inference():
    """10 calls, and nothing that tells more."""
    net.eval()
    with torch.no_grad():
        for _ in range(10):
            losses.append(net(data[:4][0]).sum().item())


def recompute():
    """12 steps, in which a block of the forward pass is computed again in each of two ways."""
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
