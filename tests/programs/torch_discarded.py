"""Train three layers in 12 steps; the middle one computes twice, and the result of the first time is thrown away.

The thrown-away result has nodes in autograd's graph that no backward pass runs.
"""

import torch

STEPS = 12


class Twice(torch.nn.Module):
    """Call a layer twice; return the second result."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(64, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.layer(x)
        return self.layer(x)


torch.set_num_threads(1)
net = torch.nn.Sequential(torch.nn.Linear(64, 64), Twice(), torch.nn.Linear(64, 64))
optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
x = torch.rand(32, 64)
for _ in range(STEPS):
    optimizer.zero_grad()
    net(x).sum().backward()
    optimizer.step()
