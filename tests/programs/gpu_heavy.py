"""Train a model with one heavy layer on a GPU; on an H100 it made the recording `baselines/h100_heavy.tar.xz`.

usage: gpu_heavy.py STEPS
"""

import sys

import torch
from torch import nn

STEPS = int(sys.argv[1])
torch.manual_seed(0)


class Block(nn.Module):
    """A linear layer and an activation."""

    def __init__(self, size):
        super().__init__()
        self.lin = nn.Linear(size, size)

    def forward(self, x):
        return torch.relu(self.lin(x))


class Net(nn.Module):
    """Four light blocks and a heavy one."""

    def __init__(self):
        super().__init__()
        self.light = nn.ModuleList(Block(512) for _ in range(4))
        self.up, self.heavy, self.down = nn.Linear(512, 8192), Block(8192), nn.Linear(8192, 10)

    def forward(self, x):
        for block in self.light:
            x = block(x)
        return self.down(self.heavy(self.up(x)))


net = Net().cuda()
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4)
data, labels = torch.randn(256, 512, device="cuda"), torch.randint(0, 10, (256,), device="cuda")
for _ in range(STEPS):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(net(data), labels)
    loss.backward()
    optimizer.step()
torch.cuda.synchronize()
print(f"{loss.item():.6f}")
