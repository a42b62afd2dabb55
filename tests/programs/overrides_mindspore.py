"""Define cells that count the calls of their methods, or end the job at a call that MindSpore would not make."""

import collections
import gc
import sys

import mindspore as ms
import mindspore.dataset as ds
import numpy as np
from mindspore import nn, ops, train

ms.set_seed(0)
ms.set_device("CPU")
ms.set_context(mode=ms.PYNATIVE_MODE)
calls = collections.Counter()
plain_attribute = object.__getattribute__

OVERRIDES = (
    "cells",
    "cells_and_names",
    "name_cells",
    "parameters_and_names",
    "get_parameters",
    "trainable_params",
    "__hash__",
    "__eq__",
    "__bool__",
    "__len__",
    "__repr__",
    "__str__",
    "__getattr__",
    "__getattribute__",
)
#: methods that MindSpore itself calls in each step
NEEDED = {"__bool__", "__getattribute__", "__hash__", "__eq__"} | {name for name in OVERRIDES if "_and_names" in name}
NEEDED.add("get_parameters")


def overriding(base, ends=False):
    """Return a class whose methods count their calls; some of them may end the job.

    Args:
        base: the class that has the methods.
        ends: whether a method that MindSpore does not need raises SystemExit, once the object is armed.
    """
    found = {}
    for name in OVERRIDES:

        def method(self, *args, name=name, **kwargs):
            what = args[0] if name.startswith("__getattr") else ""
            calls[f"{base.__name__}.{name} {what}"] += 1
            if (
                ends
                and plain_attribute(self, "__dict__").get("armed")
                and name not in NEEDED
                and not inside(self, what)
            ):
                print(name, what)
                raise SystemExit(7)
            if hasattr(base, name):
                return getattr(base, name)(self, *args, **kwargs)
            if name == "__getattr__":
                raise AttributeError(what)
            return name == "__bool__"

        if hasattr(base, name) or name in ("__bool__", "__getattr__"):
            found[name] = method
    return type(base)(f"Own{base.__name__}", (base,), found)


def inside(item, what):
    held = plain_attribute(item, "__dict__")
    return any(what in (held.get(table) or ()) for table in ("_cells", "_params", "_buffers"))


class Around(nn.Cell):
    def __init__(self, cell):
        super().__init__()
        self.cell = cell

    def construct(self, x):
        return self.cell(x)


class Rows:
    def __len__(self):
        return 6

    def __getitem__(self, index):
        return np.ones(4, np.float32) * index, np.ones(2, np.float32)


OwnRows = overriding(Rows)
OwnMomentum = overriding(nn.SGD)


def steps(cell, optimizer):
    def loss(x, y):
        return ops.mse_loss(cell(x), y)

    gradient = ms.value_and_grad(loss, None, optimizer.parameters)
    for x, y in ds.GeneratorDataset(OwnRows(), ["x", "y"], shuffle=False).batch(2):
        value, gradients = gradient(x, y)
        optimizer(gradients)
    print(type(cell).__name__, value)


for ends in (False, True):
    inner = overriding(nn.Dense, ends)(4, 2, weight_init="ones")
    cell = Around(inner)
    optimizer = OwnMomentum(list(cell.trainable_params()), 0.01)
    plain_attribute(inner, "__dict__")["armed"] = True
    steps(cell, optimizer)
    steps(inner, optimizer)

x = ms.Tensor(np.ones((2, 4), np.float32))
inner = overriding(nn.Dense)(4, 2, weight_init="ones")
print(ms.grad(lambda x: ms.recompute(inner, x).sum())(x))
print(ms.grad(lambda x: ms.recompute(inner, x, use_reentrant=False).sum())(x))
model = train.Model(Around(inner), nn.MSELoss(), OwnMomentum(list(nn.Cell.trainable_params(inner)), 0.01))
model.train(1, ds.GeneratorDataset(OwnRows(), ["x", "y"], shuffle=False).batch(2))


class Holder:
    """Have a compiled method without being a cell."""

    def __getattr__(self, name):
        calls[f"Holder.__getattr__ {name}"] += 1
        raise AttributeError(name)

    def __hash__(self):
        calls["Holder.__hash__"] += 1
        return 1

    @ms.jit
    def method(self, x):
        return x * 2


print(Holder().method(x).sum())
print(ms.jit(ms.grad(inner))(x).sum())
ms.set_context(mode=ms.GRAPH_MODE)
print(Around(overriding(nn.Dense)(4, 2, weight_init="ones"))(x).sum())
print(overriding(nn.Dense)(4, 2, weight_init="ones")(x).sum())


class OwnTensor(ms.Tensor):
    @property
    def shape(self):
        calls["OwnTensor.shape"] += 1
        return super().shape

    @property
    def dtype(self):
        calls["OwnTensor.dtype"] += 1
        return super().dtype


class Text:
    def __str__(self):
        calls["Text.__str__"] += 1
        return "text"


@ms.jit
def double(x):
    return x * 2


for number in 1, 2:
    print(double(OwnTensor(np.ones(number, np.float32))).sum())
try:
    ms.profiler.mstx.mark(Text())
except TypeError as reason:
    print(reason)
for name, count in sorted(calls.items()):
    print(name, count)
inner = cell = optimizer = model = None
gc.collect()  # MindSpore's __del__ methods must run before this module is torn down at the exit
print("nothing ended the job", file=sys.stderr)
