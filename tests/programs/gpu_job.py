"""Train on an NVIDIA GPU; with a third argument under PyTorch's own profiler, whose trace goes to that file.

usage: gpu_job.py MODE STEPS [TRACE]
"""

import sys

import torch
from gpu_profiled import profiled

MODE, STEPS = sys.argv[1], int(sys.argv[2])

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data, labels = torch.randn(64, 256, device="cuda"), torch.randint(0, 10, (64,), device="cuda")
forward = torch.compile(model) if MODE == "compile" else model


def train():
    optimizer.zero_grad(set_to_none=False)
    loss = torch.nn.functional.cross_entropy(forward(data), labels)
    loss.backward()
    optimizer.step()
    return loss


train()
torch.cuda.synchronize()
step = train
if MODE == "graph":
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        train()
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = train()

    def step():
        graph.replay()
        return loss


def loop(after):
    for _ in range(STEPS):
        last = step()
        torch.cuda.synchronize()
        after()
    print(f"{last.item():.9f}")


# this and not the optimizer says where steps end: in a graph nobody calls one
profiled(loop, STEPS, *sys.argv[3:])
