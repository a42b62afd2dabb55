"""Two ranks train, of which rank 1 ends in its first start after STEPS steps. usage: torchrun ... launched_torch.py WAY

Each rank says that it has come so far in a file `ready_RANK`, which holds its process, and goes on when there is a file
`go`. So nothing depends on which rank is faster.
"""

import os
import sys
from pathlib import Path

import torch
from torch import distributed, nn
from way_to_end import STEPS, end, ready


def main(way):
    """Train."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    start = os.environ["TORCHELASTIC_RESTART_COUNT"]
    # in torchrun's store gloo may find the addresses of the start before, and fails then
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
