"""Train data-parallel with one late rank. usage: torchrun ... late_ranks_torch.py KIND RANK [STEPS]

KIND is input, computing, layer (the second layer computes), sleep, stop (SIGSTOP for a second in one step) or none.
"""

import os
import subprocess
import sys
import time

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

FEATURES, SIZE = 256, 64
#: seconds by which the rank is late in each step
LATE = 0.06


class Samples(Dataset):
    """Batches that each take some seconds to fetch."""

    def __init__(self, count, seconds):
        self.count, self.seconds = count, seconds

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        time.sleep(self.seconds)
        return torch.full((SIZE, FEATURES), index / self.count), torch.zeros(SIZE, dtype=torch.long)


class Large(nn.Linear):
    """A layer that works for some seconds longer than others."""

    seconds = 0.0

    def forward(self, x):
        begun, large = time.perf_counter(), torch.randn(512, 512)
        while time.perf_counter() - begun < self.seconds:
            large = torch.tanh(large @ large)
        return super().forward(x)


def stopped(seconds):
    """Start a shell that stops this process by SIGSTOP and continues it after some seconds."""
    own = os.getpid()
    subprocess.Popen(["sh", "-c", f"kill -STOP {own}; sleep {seconds}; kill -CONT {own}"])
    time.sleep(0.02)  # the signal arrives during this sleep


def main(kind, rank, steps):
    """Train; with a kind other than "none", rank `rank` is late."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    distributed.init_process_group("gloo")
    late = distributed.get_rank() == rank
    layers = [nn.Linear(FEATURES, FEATURES), nn.ReLU(), Large(FEATURES, FEATURES), nn.ReLU(), nn.Linear(FEATURES, 10)]
    layers[2].seconds = LATE if late and kind == "layer" else 0.0
    model = DistributedDataParallel(nn.Sequential(*layers))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    large = torch.randn(512, 512)
    seconds = LATE if late and kind == "input" else 0.0
    for step, (x, y) in enumerate(DataLoader(Samples(steps, seconds), batch_size=None)):
        if late and kind == "sleep":
            time.sleep(LATE)
        elif late and kind == "stop" and step == steps // 2:
            stopped(1)
        optimizer.zero_grad()
        out = model(x)
        if late and kind == "computing":
            begun = time.perf_counter()
            while time.perf_counter() - begun < LATE:
                large = torch.tanh(large @ large)
            out = out + 0.0 * large[0, 0]
        nn.functional.cross_entropy(out, y).backward()
        optimizer.step()
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 24)
