"""Spawn two children that train, the second for twice as many steps. usage: torch_spawned.py"""

import multiprocessing

import torch
from torch import nn


def train(count):
    torch.set_num_threads(1)
    net = nn.Linear(8, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(count):
        optimizer.zero_grad()
        net(torch.randn(4, 8)).sum().backward()
        optimizer.step()


if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    children = [context.Process(target=train, args=(count,)) for count in (5, 10)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    print(*(child.exitcode for child in children))
