"""Exchanges through operators that are traced, intercepted and run. usage: functional_torch.py FILE

FILE receives how many exchanges there were, and whether the operators stayed what they were.
"""

import json
import sys
from pathlib import Path

import torch
from torch import distributed
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed import _functional_collectives as functional
from torch.utils._python_dispatch import TorchDispatchMode

OPERATORS = torch.ops._c10d_functional


class Counter(TorchDispatchMode):
    """Count exchanges, as a script may."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        """Count the call, and pass it on."""
        self.count += function is OPERATORS.all_reduce.default
        return function(*args, **(kwargs or {}))


def reduced(x):
    """Return a sum over all ranks."""
    return functional.all_reduce(x * 2, "sum", GROUP) + 0


def main(path):
    """Call operators in every way; eight of the calls exchange data, of 16 bytes each."""
    x = torch.ones(4)
    told = {"plain": reduced(x).tolist()}  # 1
    with FakeTensorMode():
        reduced(torch.ones(4))
    reduced(torch.ones(4, device="meta"))
    with Counter() as counter:
        reduced(x)  # 2
    told["counted"] = counter.count
    for backend in ("eager", "aot_eager", "inductor"):
        told[backend] = torch.compile(reduced, backend=backend, fullgraph=True)(x).tolist()  # 3, 4, 5
    torch.fx.experimental.proxy_tensor.make_fx(reduced, tracing_mode="fake")(x)
    wanted = torch.ones(4, requires_grad=True)
    reduced(wanted).sum().backward()  # 6, 7
    told["gradient"] = wanted.grad.tolist()
    OPERATORS.all_reduce.default(x, "sum", "0")  # 8
    told["script"] = torch.jit.script(scripted)(x).tolist()  # in C++, where no entry of Python's is
    told["known"] = TABLE.get(OPERATORS.all_reduce) == 1 and TABLE.get(OPERATORS.all_reduce.default) == 2
    distributed.all_reduce(x)
    Path(path).write_text(json.dumps(told))


def scripted(x: torch.Tensor) -> torch.Tensor:
    """Return a sum over all ranks, in TorchScript."""
    return torch.ops._c10d_functional.wait_tensor(torch.ops._c10d_functional.all_reduce(x, "sum", "0"))


#: made before the profiler sees the group
TABLE = {OPERATORS.all_reduce: 1, OPERATORS.all_reduce.default: 2}

if __name__ == "__main__":
    distributed.init_process_group("gloo")
    GROUP = distributed.group.WORLD
    main(sys.argv[1])
    distributed.destroy_process_group()
