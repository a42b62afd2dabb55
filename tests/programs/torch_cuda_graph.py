"""Train with a made-up CUDA graph that contains the optimizer's step: its capture runs the step, a replay runs nothing.

usage: torch_cuda_graph.py REPLAYS
"""

import sys

import torch

made_up = torch.cuda.graphs.CUDAGraph.__mro__[1]  # the class of PyTorch's C++ code, which a build for CPU lacks
made_up.__init__ = lambda self, *_, **__: None
made_up.__new__ = lambda kind, *_, **__: object.__new__(kind)
made_up.capture_begin = made_up.capture_end = made_up.replay = lambda self, *_, **__: None

torch.manual_seed(0)
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = torch.randn(4, 8)


def train():
    optimizer.zero_grad()
    model(data).sum().backward()
    optimizer.step()


for _ in range(3):
    train()
graph, other = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
graph.capture_begin()
train()
graph.capture_end()
other.capture_begin()
model(data).sum().backward()
other.capture_end()
for _ in range(int(sys.argv[1])):
    other.replay()
    graph.replay()
for _ in range(2):
    train()
print(f"{model.weight.sum().item():.6f}")
