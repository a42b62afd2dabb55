"""Train with PyTorch with one planted fault, or without a fault.

usage: planted_torch.py input|input-workers|sync|launch|recompile|growth|environment|sleep|sleep-module|sleep-function|
       python|garbage|checkpoint|optimizer|unfused|threads|casts|none|convolution|attention|workers
       torchrun planted_torch.py late|late-python|ranks
"""

import gc
import os
import sys
import tempfile
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

FEATURES, CLASSES = 64, 10


class Samples(Dataset):
    """Samples that take some seconds each to fetch."""

    def __init__(self, count, seconds):
        self.count, self.seconds = count, seconds

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        if self.seconds:
            time.sleep(self.seconds)
        return torch.full((FEATURES,), index / self.count), index % CLASSES


class Slow(nn.Module):
    """Sleep for 30 ms and return the input."""

    def forward(self, x):
        time.sleep(0.03)
        return x


class Waits(torch.autograd.Function):
    """Sleep for 15 ms in the forward pass and in the backward pass."""

    @staticmethod
    def forward(_, x):
        time.sleep(0.015)
        return x.clone()

    @staticmethod
    def backward(_, gradient):
        time.sleep(0.015)
        return gradient.clone()


class Waiting(nn.Module):
    """Call the function `Waits`."""

    def forward(self, x):
        return Waits.apply(x)


class Attention(nn.Module):
    """A layer of a transformer, followed by a head."""

    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(128, 4, 512, batch_first=True)
        self.head = nn.Linear(128, CLASSES)

    def forward(self, x):
        return self.head(self.layer(x).mean(1))


class Node:
    """An object that refers to itself, so that only Python's collector frees it."""

    def __init__(self):
        self.own, self.rest = self, [[number] for number in range(20)]


def network(width, *more):
    """Return a network of four linear layers, followed by the given modules."""
    return nn.Sequential(
        nn.Linear(FEATURES, width),
        nn.ReLU(),
        nn.Linear(width, width),
        nn.ReLU(),
        nn.Linear(width, width),
        nn.ReLU(),
        nn.Linear(width, CLASSES),
        *more,
    )


def batch(size):
    """Return a random batch of `size` samples with their labels."""
    return torch.randn(size, FEATURES), torch.randint(CLASSES, (size,))


def train(model, optimizer, x, y):
    """Train one step and return its loss."""
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss


def busy(seconds):
    """Run Python code for some seconds of processor time."""
    total, end = 0, time.thread_time() + seconds
    while time.thread_time() < end:
        total += sum(range(100))
    return total


def ranks(kind):
    """Train on several ranks.

    With "late...", the last rank is late. "every-pass" exchanges gradients in each pass, "gather" gathers a tensor in
    each step.
    """
    from torch.nn.parallel import DistributedDataParallel

    torch.distributed.init_process_group("gloo")
    late = torch.distributed.get_rank() == torch.distributed.get_world_size() - 1
    model = DistributedDataParallel(network(1024 if kind == "every-pass" else 256))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    kept = torch.ones(8 << 20)
    for _ in range(20):
        x, y = batch(2048)  # with 1,024 samples, exchanges take 18 % of a step, and 37 % on a busy machine
        if late and kind == "late":
            time.sleep(0.1)
        elif late and kind == "late-python":
            busy(0.2)
        if kind == "every-pass":
            x, y = batch(16)
            for _ in range(3):
                nn.functional.cross_entropy(model(x), y).backward()
        if kind == "gather":
            x, y = batch(16)
            torch.distributed.all_gather([torch.empty(8 << 20) for _ in range(2)], kept)
        train(model, optimizer, x, y)
    torch.distributed.destroy_process_group()


