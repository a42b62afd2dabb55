"""Train on an NVIDIA GPU, profiled by ms-profiler; with TRACE, by PyTorch's own profiler, which writes its trace there.

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


# `loop` marks the ends of steps itself, because a replayed graph calls no optimizer
profiled(loop, STEPS, *sys.argv[3:])
