"""Train on two ranks that add up their gradients; rank 1 computes longer, so that rank 0 waits in the exchange."""

import torch
import torch.distributed as dist
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(7)
dist.init_process_group("gloo")
rank = dist.get_rank()
net = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 8))
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
work = torch.ones(480, 480)
for _ in range(12):
    optimizer.zero_grad()
    net(torch.ones(8, 256)).square().mean().backward()
    for _ in range(12 if rank else 1):
        work = torch.tanh(work @ work / 480)
    for value in net.parameters():
        dist.all_reduce(value.grad)
    optimizer.step()
dist.destroy_process_group()
