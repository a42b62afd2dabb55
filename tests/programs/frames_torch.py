"""Print what a job sees of the frames around its code: tracebacks, stacks, lines of warnings, depth of recursion."""

import inspect
import os
import sys
import tempfile
import traceback
import warnings

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


def stack():
    return [(os.path.basename(frame.filename), frame.function) for frame in inspect.stack()[1:]]


class Tells(nn.Module):
    def forward(self, x):
        print(stack())
        warnings.warn("from forward", stacklevel=4)
        return x * 2


class Fails(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Tells()

    def forward(self, x):
        raise ValueError(stack())


class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 2

    def __getitem__(self, index):
        if index:
            raise KeyError(str(stack()))
        return torch.ones(2)


class Optimizer(torch.optim.SGD):
    def zero_grad(self, set_to_none=True):
        super().zero_grad(set_to_none)
        raise RuntimeError(str(stack()))


class Function(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        raise RuntimeError("in backward")


class Unpickled:
    def __reduce__(self):
        return (print, ("unpickled", stack()[:3]))


def fails(call):
    try:
        call()
    except Exception:  # noqa: BLE001 - whatever it is, it is shown
        print(traceback.format_exc())
    else:
        print("no exception")


def deepest(width=1):
    """Return how many nested modules can be called before the recursion limit."""
    depth = 0
    net = nn.Identity()
    try:
        while True:
            net = nn.Sequential(net)
            net(torch.ones(1))
            depth += 1
    except RecursionError:
        return depth


warnings.simplefilter("always")
warnings.showwarning = lambda message, category, filename, line, *_: print(message, os.path.basename(filename), line)
x = torch.ones(2, 2, requires_grad=True)
nn.Sequential(Tells())(x)
fails(lambda: nn.Sequential(nn.Identity(), Fails())(x))
fails(lambda: list(torch.utils.data.DataLoader(Data())))
fails(lambda: Optimizer([x], lr=0.1).zero_grad())
fails(lambda: Function.apply(x).sum().backward())
fails(lambda: torch.load(os.devnull))
fails(lambda: torch.optim.SGD([], lr=0.1))
again = []
for reentrant in (True, False):
    checkpoint(Tells(), x, use_reentrant=reentrant).sum().backward()
with tempfile.NamedTemporaryFile() as file:
    torch.save(Unpickled(), file.name)
print(deepest())
sys.setrecursionlimit(2000)
print(deepest())
