"""Train with made-up CUDA graphs that contain an optimizer's step: a capture runs the step, a replay runs nothing.

Two more captures fail: one has no end, and another thread ends the other one.

usage: torch_cuda_graph.py REPLAYS
"""

import sys
import threading

import torch

made_up = torch.cuda.graphs.CUDAGraph.__mro__[1]  # the class of PyTorch's C++ code, which a build for CPU lacks
captures = []
made_up.__init__ = lambda self, *_, **__: None
made_up.__new__ = lambda kind, *_, **__: object.__new__(kind)
made_up.capture_begin = lambda self, *_, **__: captures.append(self)
made_up.capture_end = lambda self, *_, **__: captures.clear()
made_up.replay = lambda self, *_, **__: None
torch.cuda.graphs.is_current_stream_capturing = lambda: bool(captures)

torch.manual_seed(0)
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = torch.randn(4, 8)


def train():
    optimizer.zero_grad()
    model(data).sum().backward()
    optimizer.step()


def captured(function, times=1):
    graph = torch.cuda.CUDAGraph()
    graph.capture_begin()
    for _ in range(times):
        function()
    graph.capture_end()
    return graph


for _ in range(3):
    train()
graph, other = captured(train), captured(lambda: model(data).sum().backward())
for _ in range(int(sys.argv[1])):
    other.replay()
    graph.replay()
several = captured(train, times=4)
for _ in range(5):
    several.replay()
torch.cuda.CUDAGraph().capture_begin()
train()
captures.clear()  # the capture has failed, and has no end
for _ in range(2):
    train()
elsewhere = torch.cuda.CUDAGraph()
elsewhere.capture_begin()
train()
thread = threading.Thread(target=elsewhere.capture_end)
thread.start()
thread.join()
for _ in range(2):
    train()
print(f"{model.weight.sum().item():.6f}")
