"""Compile a network whose graph breaks at one line, and one whose graph breaks in a loop."""

import torch

torch.set_num_threads(1)


class Broken(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

    def forward(self, x):
        x = self.first(x)
        print(end="")  # the graph breaks here
        return self.second(x)


class Looped(Broken):
    def forward(self, x):
        for layer in (self.first, self.second):
            x = layer(x)
            print(end="")  # Dynamo gives the function up
        return x


networks = [torch.compile(kind(), backend="eager") for kind in (Broken, Looped)]
optimizer = torch.optim.SGD([weight for network in networks for weight in network.parameters()], lr=0.1)
for _ in range(5):
    optimizer.zero_grad()
    sum(network(torch.ones(2, 4)).sum() for network in networks).backward()
    optimizer.step()
