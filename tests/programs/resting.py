"""A network with short steps, which `test_rest.py` trains: ms-profiler takes its hooks away between bursts."""

import torch

#: number of steps within which the hooks are taken away
MOST = 30_000


def hooked():
    """Return whether ms-profiler's hook on modules is there."""
    return type(vars(torch.nn.Module)["__call__"]).__name__ == "Wrapper"


def fails():
    """Stand for a closure that an optimizer calls, and that fails."""
    raise ValueError("the closure fails")


torch.manual_seed(0)
torch.set_num_threads(1)
x = torch.rand(8)
net = torch.nn.Sequential(*(torch.nn.Linear(8, 8) for _ in range(4)))
#: an optimizer of another parameter
inner = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1e-9)
