"""Compile the step of an optimizer, after steps that were not compiled."""

import torch

torch.set_num_threads(1)
torch.manual_seed(1)
net = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
x = torch.ones(2, 4)


def train(step):
    optimizer.zero_grad()
    net(x).sum().backward()
    step()


for _ in range(100):
    train(optimizer.step)
compiled = torch.compile(optimizer.step, backend="eager")
for _ in range(5):
    train(compiled)
print(f"{net.weight.sum().item():.4f}")
