"""Record the operators that Python code dispatches in pynative mode, in the order and with the times of the host.

MindSpore 2.10 dispatches an operator from Python in three ways:

- `_run_op`, for primitives written by hand;
- the `pyboost` functions of generated primitives;
- the inner primitives behind functions such as `ops.softmax`.

This module does not record operators that are called directly in C++: methods and operators of tensors (`x + y`,
`x.view()`), the functions of `mint` that choose among C++ overloads, and the whole backward pass. It does not record
code that `@jit` or graph mode compiled, which includes the optimizers of `nn`.

ms-profiler could also replace the methods and the `mint` functions. But `@jit(capture_mode="bytecode")` would capture
the replacements. In a test with replacements, a gradient was no longer compiled, and its last bits changed.

A training step of ResNet-18 dispatches 101 operators in its forward pass and loss, 75 of them through Python. A step of
a two-layer Transformer with `nn.MultiheadAttention` dispatches 153, 91 of them through Python. The kernels of all
operators are recorded with their own times.
"""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ms_profiler.job.frameworks import base
from ms_profiler.job.frameworks.base import RAISED, Target
from ms_profiler.store.format import Category

if TYPE_CHECKING:
    from ms_profiler.job.host import Host

DISPATCH = "mindspore.ops.primitive"
#: modules of MindSpore whose primitives call global functions named pyboost_*
PYBOOST = (
    "mindspore.ops.auto_generate.gen_ops_prim",
    "mindspore.ops.operations.manually_defined.ops_def",
    "mindspore.ops.operations.nn_ops",
    "mindspore.ops.operations._inner_ops",
    "mindspore.ops.operations.custom_ops",
)
INNER = "mindspore.ops.auto_generate.pyboost_inner_prim"

OP = int(Category.OP)


class Dispatch:
    """Record each operator that Python dispatches, as a span with the name of its primitive."""

    def __init__(self, host: "Host") -> None:
        self.host = host

    def run_op(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return the replacement of `_run_op(primitive, name, arguments)`."""
        recorder = self.host.recorder
        end, intern = recorder.end, recorder.intern
        known: dict[str, int] = {}

        def before(primitive: Any, name: str, *_: Any) -> list[int]:
            label = known.get(name)
            if label is None:
                label = known[name] = intern(name)
            return [base.begin(recorder, label, OP)]

        def after(tokens: list[int], result: Any, reason: BaseException | None) -> None:
            end(tokens[0], 0 if reason is None else RAISED)

        return base.around(self.host, "recording an operator", before, after)(original)

    def pyboost(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return the replacement of a function that runs one operator, such as `pyboost_relu(primitive, arguments)`.

        The name of the operator is the name of the primitive that the first call of the function gets.
        """
        recorder, failed = self.host.recorder, self.host.guard("naming an operator")

        def describe(primitive: Any) -> tuple[int, int, int]:
            return recorder.intern(primitive.name), OP, 0

        return recorder.wrap(original, category=OP, describe=describe, failed=failed, forked=base.forked)


def _names(module: str, meant: Callable[[str, Any], bool]) -> list[str]:
    """Return the names in a module that are to be wrapped.

    Args:
        module: name of the module; if it is not loaded, there are no names.
        meant: called with a name and its value; returns whether the value is to be wrapped.
    """
    loaded = sys.modules.get(module)
    return [name for name, value in vars(loaded).items() if meant(name, value)] if loaded else []


def targets(host: "Host") -> list[Target]:
    """Return the functions to wrap: `_run_op`, and some 650 others, which `run_info.json` groups by module."""
    dispatch = Dispatch(host)
    found = [Target(DISPATCH, "_run_op", closure=dispatch.run_op, copies=True)]
    for module in PYBOOST:
        names = _names(module, lambda name, _: name.startswith("pyboost_")) or ["pyboost_*"]
        group = f"{module}.pyboost_*"
        found += [Target(module, name, closure=dispatch.pyboost, group=group) for name in names]
    names = _names(INNER, lambda name, value: name.startswith("_Pyboost") and isinstance(value, type)) or ["_Pyboost*"]
    for name in names:
        record = base.recorded(host, name.removeprefix("_Pyboost").removesuffix("Prim"), OP)
        found.append(Target(INNER, f"{name}.__call__", closure=record, group=f"{INNER}.*"))
    return found
