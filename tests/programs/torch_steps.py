"""Train in ways whose steps are hard to recognise; print the number of steps. usage: torch_steps.py KIND"""

import queue
import sys
import threading

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
    """Call the network 100 times as for an environment, make 8 updates, and do both again."""
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
    """Evaluate 100 batches before each 6 updates; make 12 updates."""
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
    """Call the network 80 times without using the gradients, then make 5 updates."""
    global count
    for _ in range(80):
        net(x)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(5):
        update(optimizer, net(x).sum())
        count += 1


def gan(iterations=4, critics=1):
    """Train with two optimizers; the first steps once in each iteration, the second `critics` times."""
    global count
    first = torch.optim.Adam(net.parameters())
    second = torch.optim.Adam(critic.parameters())
    for _ in range(iterations):
        for _ in range(critics):
            update(second, critic(net(x).detach()).mean())
        update(first, -critic(net(x)).mean())
        count += 1


def gan_once():
    """Train one iteration with two optimizers."""
    gan(1)


def gan_critics():
    """Train 3 iterations in which the second optimizer steps five times."""
    gan(3, 5)


def gan_critics_once():
    """Train one iteration in which the second optimizer steps five times."""
    gan(1, 5)


def together():
    """Train with two optimizers that step together; another part of the job made an optimizer before."""
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
    """Train without a network: the first step begins with the first operator."""
    global count
    weight = torch.ones(400, 400, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    for _ in range(4):
        update(optimizer, (weight @ weight).sum())
        count += 1


def only_called():
    """Call the network 70 times, although there is an optimizer."""
    global count
    torch.optim.SGD(net.parameters(), lr=0.1)
    with torch.no_grad():
        for _ in range(70):
            net(x)
            count += 1


def prefetched():
    """Train on batches that a thread takes from the loader; the thread calls the network once before."""
    global count
    taken = queue.Queue(3)

    def take():
        with torch.no_grad():
            net(x)
        for batch in batches:
            taken.put(batch)
        taken.put(None)

    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    thread = threading.Thread(target=take)
    thread.start()
    for (batch,) in iter(taken.get, None):
        update(optimizer, net(batch).sum())
        count += 1
    thread.join()


def parameters():
    """Train with an optimizer for each of 80 parameters, which steps as soon as its parameter has a gradient."""
    global count
    deep = nn.Sequential(*(nn.Linear(4, 4) for _ in range(40)))
    optimizers = {parameter: torch.optim.SGD([parameter], lr=0.01) for parameter in deep.parameters()}
    for parameter, optimizer in optimizers.items():
        parameter.register_post_accumulate_grad_hook(lambda _, optimizer=optimizer: optimizer.step())
    for _ in range(5):
        deep(torch.ones(2, 4)).sum().backward()
        deep.zero_grad()
        count += 1


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    print(count)
