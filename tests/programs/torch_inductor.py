"""Train four steps that Inductor compiles as one graph; print losses, gradients and the counters of Dynamo."""

import torch
from torch import nn
from torch._dynamo.utils import counters

torch.manual_seed(7)
torch.set_num_threads(1)
net = nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 2))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
compiled = torch.compile(net, fullgraph=True)
for _ in range(4):
    optimizer.zero_grad()
    loss = compiled(torch.ones(4, 8)).square().mean()
    loss.backward()
    optimizer.step()
    print(loss.item().hex(), *(parameter.grad.double().sum().item().hex() for parameter in net.parameters()))
print(counters["stats"]["unique_graphs"], sum(counters["graph_break"].values()))
