"""A network with short steps, which `test_rest.py` trains: ms-profiler lets its hooks rest between bursts."""

import sys

import torch

#: number of steps within which the hooks begin to rest
MOST = 30_000


def rests():
    """Return whether ms-profiler's hooks rest; without ms-profiler, there are none, and the result is True."""
    collection = sys.modules.get("ms_profiler.job.collection")
    return collection is None or collection.current() is None or collection.current().sources.rest.resting


def fails():
    """Stand for a closure that an optimizer calls, and that fails."""
    raise ValueError("the closure fails")


torch.manual_seed(0)
torch.set_num_threads(1)
x = torch.rand(8)
net = torch.nn.Sequential(*(torch.nn.Linear(8, 8) for _ in range(4)))
#: an optimizer of another parameter
inner = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1e-9)
