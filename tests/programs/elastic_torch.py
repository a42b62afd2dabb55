"""Train, continuing from the last checkpoint. usage: torchrun ... elastic_torch.py FILE STEPS EVERY KILLED

Rank 0 saves a checkpoint to FILE after every EVERY steps. On the first start, rank 1 kills itself before step KILLED.
"""

import os
import signal
import sys
import time

import torch
from torch import distributed, nn


def main(path, steps, every, killed):
    """Train from the checkpoint, if there is one, to the last step."""
    torch.set_num_threads(1)
    # with torchrun's store, gloo might find the addresses of the earlier start and fail
    store = f"file://{os.getcwd()}/store_{os.environ['TORCHELASTIC_RESTART_COUNT']}"
    ranks = {"rank": int(os.environ["RANK"]), "world_size": int(os.environ["WORLD_SIZE"])}
    distributed.init_process_group("gloo", init_method=store, **ranks)
    rank = distributed.get_rank()
    model = nn.parallel.DistributedDataParallel(nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    begin = 0
    if os.path.exists(path):
        state = torch.load(path)
        model.module.load_state_dict(state["model"])
        begin = state["step"]
    first = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
    for step in range(begin, steps):
        if first and step == killed and rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        optimizer.zero_grad()
        loss = model(torch.ones(4, 8)).sum()
        time.sleep(0.02)  # after the forward pass: the first step of a start begins with this pass
        loss.backward()
        optimizer.step()
        if rank == 0 and (step + 1) % every == 0:
            torch.save({"model": model.module.state_dict(), "step": step + 1}, f"{path}.new")
            os.replace(f"{path}.new", path)
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