def wrong(kind, model, optimizer):
    """Train with a planted fault in the script around the steps, not in the model."""
    x, y = batch(8)
    kept, total = [], 0.0
    if kind.startswith("input"):
        workers = 2 if kind == "input-workers" else 0
        for x, y in DataLoader(Samples(120, 0.01), batch_size=6, num_workers=workers):
            train(model, optimizer, x, y)
    elif kind in ("epochs", "kept-workers"):
        loader = DataLoader(Samples(24, 0), batch_size=6, num_workers=2, persistent_workers=kind != "epochs")
        for _ in range(12):
            for x, y in loader:
                train(model, optimizer, x, y)
    elif kind == "sync":
        for _ in range(20):
            for _ in range(500):
                x = x * 1.0001
                total += x.sum().item()
            train(model, optimizer, x, y)
    elif kind == "launch":
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
        x, y = batch(8192)  # a fast machine runs 80 steps with 8 samples each in 60 ms, too short to sample memory
        for _ in range(80):
            kept.append(train(model, optimizer, x, y) + torch.ones(256, 1024))
    elif kind == "environment":
        for _ in range(20):
            for _ in range(32):
                time.sleep(0.001)
                with torch.no_grad():
                    model(x[:1])
            train(model, optimizer, x, y)
    elif kind in ("sleep", "python"):
        for _ in range(20):
            (time.sleep if kind == "sleep" else busy)(0.05)
            train(model, optimizer, x, y)
    elif kind == "garbage":
        kept = [Node() for _ in range(20_000)]
        for _ in range(15):
            train(model, optimizer, x, y)
            gc.collect()
    elif kind == "checkpoint":
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(20):
                train(model, optimizer, x, y)
                torch.save({"model": model.state_dict(), "more": torch.ones(4 << 20)}, os.path.join(folder, "last.pt"))


def around(kind):
    """Train with a fault in the model, the optimizer or the process, or without a fault."""
    size, steps, width = 256, 20, 512
    if kind == "optimizer":
        model = nn.Sequential(nn.EmbeddingBag(200_000, 32), nn.Linear(32, CLASSES))
        optimizer = torch.optim.Adam(model.parameters())
        for _ in range(12):
            train(model, optimizer, torch.randint(200_000, (32, 4)), torch.randint(CLASSES, (32,)))
        return
    if kind == "unfused":
        model = nn.Sequential(*(nn.Linear(8, 8) for _ in range(60)), nn.Linear(8, CLASSES))
        optimizer = torch.optim.Adam(model.parameters(), foreach=False)
        for _ in range(20):
            train(model, optimizer, torch.randn(4, 8), torch.randint(CLASSES, (4,)))
        return
    if kind == "convolution":
        model = nn.Sequential(
            nn.Conv2d(3, 32, 3), nn.ReLU(), nn.Conv2d(32, 32, 3), nn.Flatten(), nn.LazyLinear(CLASSES)
        )
        x, y = torch.randn(16, 3, 32, 32), torch.randint(CLASSES, (16,))
        model(x)
    elif kind == "attention":
        model, x, y = Attention(), torch.randn(16, 64, 128), torch.randint(CLASSES, (16,))
    else:
        model = network(width, *{"sleep-module": [Slow()], "sleep-function": [Waiting()]}.get(kind, []))
        x, y = batch(size)
    if kind == "threads":
        torch.set_num_threads(8 * len(os.sched_getaffinity(0)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    if kind == "workers":
        for x, y in DataLoader(Samples(30 * size, 0), batch_size=size, num_workers=1):
            train(model, optimizer, x, y)
        return
    if kind == "casts":
        large = torch.randn(3000, 3000)
        for _ in range(20):
            x = (x + large.bfloat16().float()[0, 0]).detach()
            train(model, optimizer, x, y)
        return
    for step in range(steps):
        loss = train(model, optimizer, x, y)
        if step % 5 == 0:
            print(loss.item())


def main(kind):
    """Run the job with the given fault."""
    torch.manual_seed(0)
    if "RANK" in os.environ:
        ranks(kind)
    elif kind in (
        "sleep-module",
        "sleep-function",
        "optimizer",
        "unfused",
        "threads",
        "casts",
        "none",
        "convolution",
        "attention",
        "workers",
    ):
        around(kind)
    else:
        model = network(32)
        wrong(kind, model, torch.optim.SGD(model.parameters(), lr=0.01))


if __name__ == "__main__":
    main(sys.argv[1])
