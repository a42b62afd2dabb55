"""Exchange data by functional operators that are traced, intercepted or run. usage: functional_torch.py FILE

FILE receives the results, the number of intercepted exchanges, and whether the operators are still the keys of a table.
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
    """Intercept operators and count the all-reduces, as a script may do."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        """Count the operator if it is an all-reduce, and call it."""
        self.count += function is OPERATORS.all_reduce.default
        return function(*args, **(kwargs or {}))


def reduced(x):
    """Return twice a tensor, summed over all ranks."""
    return functional.all_reduce(x * 2, "sum", GROUP) + 0


def main(path):
    """Call the operators in every way. The numbers count the calls that exchange data: eight, of 16 bytes each."""
    x = torch.ones(4)
    results = {"plain": reduced(x).tolist()}  # 1
    with FakeTensorMode():
        reduced(torch.ones(4))
    reduced(torch.ones(4, device="meta"))
    with Counter() as counter:
        reduced(x)  # 2
    results["counted"] = counter.count
    for backend in ("eager", "aot_eager", "inductor"):
        results[backend] = torch.compile(reduced, backend=backend, fullgraph=True)(x).tolist()  # 3, 4, 5
    torch.fx.experimental.proxy_tensor.make_fx(reduced, tracing_mode="fake")(x)
    wanted = torch.ones(4, requires_grad=True)
    reduced(wanted).sum().backward()  # 6, 7
    results["gradient"] = wanted.grad.tolist()
    OPERATORS.all_reduce.default(x, "sum", "0")  # 8
    results["script"] = torch.jit.script(scripted)(x).tolist()  # C++ calls the operator, past every Python function
    results["known"] = TABLE.get(OPERATORS.all_reduce) == 1 and TABLE.get(OPERATORS.all_reduce.default) == 2
    distributed.all_reduce(x)
    Path(path).write_text(json.dumps(results))


def scripted(x: torch.Tensor) -> torch.Tensor:
    """Return the sum of a tensor over all ranks; TorchScript compiles this function."""
    return torch.ops._c10d_functional.wait_tensor(torch.ops._c10d_functional.all_reduce(x, "sum", "0"))


#: made before there is a group, so before ms-profiler hooks the operators
TABLE = {OPERATORS.all_reduce: 1, OPERATORS.all_reduce.default: 2}

if __name__ == "__main__":
    distributed.init_process_group("gloo")
    GROUP = distributed.group.WORLD
    main(sys.argv[1])
    distributed.destroy_process_group()
