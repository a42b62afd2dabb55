"""Define classes that count the calls of their methods, or end the job at a call that PyTorch would not make."""

import collections
import functools
import gc
import io
import sys
import weakref

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

calls = collections.Counter()
plain_attribute = object.__getattribute__

OVERRIDES = (
    "named_modules",
    "modules",
    "named_children",
    "children",
    "named_parameters",
    "parameters",
    "state_dict",
    "__hash__",
    "__eq__",
    "__bool__",
    "__len__",
    "__iter__",
    "__repr__",
    "__str__",
    "__getattr__",
    "__getattribute__",
)


def overriding(base, ends=False, names=OVERRIDES):
    """Return a class whose methods count their calls; some of them may end the job.

    Args:
        base: the class that has the methods.
        ends: whether a method that PyTorch does not need raises SystemExit, once the object is armed.
        names: names of the methods.
    """
    found = {}
    for name in names:

        def method(self, *args, name=name, **kwargs):
            what = args[0] if name.startswith("__getattr") else ""
            calls[f"{base.__name__}.{name} {what}"] += 1
            if (
                ends
                and plain_attribute(self, "__dict__").get("armed")
                and not (name == "__getattribute__" or inside(self, what))
            ):
                print(name, what)
                raise SystemExit(7)
            if hasattr(base, name):
                return getattr(base, name)(self, *args, **kwargs)
            if name == "__getattr__":
                raise AttributeError(what)
            return False if name == "__bool__" else 0

        if hasattr(base, name) or name in ("__bool__", "__len__", "__getattr__"):
            found[name] = method
    return type(base)(f"Own{base.__name__}", (base,), found)


def armed(kind):
    """Return a function that makes an object of a class and arms it: from then on its methods may end the job."""

    def make(*args):
        made = kind(*args)
        plain_attribute(made, "__dict__")["armed"] = True
        return made

    return make


def inside(item, what):
    held = plain_attribute(item, "__dict__")
    return any(what in held.get(table, ()) for table in ("_modules", "_parameters", "_buffers"))


def weights(item):
    held = plain_attribute(item, "__dict__")
    return [*held["_parameters"].values(), *(one for inner in held["_modules"].values() for one in weights(inner))]


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, index):
        return torch.ones(4) * index


class Collate:
    """Put rows together to a batch, and count the look-ups of missing attributes."""

    def __getattr__(self, name):
        calls[f"Collate {name}"] += 1
        raise KeyError(name) if name == "__qualname__" else AttributeError(name)

    def __call__(self, items):
        return torch.stack(items)


def train(net, optimizer_class, loader):
    optimizer = optimizer_class(weights(net), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    scaler = torch.amp.GradScaler("cpu")
    for batch in loader:
        optimizer.zero_grad()
        loss = net(batch).sum()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        scheduler.step()
    print(type(net).__name__, loss.item())


class OptimizedModule(nn.Module):
    """Wrap another module as torch.compile does."""

    def __init__(self, module):
        super().__init__()
        self._orig_mod = module

    def forward(self, x):
        return self._orig_mod(x)


class Held(OptimizedModule):
    """Hold the wrapped module in an attribute that is no submodule."""

    def __init__(self, module):
        nn.Module.__init__(self)
        self.inner = module
        self.__dict__["_orig_mod"] = module


class Overridden(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        calls[f"Overridden {getattr(function, '__name__', function)}"] += 1
        return super().__torch_function__(function, types, args, kwargs or {})

    @property
    def nbytes(self):
        calls["Overridden own nbytes"] += 1
        return 7


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.name = "a node has a method of that name"
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


def doubled(steps):
    """Train with a tensor class and an autograd function that the script defines."""
    net = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(steps):
        Doubled.apply(net(torch.ones(2, 4).as_subclass(Overridden))).sum().backward()
        optimizer.step()


Held.__name__ = "OptimizedModule"
torch.manual_seed(0)
doubled(10)
for ends in (False, True):
    Linear = armed(overriding(nn.Linear, ends))
    Quiet = overriding(torch.optim.SGD, False)
    Loader = overriding(torch.utils.data.DataLoader, False)
    Data = overriding(Rows, False)
    for around in (lambda net: net, OptimizedModule, Held):
        loader = Loader(Data(), batch_size=2, collate_fn=Collate())
        train(around(nn.Sequential(Linear(4, 4), Linear(4, 2))), Quiet, loader)
    x = torch.ones(2, 4, requires_grad=True)
    own = Linear(4, 4)
    for reentrant in (True, False):
        for block in (own, own.forward, functools.partial(own)):
            checkpoint(block, x, use_reentrant=reentrant).sum().backward()
net = nn.Sequential()
net.__class__ = overriding(nn.Sequential, False)
nn.Sequential.append(net, nn.Linear(4, 4))
torch.save(nn.Module.state_dict(net), io.BytesIO())


class Meta(type):
    def __getattribute__(cls, name):
        calls[f"Meta {name}"] += 1
        return super().__getattribute__(name)

    def __hash__(cls):
        calls["Meta hash"] += 1
        return super().__hash__()

    def __eq__(cls, other):
        calls["Meta eq"] += 1
        return super().__eq__(other)


class OfMeta(nn.Linear, metaclass=Meta):
    pass


OfMeta(4, 4)(x).sum().backward()


tensor = torch.ones(2, 4).as_subclass(Overridden)
nn.Linear(4, 4)(tensor).sum().backward()
torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
torch.distributed.all_reduce(tensor)
torch.distributed.all_gather([torch.ones(2, 4)], tensor)
torch.distributed.destroy_process_group()
for name, count in sorted(calls.items()):
    print(name, count)

alive = weakref.WeakSet()
weight = nn.Parameter(torch.ones(2))
weight.grad = torch.ones(2)
for number in range(3000):
    kind = type(f"Optimizer{number % 10}", (torch.optim.SGD,), {})
    optimizer = kind([weight], lr=0.1)
    optimizer.step()
    alive.add(kind)
del kind, optimizer
gc.collect()
print(len(alive), "classes alive")
modules = weakref.WeakSet()
for _ in range(300):
    kind = type("Module", (nn.Identity,), {})
    kind()(weight)
    modules.add(kind)
del kind
gc.collect()
print(len(modules), "classes of modules alive")
print("nothing ended the job", file=sys.stderr)
