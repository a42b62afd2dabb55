"""Train on the processor, using CUDA's driver if there is one; at the end write the paths of CUPTI's mapped files.

usage: driver_job.py FILE

FILE receives the paths.
"""

import ctypes
import sys

try:
    ctypes.CDLL("libcuda.so.1").cuInit(0)
except OSError:
    print("no driver")

import torch

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(4):
    optimizer.zero_grad()
    loss = net(torch.ones(2, 4)).square().sum()
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.6f}")
with open("/proc/self/maps") as maps:
    mapped = {line.split(maxsplit=5)[5].strip() for line in maps if "/libcupti.so" in line}
with open(sys.argv[1], "w") as file:
    file.write("\n".join(sorted(mapped)))
