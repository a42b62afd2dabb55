"""Train on batches that one slow function holds up.

usage: slow_batches.py WHERE WORKERS: the slow function is a transform, collates a batch, or moves it.
"""

import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset, default_collate

WHERE, WORKERS = sys.argv[1], int(sys.argv[2])


def busy(seconds):
    """Use a processor for some time."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def blur(sample):
    """Take 5 ms if the transform is the slow one."""
    if WHERE == "transform":
        busy(0.005)
    return sample


def stack_up(samples):
    """Take 40 ms if the collation is the slow one."""
    if WHERE == "collate":
        busy(0.04)
    return default_collate(samples)


def move(batch):
    """Take 40 ms if the transfer is the slow one."""
    if WHERE == "transfer":
        busy(0.04)
    return batch.to(torch.float64)


class Samples(Dataset):
    """Small samples."""

    def __len__(self):
        return 240

    def __getitem__(self, index):
        return blur(torch.full((16,), float(index)))


def main():
    """Train."""
    net = torch.nn.Linear(16, 1, dtype=torch.float64)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-6)
    for batch in DataLoader(Samples(), batch_size=8, num_workers=WORKERS, collate_fn=stack_up):
        net(move(batch)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


main()
