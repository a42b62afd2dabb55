"""Record the forward and backward passes that MindSpore's gradient functions run in pynative mode.

`grad`, `value_and_grad`, `vjp`, `jvp` and `GradOperation`, under all their names, call the same two functions: one runs
the forward pass, one the backward pass. MindSpore has no `Tensor.backward`. In graph mode and with `@jit`, the gradient
is part of the compiled graph.

The times are measured on the host. On a CPU, a call may return when its work is queued, or only when its work is done:
MindSpore decides.
"""

import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from ms_profiler.job.frameworks import base
from ms_profiler.job.frameworks.autograd import looking
from ms_profiler.job.frameworks.base import Target
from ms_profiler.job.frameworks.mindspore import modules, own_gradients, recompute
from ms_profiler.store.format import Category

if TYPE_CHECKING:
    from ms_profiler.job.host import Host

GRADIENTS = "mindspore.ops.composite.base"
#: MindSpore's functions that run the forward pass. A version has one of them or both. If both exist, the second calls
#: the first.
FORWARDS = ("_pynative_func_grad_forward", "_pynative_forward_run")
#: Classes that have `_pynative_forward_run` as a method, in some versions of MindSpore.
CLASSES = ("GradOperation", "_Grad")
#: A forward pass that has not ended: token of its span, id of its function (None for a recomputation), value of
#: `training` before it, and whether autograd's nodes are read after it.
Call = tuple[int, int | None, bool, bool]


def _inner(before: Callable[..., Any], instance: Any, *args: Any, **kwargs: Any) -> Any:
    return before(*args, **kwargs)


def targets(host: "Host") -> list[Target]:
    """Return the functions to wrap: those that run forward passes, backward passes and recomputations."""
    steps, recorder = host.steps, host.recorder
    name, again = recorder.intern("forward"), recorder.intern("recompute forward")

    def before(*args: Any, **_: Any) -> Call:
        if recompute.running():
            if looking.tape is not None:
                looking.tape.began(args[0] if args else None)
            return base.begin(recorder, again, Category.BACKWARD), None, False, True
        with host.guard("noting the begin of a step"):
            at = recorder.now()
            steps.began(at, forward=True)
            steps.call_began(at)
        trained, modules.training.value = modules.training.value, True
        outermost = looking.tape is not None and (not trained or looking.tape.between_cells)
        if outermost and not trained:
            looking.tape.began(args[0] if args else None)
        return base.begin(recorder, name, Category.FORWARD), id(args[0]) if args else 0, trained, outermost

    def after(call: Call, result: Any, reason: BaseException | None) -> None:
        token, network, trained, outermost = call
        recorder.end(token, 0 if reason is None else base.flags_of(reason))
        if outermost and looking.tape is not None:
            looking.tape.ended(result)
        if network is not None:
            modules.training.value = trained
            steps.call_ended(network, recorder.now())

    there = vars(sys.modules.get(GRADIENTS, recompute))
    function = next((found for found in FORWARDS if found in there), "")
    methods = [f"{kind}.{FORWARDS[1]}" for kind in CLASSES if hasattr(there.get(kind), FORWARDS[1])]
    paths = [function] if function else methods or [FORWARDS[0]]

    def forward(path: str) -> base.Closure:
        # a method gets `self` as its first argument, before the function
        method = "." in path
        return base.around(host, "recording a forward pass", partial(_inner, before) if method else before, after)

    return [
        *(Target(GRADIENTS, path, closure=forward(path), copies=bool(function)) for path in paths),
        *own_gradients.targets(host),
        *recompute.targets(host),
    ]
