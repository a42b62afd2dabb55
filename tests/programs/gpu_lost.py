"""Train on a GPU until an invalid index ends its work; on an H100 it made the recording `baselines/h100_lost.tar.xz`.

usage: gpu_lost.py
"""

import torch
from gpu_blocks import Net
from torch import nn

STEPS, FAILS = 200, 100
torch.manual_seed(0)
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
