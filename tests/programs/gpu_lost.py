"""Train on a GPU until an invalid index ends its work; on an H100 it made the recording `baselines/h100_lost.tar.xz`.

usage: gpu_lost.py
"""

import torch
from torch import nn

STEPS, FAILS = 200, 100
torch.manual_seed(0)


class Block(nn.Module):
    """A linear layer, a normalisation, an activation and a connection around them."""

    def __init__(self, size):
        super().__init__()
        self.lin, self.norm = nn.Linear(size, size), nn.LayerNorm(size)

    def forward(self, x):
        return torch.relu(self.norm(self.lin(x))) + x


class Net(nn.Module):
    """Six blocks of the same size."""

    def __init__(self):
        super().__init__()
        self.inp, self.blocks = nn.Linear(64, 512), nn.ModuleList(Block(512) for _ in range(6))
        self.head = nn.Linear(512, 10)

    def forward(self, x):
        x = torch.relu(self.inp(x))
        for block in self.blocks:
            x = block(x)
        return self.head(x)


net = Net().cuda()
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4)
data, labels = torch.randn(256, 64, device="cuda"), torch.randint(0, 10, (256,), device="cuda")
for step in range(STEPS):
    optimizer.zero_grad()
    nn.functional.cross_entropy(net(data), labels).backward()
    optimizer.step()
    if step == FAILS:
        nn.functional.one_hot(torch.full((4,), 100, device="cuda"), 10)
        torch.cuda.synchronize()
