"""Train on ranks with equal work. usage: torchrun ... balanced_torch.py KIND [STEPS]

KIND is one of these:

ddp       DistributedDataParallel
join      DistributedDataParallel with Join; each rank has four more batches than the rank before it
fsdp      FSDP2
pipeline  a pipeline with a stage on each rank, which passes on each batch in four parts
"""

import sys

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

WIDTH, SIZE, PARTS = 256, 64, 4


def layers(count):
    """Return a network of `count` linear layers, each with an activation."""
    return nn.Sequential(*(layer for _ in range(count) for layer in (nn.Linear(WIDTH, WIDTH), nn.ReLU())))


def fit(model, steps):
    """Train a model for some steps with random batches."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randn(SIZE, WIDTH)).square().mean().backward()
        optimizer.step()


def pipeline(steps):
    """Train this rank's stage of a pipeline: the forward passes of all parts, then their backward passes."""
    rank, world = distributed.get_rank(), distributed.get_world_size()
    model = layers(2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        given, out = [], []
        for _ in range(PARTS):
            x = torch.randn(SIZE, WIDTH)
            if rank:
                distributed.recv(x, rank - 1)
            given.append(x.requires_grad_())
            out.append(model(x))
            if rank < world - 1:
                distributed.send(out[-1].detach(), rank + 1)
        for x, y in zip(given, out, strict=True):
            if rank == world - 1:
                y.square().mean().backward()
            else:
                gradient = torch.empty_like(y)
                distributed.recv(gradient, rank + 1)
                y.backward(gradient)
            if rank:
                distributed.send(x.grad, rank - 1)
        optimizer.step()


def main(kind, steps):
    """Train with the given kind of parallelism."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    distributed.init_process_group("gloo")
    if kind == "pipeline":
        pipeline(steps)
    elif kind == "fsdp":
        from torch.distributed.fsdp import fully_shard

        model = layers(3)
        for layer in model:
            fully_shard(layer)
        fit(fully_shard(model), steps)
    elif kind == "join":
        from torch.distributed.algorithms.join import Join

        model = DistributedDataParallel(layers(3))
        with Join([model]):
            fit(model, steps + 4 * distributed.get_rank())
    else:
        fit(DistributedDataParallel(layers(3)), steps)
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 60)
