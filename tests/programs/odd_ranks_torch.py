"""Train data-parallel with one late rank. usage: torchrun ... odd_ranks_torch.py KIND [STEPS]

KIND is one of these:

evaluate    rank 2 evaluates after each 10th step, for `LONG`
between     rank 2 runs Python code after each step, for `LATE`
accumulate  rank 1 computes for `LATE` longer in each step; the ranks exchange gradients in each 4th step only
groups      rank 3 computes for `LATE` longer in each step; pairs of ranks exchange gradients, in alternating pairings
alltoall    rank 1 sleeps for `LATE` in each step; the ranks exchange tokens with uneven splits
checkpoint  rank 0 takes `LONG` to write its checkpoint; each rank writes one in every eight steps, at different steps
collect     rank 3 collects garbage in each 5th step
none        no rank is late

The late rank writes the seconds by which it was late into the file `late`.
"""

import contextlib
import gc
import io
import sys
import time
from pathlib import Path

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

FEATURES, SIZE = 128, 32
#: seconds by which a rank is late: in each step, and in single steps
LATE, LONG = 0.04, 0.6
spent = 0.0


@contextlib.contextmanager
def planted():
    """Add the time of the block to the time by which this rank is late."""
    global spent
    begun = time.perf_counter()
    yield
    spent += time.perf_counter() - begun


def until(seconds, does):
    """Call a function again and again for some seconds."""
    with planted():
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            does()


def evaluated(network, data):
    """Call a network in evaluation mode on some data."""
    network.eval()
    with torch.no_grad():
        network(data)
    network.train()


def counted():
    """Run Python code for a short time."""
    return sum(number * number for number in range(2000))


class Disk(io.BytesIO):
    """Imitate a file on a slow disk: the first write takes some seconds."""

    def __init__(self, seconds):
        super().__init__()
        self.seconds = seconds

    def write(self, data):
        time.sleep(self.seconds)
        self.seconds = 0
        return super().write(data)


class Knot:
    """An object that refers to itself, so that only Python's collector frees it."""

    def __init__(self):
        self.own = self


def by_hand(kind, steps):
    """Train with exchanges that the script calls itself."""
    rank, world = distributed.get_rank(), distributed.get_world_size()
    model = nn.Sequential(nn.Linear(FEATURES, FEATURES), nn.ReLU(), nn.Linear(FEATURES, FEATURES))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    large, x = torch.randn(256, 256), torch.randn(SIZE, FEATURES)
    pairs = [distributed.new_group(ranks) for ranks in ([0, 1], [2, 3], [0, 2], [1, 3])]
    own = [pairs[rank // 2], pairs[2 + rank % 2]]
    for step in range(steps):
        optimizer.zero_grad()
        out = model(x)
        if kind == "groups" and rank == 3:
            until(LATE, lambda: torch.tanh(large @ large))
        elif kind == "alltoall":
            if rank == 1:
                with planted():
                    time.sleep(LATE)
            # rank r sends r + s + 1 tokens to rank s
            sent, taken = ([rank + other + 1 for other in range(world)] for _ in range(2))
            tokens = torch.empty(sum(taken), FEATURES)
            distributed.all_to_all_single(tokens, out.detach()[: sum(sent)].contiguous(), taken, sent)
        out.square().mean().backward()
        group = own[step % 2] if kind == "groups" else None
        for parameter in model.parameters():
            distributed.all_reduce(parameter.grad, group=group)
        optimizer.step()


def main(kind, steps):
    """Train, and write the seconds by which this rank was late, if any."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    distributed.init_process_group("gloo")
    if kind in ("groups", "alltoall"):
        by_hand(kind, steps)
    else:
        replicas(kind, steps)
    if spent:
        Path("late").write_text(str(spent))
    distributed.destroy_process_group()


def replicas(kind, steps):
    """Train with DistributedDataParallel."""
    rank = distributed.get_rank()
    network = nn.Sequential(nn.Linear(FEATURES, FEATURES), nn.ReLU(), nn.Linear(FEATURES, 10))
    model = DistributedDataParallel(network)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    large, x = torch.randn(256, 256), torch.randn(SIZE, FEATURES)
    parts = 4 if kind == "accumulate" else 1
    for step in range(steps):
        alone = (step + 1) % parts != 0
        with model.no_sync() if alone else contextlib.nullcontext():
            out = model(x)
            if kind == "accumulate" and rank == 1:
                until(LATE, lambda: torch.tanh(large @ large))
            out.square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        if kind == "evaluate" and rank == 2 and step % 10 == 9:
            until(LONG, lambda: evaluated(network, torch.randn(512, FEATURES)))
        elif kind == "between" and rank == 2:
            until(LATE, counted)
        elif kind == "checkpoint" and step % 8 == 2 * rank:
            if rank == 0:
                with planted():
                    torch.save(network.state_dict(), Disk(LONG))
            else:
                torch.save(network.state_dict(), Disk(0.0))
        elif kind == "collect" and rank == 3 and step % 5 == 4:
            with planted():
                knots = [Knot() for _ in range(100_000)]
                del knots
                gc.collect()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 24)
