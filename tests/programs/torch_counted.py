"""Train until hooks rest, then step optimizers in an unusual way: torch_counted.py WAY.

The program prints, as JSON, its number of steps, and whether the optimizer's steps were noted at their ends only when
the unusual steps began.
"""

import json
import sys

import torch
from resting import MOST, fails, inner, net, rests, x

FEW = 40
way = sys.argv[1]
#: PyTorch deletes the attribute `optimizer` of `torch.optim`
optimizers = sys.modules["torch.optim.optimizer"]
done = 0


def counted():
    return any(getattr(hook, "counted", 0) for hook in optimizers._global_optimizer_post_hooks.values())


def step(optimizer, closure=None):
    global done
    net(x).sum().backward()
    optimizer.step(closure)
    optimizer.zero_grad()
    done += 1


class Around(torch.optim.Optimizer):
    """An optimizer whose step calls the step of another one twice."""

    def __init__(self, inside):
        super().__init__(inside.param_groups[0]["params"], {})
        self.inside = inside

    def step(self, closure=None):
        self.inside.step()
        self.inside.step()


class Derived(torch.optim.Adadelta):
    def step(self, closure=None):
        return super().step(closure)


class Decayed(torch.optim.AdamW):
    """A class that inherits the method `step` of two others."""


def makes():
    other = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1e-9)
    for _ in range(3):
        other.step()
    return x.sum()


def evaluates():
    net.eval()
    net.train()
    for _ in range(3):
        inner.step()
    return x.sum()


kinds = {"base class hooked": Derived, "inherited": Decayed}
optimizer = kinds.get(way, torch.optim.SGD)(net.parameters(), lr=1e-9)
around = Around(optimizer) if way == "around" else None
after = False


def steps_another(which, *_):
    if after and which is optimizer:
        inner.step()
        inner.step()


optimizers.register_optimizer_step_post_hook(steps_another)
for _ in range(MOST):
    step(optimizer)
    if rests():
        break
began = counted()
if way == "base class hooked":
    torch.optim.Adadelta.__new__(torch.optim.Adadelta)._patch_step_function()
after = way == "later hook"
for _ in range(FEW):
    if way == "failed":
        try:
            optimizer.step(fails)
        except ValueError:
            optimizer.zero_grad()
    step(around or optimizer, {"makes": makes, "evaluates": evaluates}.get(way))
print(json.dumps({"steps": done, "counted": began}))
