"""Call every collective once, then train three steps data-parallel. usage: torchrun ... torch_ranks.py FOLDER PART...

Parts are collectives, replicas and shards. Each rank writes its results to a file in FOLDER.
"""

import contextlib
import sys
import threading
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

torch.set_num_threads(1)
torch.manual_seed(7)
with contextlib.suppress(ValueError):
    dist.barrier()  # fails, because there is no group yet
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
results = []
NEW = hasattr(dist, "all_gather_single")  # where it exists, the older name calls it


def collectives():
    x = torch.full((4,), float(rank + 1))
    dist.all_reduce(x)
    results.append(x)
    parts = [torch.zeros(4) for _ in range(world)]
    dist.all_gather(parts, x)
    results.extend(parts)
    whole = torch.zeros(4 * world)
    (dist.all_gather_single if NEW else dist.all_gather_into_tensor)(whole, x)
    part = torch.zeros(4)
    (dist.reduce_scatter_single if NEW else dist.reduce_scatter_tensor)(part, whole)
    dist.all_reduce(part, group=pair, async_op=True).wait()
    dist.broadcast(part, src=1)
    dist.reduce(part, dst=0)
    dist.all_to_all_single(torch.zeros(2), torch.ones(2))
    dist.gather(part, [torch.zeros(4) for _ in range(world)] if rank == 0 else None)
    dist.scatter(part, [torch.ones(4) for _ in range(world)] if rank == 0 else None)
    with torch.profiler.record_function("message"):
        if rank == 0:
            dist.send(part, 1)
        else:
            dist.recv(part, 0)
    objects = [None] * world
    dist.all_gather_object(objects, {"rank": rank})
    received = torch.zeros(4)
    for work in dist.batch_isend_irecv(
        [dist.P2POp(dist.isend, x, 1 - rank), dist.P2POp(dist.irecv, received, 1 - rank)]
    ):
        work.wait()
    results.append(received)
    dist.barrier()
    if rank:
        dist.all_reduce(x, group=alone)  # returns at once, because this rank is not in the group
    results.append(part)
    results.append(torch.tensor([each["rank"] for each in objects]))


def train(net):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    compiled = torch.compile(lambda x: reduced(x * 2), backend="eager", fullgraph=True)
    for _ in range(3):
        optimizer.zero_grad()
        net(torch.full((2, 4), float(rank))).square().mean().backward()
        optimizer.step()
    results.append(compiled(torch.ones(2)))
    for value in net.parameters():
        results.append(value.full_tensor() if hasattr(value, "full_tensor") else value.detach())


def reduced(x):
    dist.all_reduce(x)
    return x


if __name__ == "__main__":
    pair, alone = dist.new_group([0, 1]), dist.new_group([0])
    parts = sys.argv[2:]
    layers = [nn.Linear(4, 4), nn.Linear(4, 2)]
    if "collectives" in parts:
        collectives()
    if "replicas" in parts:
        train(DistributedDataParallel(nn.Sequential(*layers)))
    if "shards" in parts:
        from torch.distributed.fsdp import fully_shard  # older versions of PyTorch lack it

        train(fully_shard(nn.Sequential(*layers), mesh=dist.init_device_mesh("cpu", (world,))))
    (Path(sys.argv[1]) / f"rank_{rank}").write_text(repr([value.tolist() for value in results]))
    if tuple(map(int, torch.__version__.split(".")[:2])) < (2, 10):
        # Before PyTorch 2.10, the end of a group keeps the interpreter's lock while it waits for its threads. One of
        # these threads may need the lock to free its last tensor, and then the process hangs, as 2.4.1 does. The sleep
        # gives the threads time for that; no condition shows when they are done. 2.10 releases the lock:
        # https://github.com/pytorch/pytorch/pull/154976
        threading.Event().wait(1)
    dist.destroy_process_group()
