"""Train in a compiled function that contains the optimizer's step. The script has no data loader.

Prints the sum of the losses.
"""

import torch

torch.set_num_threads(1)
torch.manual_seed(1)
net = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
x, y = torch.randn(16, 8), torch.randint(0, 4, (16,))


@torch.compile(backend="eager")
def train():
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
    return loss


print(f"{sum(train().item() for _ in range(25)):.4f}")
