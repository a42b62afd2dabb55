"""Record backward passes: `Tensor.backward`, `autograd.backward` and `autograd.grad` all call one function.

ms-profiler replaces only this inner function. It does not replace the three public functions, because Dynamo recognises
them by identity, and because they issue warnings that name the line of their caller. A compilation also calls the inner
function, to trace a backward pass. This call has no span, because its time belongs to the compilation.
"""

import sys
from typing import TYPE_CHECKING, Any

from ms_profiler.job.frameworks import base
from ms_profiler.job.frameworks.autograd import looking
from ms_profiler.job.frameworks.base import Target
from ms_profiler.job.recorder.shortcut import Shortcut, Usual
from ms_profiler.store.format import Category

if TYPE_CHECKING:
    from ms_profiler.job.host import Host

GRAPH = "torch.autograd.graph"
BACKWARD = int(Category.BACKWARD)


def targets(host: "Host") -> list[Target]:
    """Return the function to wrap: the one that runs every backward pass."""
    compiling = sys.modules["torch.compiler"].is_compiling
    steps, recorder = host.steps, host.recorder
    backward, gradient = recorder.intern("backward"), recorder.intern("autograd.grad")

    def before(*args: Any, **kwargs: Any) -> list[int] | None:
        if compiling():
            return None
        steps.began(recorder.now())
        if looking.tape is not None and args:
            looking.tape.backward(args[0], args[4] if len(args) > 4 else kwargs.get("inputs", ()))
        name = backward if kwargs.get("accumulate_grad", True) else gradient
        return [base.begin(recorder, name, BACKWARD)]

    def after(tokens: list[int], result: Any, reason: BaseException | None) -> None:
        recorder.end(tokens[0], 0 if reason is None else base.flags_of(reason))

    usual = Shortcut(Usual.BACKWARD, steps, vars(sys.modules["torch.compiler"]), None, backward, BACKWARD)
    runs = base.around(host, "recording a backward pass", before, after, shortcut=usual, rests=True)
    return [Target(GRAPH, "_engine_run_backward", closure=runs, copies=True)]
