"""Primitive dispatch in pynative mode: which operators the host runs, in its own order and with its own times.

Python sees three of the ways in which MindSpore 2.10 dispatches an operator: `_run_op`, for primitives written by hand;
the `pyboost` functions of generated primitives; and the inner primitives behind functions such as `ops.softmax`. What
goes straight to C++ is not seen: methods and signs of tensors (`x + y`, `x.view()`), the functions of `mint` that
choose among C++ overloads, the whole backward pass, and what `@jit` or graph mode compiled, which is also how the
optimizers of `nn` run. Methods and `mint` functions could be replaced, but `@jit(capture_mode="bytecode")` captures
them: with replacements a gradient was no longer compiled, and its last bits changed.

A training step of ResNet-18 dispatches 101 operators in its forward pass and loss, 75 of them through Python; one of a
two-layer Transformer with `nn.MultiheadAttention` 153, 91 of them through Python. Their kernels, and those of the rest,
are seen with times of their own.
"""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ms_profiler.job.frameworks import base
from ms_profiler.job.frameworks.base import RAISED, Target, keep_signature, span
from ms_profiler.store.format import Category

if TYPE_CHECKING:
    from ms_profiler.job.session import Session

DISPATCH = "mindspore.ops.primitive"
#: modules whose primitives call functions named pyboost_*, each a global of the module
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
    """Record each operator that Python dispatches as a span named by its primitive."""

    def __init__(self, session: "Session") -> None:
        self.session = session

    def run_op(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return the replacement of `_run_op(primitive, name, arguments)`."""
        begin, end, intern = self.session.recorder.begin, self.session.recorder.end, self.session.recorder.intern
        known: dict[str, int] = {}
        forked = base.forked

        def _run_op(obj: Any, op_name: str, args: Any) -> Any:
            label = known.get(op_name)
            if label is None:
                label = known[op_name] = intern(op_name)
            token = begin(label, OP)
            if not token and forked:
                forked[0].reopen()
                token = begin(label, OP)
            try:
                result = original(obj, op_name, args)
            except BaseException:
                end(token, RAISED)
                raise
            end(token)
            return result

        return keep_signature(original, _run_op)

    def pyboost(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return the replacement of a function that runs one operator: `pyboost_relu(primitive, arguments)`."""
        session, forked = self.session, base.forked
        begin, end = session.recorder.begin, session.recorder.end
        label = 0

        def operator(primitive: Any, arguments: Any, *more: Any) -> Any:
            nonlocal label
            if not label:
                with session.guard("naming an operator"):
                    label = session.recorder.intern(primitive.name)
            token = begin(label, OP)
            if not token and forked:
                forked[0].reopen()
                token = begin(label, OP)
            try:
                # no version passes more; to pass on what is not there would take 0.1 us
                result = original(primitive, arguments, *more) if more else original(primitive, arguments)
            except BaseException:
                end(token, RAISED)
                raise
            end(token)
            return result

        operator.__wrapped__ = original  # type: ignore[attr-defined]
        return operator  # in place of a C function: there is no signature to keep


def _names(module: str, meant: Callable[[str, Any], bool]) -> list[str]:
    """Return the names in a module whose values are meant."""
    loaded = sys.modules.get(module)
    return [name for name, value in vars(loaded).items() if meant(name, value)] if loaded else []


def targets(session: "Session") -> list[Target]:
    """Declare what is wrapped around operators; but for the first these are some 650, with one account per module."""
    dispatch = Dispatch(session)
    found = [Target(DISPATCH, "_run_op", closure=dispatch.run_op, copies=True)]
    for module in PYBOOST:
        names = _names(module, lambda name, _: name.startswith("pyboost_")) or ["pyboost_*"]
        group = f"{module}.pyboost_*"
        found += [Target(module, name, closure=dispatch.pyboost, group=group) for name in names]
    names = _names(INNER, lambda name, value: name.startswith("_Pyboost") and isinstance(value, type)) or ["_Pyboost*"]
    for name in names:
        record = span(session, name.removeprefix("_Pyboost").removesuffix("Prim"), OP)
        found.append(Target(INNER, f"{name}.__call__", record, group=f"{INNER}.*"))
    return found
