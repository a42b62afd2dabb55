"""Train with exchanges that DTensor, sharding or operators make. usage: torchrun ... sharded_torch.py FOLDER KIND

KIND is one of these:

tensor       linear layers that are divided over the ranks
late         the same; rank 1 sleeps in each step
both         the same layers, sharded in a second dimension of the mesh
fully_shard  FSDP2
fsdp         FullyShardedDataParallel
functional   functional collectives with gradients
compiled     a compiled layer with an all-reduce

PyTorch's flight recorder knows every exchange. The program writes the operation, group and bytes of each exchange to a
file for each rank, as replicas_torch.py does.
"""

import json
import sys
import time
from pathlib import Path

import torch
from replicas_torch import exchanged
from torch import distributed, nn
from torch.distributed import _functional_collectives as functional
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

STEPS, WIDTH = 6, 64
#: seconds by which rank 1 is late in each step
LATE = 0.1


class Net(nn.Module):
    """Two layers that may be divided over the ranks, and a norm."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(WIDTH, 4 * WIDTH)
        self.second = nn.Linear(4 * WIDTH, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, x):
        """Return the output of the layers."""
        return self.norm(self.second(torch.relu(self.first(x))))


def divided(mesh):
    """Return a network whose layers are divided over the ranks of a mesh."""
    return parallelize_module(Net(), mesh, {"first": ColwiseParallel(), "second": RowwiseParallel()})


def gathered(x, group):
    """Exchange a tensor by every kind of functional collective that has a gradient, and return the result."""
    x = functional.all_reduce(x * 2, "sum", group)
    whole = functional.all_gather_single(x, 0, group)
    part = functional.reduce_scatter_single(whole, "sum", 0, group)
    return functional.all_to_all_single(part, None, None, group)


class Summed(nn.Module):
    """A layer whose compiled graph contains an all-reduce."""

    def __init__(self):
        super().__init__()
        self.held = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        """Return the output of the layer plus a sum over all ranks."""
        x = self.held(x)
        part = x.detach() * 2
        distributed.all_reduce(part)
        return x + part


def main(folder, kind):
    """Train, and write the exchanges of each step to a file in `folder`."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    distributed.init_process_group("gloo")
    rank, world = distributed.get_rank(), distributed.get_world_size()
    if kind in ("tensor", "late"):
        call = divided(init_device_mesh("cpu", (world,), mesh_dim_names=("tp",)))
    elif kind == "both":
        mesh = init_device_mesh("cpu", (world // 2, 2), mesh_dim_names=("dp", "tp"))
        call = fully_shard(divided(mesh["tp"]), mesh=mesh["dp"])
    elif kind == "fully_shard":
        call = nn.Sequential(*(fully_shard(Net()) for _ in range(2)))
        fully_shard(call)
    elif kind == "fsdp":
        call = FullyShardedDataParallel(Net(), device_id=torch.device("cpu"))
    elif kind == "functional":
        group = distributed.new_group(range(world))
        call = nn.Linear(WIDTH, WIDTH)
        call.register_forward_hook(lambda module, given, result: gathered(result, group))
    else:
        call = torch.compile(Summed(), fullgraph=True)
    optimizer = torch.optim.SGD(call.parameters(), lr=0.01)
    x = torch.randn(16, WIDTH)
    by_step = []
    begin = len(exchanged())
    for _ in range(STEPS):
        optimizer.zero_grad()
        if kind == "late" and rank == 1:
            time.sleep(LATE)
        call(x).square().mean().backward()
        optimizer.step()
        by_step.append(exchanged()[begin:])
        begin += len(by_step[-1])
    (Path(folder) / f"truth_{rank}.json").write_text(json.dumps({"steps": by_step}))
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
