"""Send messages around a ring of ranks in all ways that PyTorch has. usage: torchrun ... messages_torch.py [STEPS]

The number of values in a message identifies its sender, receiver, way and step: see `values`.
"""

import sys

import torch
from torch import distributed, nn

WAYS = ("blocking", "queued", "batched", "tagged", "any", "group")
STEPS = 6


def values(way, sender, receiver, step):
    """Return the number of values in a message, which is different for each message of the job."""
    return 1 + step + 100 * WAYS.index(way) + 1000 * sender + 10_000 * receiver


def main(steps):
    """Train, and send messages in each step."""
    torch.set_num_threads(1)
    distributed.init_process_group("gloo")
    rank, world = distributed.get_rank(), distributed.get_world_size()
    after, before = (rank + 1) % world, (rank - 1) % world
    odd = distributed.new_group([3, 1])
    model = nn.Linear(8, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(steps):

        def out(way, to=after, step=step):
            return torch.ones(values(way, rank, to, step))

        def room(way, sender=before, step=step):
            return torch.empty(values(way, sender, rank, step))

        optimizer.zero_grad()
        model(torch.ones(4, 8)).square().mean().backward()
        if rank % 2:
            distributed.send(out("blocking"), after)
            distributed.recv(room("blocking"), before)
        else:
            distributed.recv(room("blocking"), before)
            distributed.send(out("blocking"), dst=after)
        works = [distributed.irecv(room("queued"), src=before), distributed.isend(out("queued"), after)]
        for work in works:
            work.wait()
        operations = [distributed.P2POp(distributed.isend, out("batched"), after)]
        operations.append(distributed.P2POp(distributed.irecv, room("batched"), before))
        for work in distributed.batch_isend_irecv(operations):
            work.wait()
        # each rank sends two messages with tags; the receiver takes the second one first
        pair = [out("tagged"), torch.cat([out("tagged"), torch.ones(50)])]
        works = [distributed.isend(tensor, after, tag=7 + place) for place, tensor in enumerate(pair)]
        first, second = room("tagged"), torch.cat([room("tagged"), torch.ones(50)])
        distributed.recv(second, before, tag=8)
        distributed.recv(first, before, tag=7)
        for work in works:
            work.wait()
        if rank == 2:
            works = [distributed.isend(out("any", 0), 0, tag=9)]
            works[0].wait()
        elif rank == 0:
            assert distributed.recv(room("any", 2), tag=9) == 2
        if rank == 1:
            distributed.send(out("group", 3), 3, group=odd)
        elif rank == 3:
            distributed.recv(room("group", 1), 1, group=odd)
        for parameter in model.parameters():
            distributed.all_reduce(parameter.grad)
        optimizer.step()
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else STEPS)
