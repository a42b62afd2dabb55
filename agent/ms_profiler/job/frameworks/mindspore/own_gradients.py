"""Detect gradients that the script computes itself: by hooks, by a `bprop` of a cell, or by a custom function.

In a backward pass, the kernels of the script's gradients cannot be distinguished from the kernels of autograd. So after
the script's first gradient, ms-profiler records backward passes under another name. This costs little: the functions
that this module wraps run only when a hook is registered, or once for each call of a cell with a `bprop`.
"""

import sys
from typing import TYPE_CHECKING, Any

from ms_profiler.job.frameworks import base
from ms_profiler.job.frameworks.autograd import looking
from ms_profiler.job.frameworks.base import Target, loaded
from ms_profiler.job.frameworks.mindspore import recompute
from ms_profiler.store.format import Category

if TYPE_CHECKING:
    from ms_profiler.job.host import Host

#: names of a backward pass: without and with gradients that code of the script computes
NAMES = ("backward", "backward with the script's gradients")
FUNCTIONS = "mindspore.common._grad_function"


def targets(host: "Host") -> list[Target]:
    """Return the functions to wrap: those that run backward passes, or register code of the script for them."""
    recorder = host.recorder
    passes = [recorder.intern(name) for name in NAMES]
    function = getattr(sys.modules.get(FUNCTIONS), "_Function", int)
    known = len(type.__subclasses__(function))
    own = False

    def note(*args: Any, **_: Any) -> None:
        nonlocal own
        # MindSpore recomputes cells with a class that also has a `bprop`. This one is not code of the script.
        own = own or not (len(args) > 1 and type(args[1]).__module__ == recompute.MODULE)

    def began(*args: Any, **_: Any) -> list[int]:
        if looking.tape is not None and len(args) > 3:
            looking.tape.backward(*args[2:4])
        name = passes[own or len(type.__subclasses__(function)) > known]
        return [base.begin(recorder, name, Category.BACKWARD)]

    def ended(tokens: list[int], result: Any, reason: BaseException | None) -> None:
        recorder.end(tokens[0], 0 if reason is None else base.flags_of(reason))

    passed = base.around(host, "recording a backward pass", began, ended)
    notes = base.around(host, "noting gradients of the script", note)
    executor = loaded("mindspore.graph.api", "mindspore.common.api")
    return [
        Target(executor, "_PyNativeExecutor.grad", closure=passed),
        Target(executor, "_PyNativeExecutor.call_custom_bprop", closure=notes),
        Target("mindspore.common.hook_handle", "_TensorHookHandle.__init__", closure=notes),
        Target("mindspore.nn.cell", "Cell.register_backward_hook", closure=notes),
        Target("mindspore.nn.cell", "Cell.register_backward_pre_hook", closure=notes),
    ]
