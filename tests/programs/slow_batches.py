"""Train on batches that one slow function delays.

usage: slow_batches.py transform|collate|transfer WORKERS
"""

import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset, default_collate

WHERE, WORKERS = sys.argv[1], int(sys.argv[2])


def busy(seconds):
    """Keep a processor busy for some seconds."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def blur(sample):
    """Return the sample; take 5 ms if the transform is the slow function."""
    if WHERE == "transform":
        busy(0.005)
    return sample


def stack_up(samples):
    """Return a batch of the samples; take 40 ms if the collation is the slow function."""
    if WHERE == "collate":
        busy(0.04)
    return default_collate(samples)


def move(batch):
    """Return the batch in double precision; take 40 ms if the transfer is the slow function."""
    if WHERE == "transfer":
        busy(0.04)
    return batch.to(torch.float64)


class Samples(Dataset):
    """240 small samples."""

    def __len__(self):
        return 240

    def __getitem__(self, index):
        return blur(torch.full((16,), float(index)))


def main():
    """Train one epoch."""
    net = torch.nn.Linear(16, 1, dtype=torch.float64)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-6)
    for batch in DataLoader(Samples(), batch_size=8, num_workers=WORKERS, collate_fn=stack_up):
        net(move(batch)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


main()
