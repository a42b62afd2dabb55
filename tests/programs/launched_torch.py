"""Train on two ranks; on the first start, rank 1 ends after STEPS steps in a given WAY.

usage: torchrun ... launched_torch.py WAY

After these steps each rank writes its process id to a file `ready_RANK`, and waits for a file `go`. So the result does
not depend on which rank is faster.
"""

import os
import sys
from pathlib import Path

import torch
from torch import distributed, nn
from way_to_end import STEPS, end, ready


def main(way):
    """Train, and end rank 1 in the given way."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    start = os.environ["TORCHELASTIC_RESTART_COUNT"]
    # with torchrun's store, gloo might find the addresses of the earlier start and fail
    store = f"file://{Path.cwd()}/store_{start}"
    ranks = {"rank": int(os.environ["RANK"]), "world_size": int(os.environ["WORLD_SIZE"])}
    distributed.init_process_group("gloo", init_method=store, **ranks)
    rank = distributed.get_rank()
    model = nn.parallel.DistributedDataParallel(nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(2 * STEPS):
        if start == "0" and step == STEPS:
            ready(rank)
            if rank == 1:
                end(way)
        optimizer.zero_grad()
        loss = model(torch.full((4, 8), rank + 1.0)).sum()
        loss.backward()
        optimizer.step()
        print(f"rank {rank} start {start} step {step}: {loss.item().hex()}", flush=True)
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
