"""Train a layer of experts on four ranks, with one expert each. usage: torchrun ... experts_torch.py KIND RANK [STEPS]

KIND is "experts" or "unnamed". With "unnamed", no group's name says that the group shares experts. Most tokens go to
the expert of RANK. With RANK -1, each expert gets the same number of tokens.
"""

import sys
import time

import torch
from torch import distributed, nn

FEATURES, TOKENS = 32, 64
#: seconds that an expert needs for one token
EACH = 0.0004


class Exchange(torch.autograd.Function):
    """Send rows to all ranks in the forward pass, and send their gradients back in the backward pass."""

    @staticmethod
    def forward(ctx, rows, sends, receives, group):
        ctx.sizes, ctx.group = (sends, receives), group
        out = rows.new_empty(sum(receives), FEATURES)
        distributed.all_to_all_single(out, rows.contiguous(), receives, sends, group=group)
        return out

    @staticmethod
    def backward(ctx, gradient):
        sends, receives = ctx.sizes
        out = gradient.new_empty(sum(sends), FEATURES)
        distributed.all_to_all_single(out, gradient.contiguous(), sends, receives, group=ctx.group)
        return out, None, None, None


def computed(seconds):
    """Compute for some seconds; return a zero that depends on the result."""
    begun = time.perf_counter()
    large = torch.full((128, 128), 0.01)
    while time.perf_counter() - begun < seconds:
        large = torch.tanh(large @ large)
    return 0.0 * large[0, 0]


def main(kind, busy, steps):
    """Train with most tokens on rank `busy`."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    distributed.init_process_group("gloo")
    rank, size = distributed.get_rank(), distributed.get_world_size()
    purpose = {"group_desc": "EXPERT_MODEL_PARALLEL_GROUP"} if kind == "experts" else {}
    group = distributed.new_group(list(range(size)), **purpose)
    expert, gate = nn.Linear(FEATURES, FEATURES), nn.Linear(FEATURES, FEATURES)
    optimizer = torch.optim.SGD([*expert.parameters(), *gate.parameters()], lr=0.01)
    to_each = [TOKENS // size] * size
    if busy >= 0:
        to_each = [TOKENS - 8 * (size - 1) if other == busy else 8 for other in range(size)]
    mine = [to_each[rank]] * size
    for _ in range(steps):
        optimizer.zero_grad()
        rows = gate(torch.full((TOKENS, FEATURES), 0.1))
        given = Exchange.apply(rows, to_each, mine, group)
        made = expert(given) + computed(EACH * sum(mine))
        back = Exchange.apply(made, mine, to_each, group)
        back.square().mean().backward()
        for parameter in gate.parameters():
            distributed.all_reduce(parameter.grad)
        optimizer.step()
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 20)
