"""Train data-parallel under PyTorch's profiler. usage: torchrun ... traced_ranks_torch.py FOLDER RANK

FOLDER receives two traces of each rank: one of ten steps, and one of a step of the next cycle in which nothing ran.
RANK waits longer for its input than the other ranks.
"""

import sys
import time

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile, schedule, tensorboard_trace_handler

WIDTH, BATCH, STEPS = 64, 32, 14
#: seconds by which the rank waits longer in each step
LONGER = 0.06


class Data(torch.utils.data.Dataset):
    """A dataset that takes `LONGER` seconds for a batch on the slow rank."""

    def __init__(self, slow):
        self.slow = slow

    def __len__(self):
        return BATCH * STEPS

    def __getitem__(self, index):
        if self.slow and index % BATCH == 0:
            time.sleep(LONGER)
        return torch.full((WIDTH,), 0.1)


def main(folder, late):
    """Train; rank `late` is the slow one."""
    torch.set_num_threads(1)
    distributed.init_process_group("gloo")
    rank = distributed.get_rank()
    network = DistributedDataParallel(nn.Sequential(nn.Linear(WIDTH, 512), nn.ReLU(), nn.Linear(512, WIDTH)))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
    with profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=1, warmup=1, active=10),
        on_trace_ready=tensorboard_trace_handler(folder, worker_name=f"rank{rank}"),
    ) as profiler:
        for batch in torch.utils.data.DataLoader(Data(rank == late), batch_size=BATCH):
            optimizer.zero_grad()
            network(batch).square().mean().backward()
            optimizer.step()
            profiler.step()
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
