"""Train with PyTorch with one thing wrong.

usage: planted_torch.py input|input-workers|sync|launch|recompile|growth|none
"""

import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

FEATURES, CLASSES = 64, 10


class Samples(Dataset):
    """Random samples, each of which takes a while to fetch."""

    def __init__(self, count, seconds):
        self.count, self.seconds = count, seconds

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        time.sleep(self.seconds)
        return torch.full((FEATURES,), index / self.count), index % CLASSES


def network(width):
    """Return a network of four layers."""
    return nn.Sequential(
        nn.Linear(FEATURES, width),
        nn.ReLU(),
        nn.Linear(width, width),
        nn.ReLU(),
        nn.Linear(width, width),
        nn.ReLU(),
        nn.Linear(width, CLASSES),
    )


def batch(size):
    """Return one batch."""
    return torch.randn(size, FEATURES), torch.randint(CLASSES, (size,))


def train(model, optimizer, x, y):
    """Train one step and return its loss."""
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss


def main(kind):
    """Run the job."""
    torch.manual_seed(0)
    model = network(512 if kind == "none" else 32)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    kept, total = [], 0.0
    if kind.startswith("input"):
        workers = 2 if kind == "input-workers" else 0
        for x, y in DataLoader(Samples(120, 0.01), batch_size=6, num_workers=workers):
            train(model, optimizer, x, y)
    elif kind == "sync":
        x, y = batch(8)
        for _ in range(20):
            for _ in range(200):
                x = x * 1.0001
                total += x.sum().item()
            train(model, optimizer, x, y)
    elif kind == "launch":
        x, y = batch(8)
        for _ in range(20):
            for _ in range(1500):
                x = x + 0.001
            train(model, optimizer, x, y)
    elif kind == "recompile":
        compiled = torch.compile(model, dynamic=False, backend="aot_eager")
        for size in range(4, 9):
            for _ in range(2):
                train(compiled, optimizer, *batch(size))
    elif kind == "growth":
        x, y = batch(8)
        for _ in range(80):
            kept.append(train(model, optimizer, x, y) + torch.ones(256, 1024))
    else:
        for step in range(25):
            loss = train(model, optimizer, *batch(256))
            if step % 5 == 0:
                print(loss.item())


if __name__ == "__main__":
    main(sys.argv[1])
