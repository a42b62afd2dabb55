"""Train on ranks that the script starts as `torch.multiprocessing.spawn` does; the parent process computes, too.

usage: spawned_ranks.py RANKS
"""

import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

STEPS = 6


def main(rank, world, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    dist.init_process_group("gloo", rank=rank, world_size=world)
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(8, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = model(torch.ones(2, 8)).sum()
        loss.backward()
        optimizer.step()
    dist.barrier()
    print(f"rank {rank} {loss.item():.9f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    print(f"parent {torch.ones(3).tanh().sum().item():.9f}", flush=True)
    torch.multiprocessing.spawn(main, args=(int(sys.argv[1]), sys.argv[2]), nprocs=int(sys.argv[1]))
