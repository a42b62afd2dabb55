"""Train on a GPU with two ranks that exchange gradients by gloo; rank 1 has more work in each step.

On an H100 it made the recording `baselines/h100_gloo.tar.xz`.

usage: torchrun --nproc-per-node=2 gpu_gloo.py
"""

import torch
from gpu_blocks import Net
from torch import distributed, nn

STEPS = 60
torch.manual_seed(0)
net = Net().cuda()
distributed.init_process_group("gloo")
replica = nn.parallel.DistributedDataParallel(net, device_ids=[0])
optimizer = torch.optim.SGD(replica.parameters(), lr=1e-3)
data, labels = torch.randn(256, 64, device="cuda"), torch.randint(0, 10, (256,), device="cuda")
matrix = torch.randn(4096, 4096, device="cuda")
for _ in range(STEPS):
    if distributed.get_rank() == 1:
        for _ in range(10):
            matrix @ matrix
    optimizer.zero_grad()
    nn.functional.cross_entropy(replica(data), labels).backward()
    optimizer.step()
torch.cuda.synchronize()
distributed.destroy_process_group()
