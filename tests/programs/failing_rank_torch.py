"""Train; rank 1 fails on its first start. usage: torchrun --max-restarts=1 ... failing_rank_torch.py"""

import os

import torch
from torch import distributed, nn


def main():
    """Train for six steps."""
    torch.set_num_threads(1)
    # with torchrun's store, gloo might find the addresses of the earlier start and fail
    store = f"file://{os.getcwd()}/store_{os.environ['TORCHELASTIC_RESTART_COUNT']}"
    ranks = {"rank": int(os.environ["RANK"]), "world_size": int(os.environ["WORLD_SIZE"])}
    distributed.init_process_group("gloo", init_method=store, **ranks)
    model = nn.parallel.DistributedDataParallel(nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    first = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
    for step in range(6):
        if first and step == 3 and distributed.get_rank() == 1:
            raise RuntimeError("planted")
        optimizer.zero_grad()
        model(torch.ones(4, 8)).sum().backward()
        optimizer.step()
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
