"""Train a network with a wide third block and known sizes of all tensors; print the sizes as JSON.

usage: tensor_memory.py MODE STEPS

In step 10 a tensor of 64 MiB lives for a moment. In mode `leak`, each step appends a copy of a tensor of 1 MiB to a
list. In mode `plateau`, only the steps before step 12 do so. In mode `plain`, no step does.
"""

import json
import sys

import torch
from torch import nn

WIDE, NARROW, BATCH, BIG, LEAK = 2048, 128, 256, 64 << 20, 1 << 20


class Block(nn.Module):
    """Two layers with a wider width between them."""

    def __init__(self, width):
        super().__init__()
        self.up, self.down = nn.Linear(NARROW, width), nn.Linear(width, NARROW)

    def forward(self, x):
        """Return the sum of the input and the output of the layers."""
        return x + self.down(torch.tanh(self.up(x)))


class Net(nn.Module):
    """Four blocks, of which block number 3 is wide."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block(WIDE if number == 3 else NARROW) for number in range(4))

    def forward(self, x):
        """Return the output of the last block."""
        for block in self.blocks:
            x = block(x)
        return x


def main():
    """Train, and print the bytes of the parameters, the kept copies, their source and the large tensor."""
    mode, steps = sys.argv[1], int(sys.argv[2])
    torch.manual_seed(0)
    net = Net()
    optimizer = torch.optim.Adam(net.parameters())
    source, kept = torch.zeros(LEAK // 4), []
    for step in range(steps):
        batch = torch.randn(BATCH, NARROW)
        loss = net(batch).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step == 10:
            torch.ones(BIG // 4)
        if mode == "leak" or (mode == "plateau" and step < 12):
            kept.append(source.clone())
    parameters = sum(item.numel() * 4 for item in net.parameters())
    print(json.dumps({"parameters": parameters, "kept": len(kept) * LEAK, "source": LEAK, "big": BIG}))


main()
