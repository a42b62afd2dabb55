"""Train a network of tiny layers whose time consists of launches. usage: torch_launches.py STEPS [STEP_OF_CHANGE]

From the step of the change on, the fourth layer does its work twice. The program prints the seconds of all steps
together. It also prints the next numbers of the job's random generators and the parameters.
"""

import random
import sys
import time

import torch

ROUNDS, LAYERS, SLOWER = 3, 5, 3


class Layer(torch.nn.Module):
    """Multiply by a weight and apply tanh, several times."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(4))
        self.rounds = ROUNDS

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the input after all rounds."""
        for _ in range(self.rounds):
            x = (x * self.weight).tanh()
        return x


count, change = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else -1
random.seed(1)
torch.manual_seed(1)
torch.set_num_threads(1)
net = torch.nn.Sequential(*(Layer() for _ in range(LAYERS)))
optimizer = torch.optim.SGD(net.parameters(), lr=1e-6)
x = torch.rand(4)
begun = time.perf_counter()
for step in range(count):
    if step == change:
        net[SLOWER].rounds *= 2
    optimizer.zero_grad()
    net(x).sum().backward()
    optimizer.step()
print(f"{time.perf_counter() - begun:.6f}")
print(random.random(), torch.rand(1).item(), [parameter.tolist() for parameter in net.parameters()])
