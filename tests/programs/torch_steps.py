"""Train in ways in which steps are hard to tell; print how many the script made. usage: torch_steps.py KIND"""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(7)
net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 2))
critic = nn.Linear(2, 1)
x, y = torch.randn(4, 8), torch.randint(0, 2, (4,))
batches = DataLoader(TensorDataset(torch.randn(400, 8)), batch_size=4)
count = 0


def update(optimizer, loss):
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def rollout():
    """Twice 100 calls of the network in an environment, then 8 updates."""
    global count
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(2):
        with torch.no_grad():
            for _ in range(100):
                net(x).argmax()
        for _ in range(8):
            update(optimizer, net(x).sum())
            count += 1


def evaluation_first():
    """100 batches of an evaluation, then 6 updates, an evaluation, and 6 more."""
    global count
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for number in range(12):
        if number % 6 == 0:
            with torch.inference_mode():
                for (batch,) in batches:
                    net(batch)
        update(optimizer, nn.functional.cross_entropy(net(x), y))
        count += 1


def warm_up():
    """80 calls with unused gradients, then 5 updates."""
    global count
    for _ in range(80):
        net(x)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(5):
        update(optimizer, net(x).sum())
        count += 1


def gan(iterations=4, critics=1):
    """Two optimizers in turn."""
    global count
    first = torch.optim.Adam(net.parameters())
    second = torch.optim.Adam(critic.parameters())
    for _ in range(iterations):
        for _ in range(critics):
            update(second, critic(net(x).detach()).mean())
        update(first, -critic(net(x)).mean())
        count += 1


def gan_once():
    """One iteration."""
    gan(1)


def gan_critics():
    """Five steps of one for each of the other."""
    gan(3, 5)


def gan_critics_once():
    """The same, one iteration."""
    gan(1, 5)


def together():
    """Two optimizers that step together, one after another part of the job had one of its own."""
    global count
    torch.optim.SGD(net.parameters(), lr=0.1)
    optimizers = [torch.optim.SGD(part.parameters(), lr=0.1) for part in (net, critic)]
    for _ in range(5):
        critic(net(x)).mean().backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        count += 1


def bare():
    """No network: the first step begins with the first work."""
    global count
    weight = torch.ones(400, 400, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    for _ in range(4):
        update(optimizer, (weight @ weight).sum())
        count += 1


def only_called():
    """70 calls, although there is an optimizer."""
    global count
    torch.optim.SGD(net.parameters(), lr=0.1)
    with torch.no_grad():
        for _ in range(70):
            net(x)
            count += 1


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    print(count)
