"""Keep our functions out of Dynamo's traces.

ms-profiler replaces a PyTorch function either by an object of the extension or by a Python function. Both must leave
the traces of `torch.compile` as they are. In place of an object of the extension, Dynamo traces the original function.
Dynamo skips a Python function of ours, and traces the functions that it calls. Some objects of the extension are
replaced by Python functions before Dynamo traces for the first time (`before_tracing`).

In compiled code, `is_dynamo_compiling` is a constant, so code that depends on it disappears. Elsewhere,
`is_dynamo_compiling` is a call that takes 40 ns and returns False.
"""

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator
from types import CodeType, FunctionType
from typing import Any

from ms_profiler.job.frameworks.base import keep_signature

#: Dynamo's module that traces functions
FRAMES = "torch._dynamo.convert_frame"
Closure = Callable[[Callable[..., Any]], Callable[..., Any]]


def traced() -> Callable[[], bool]:
    """Return PyTorch's function that returns whether Dynamo is tracing its caller."""
    compiler = sys.modules["torch.compiler"]
    # PyTorch 2.2 and older have only `is_compiling`
    found: Callable[[], bool] = getattr(compiler, "is_dynamo_compiling", None) or compiler.is_compiling
    return found


def unseen(function: Callable[..., Any]) -> Callable[..., Any]:
    """Exclude a function of ours from Dynamo's tracing and return it; Dynamo still traces the functions it calls."""
    _exclude(function.__code__, "DEFAULT")
    return function


class _Tracing:
    def __init__(self) -> None:
        self.begun = False  # whether Dynamo has traced a function of the job since our hooks exist
        self.before: list[Callable[[], None]] = []  # what to do before Dynamo traces a function for the first time


_tracing = _Tracing()


def _traces() -> bool:
    """Return whether Dynamo has traced any function of the job, or may have done so before our hooks existed."""
    frames = sys.modules.get(FRAMES)
    return _tracing.begun or getattr(frames, "FRAME_COUNTER", 0 if frames is None else 1) > 0


def before_tracing(call: Callable[[], None]) -> None:
    """Call a function before Dynamo traces a function of the job for the first time; now, if it may have done so."""
    if _traces():
        call()
    else:
        _tracing.before.append(call)


def tracing_begins() -> None:
    """Call the functions registered with `before_tracing`, each once."""
    _tracing.begun = True
    while _tracing.before:
        _tracing.before.pop()()


def hide() -> None:
    """Exclude all other functions of ours from Dynamo's tracing, together with the functions that they call."""
    for name, module in list(sys.modules.items()):
        if name.startswith("ms_profiler.") and module is not None:
            for code in _codes(vars(module).values(), name):
                if code not in _unseen:
                    _exclude(code, "SKIP")


#: code of those functions of ours that call code of the job; Dynamo must still trace the code of the job
_unseen: set[CodeType] = set()


def _exclude(code: CodeType, called: str) -> None:
    """Exclude code from Dynamo's tracing with a function of PyTorch's C++ code, so that Dynamo need not be imported.

    Args:
        code: the code to exclude.
        called: what Dynamo does with the functions that the code calls: "DEFAULT" traces them, "SKIP" excludes them.
    """
    if called == "DEFAULT":
        _unseen.add(code)
    frames = sys.modules["torch"]._C._dynamo.eval_frame
    if hasattr(frames, "set_code_exec_strategy"):
        action = frames._FrameAction
        frames.set_code_exec_strategy(code, frames._FrameExecStrategy(action.SKIP, getattr(action, called)))
    else:  # until PyTorch 2.6
        frames.skip_code(code)


def _codes(values: Iterable[Any], module: str) -> Iterator[CodeType]:
    for value in values:
        function = inspect.unwrap(getattr(value, "__func__", value))
        if isinstance(function, property):
            function = function.fget
        if isinstance(function, FunctionType) and function.__module__ == module:
            yield from _nested(function.__code__)
        elif isinstance(value, type) and value.__module__ == module:
            yield from _codes(vars(value).values(), module)


def _nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _nested(constant)


def replace(original: Callable[..., Any], replacement: Callable[..., Any]) -> Callable[..., Any]:
    """Copy the metadata of `original` to `replacement`, and exclude `replacement` from Dynamo's tracing."""
    return keep_signature(original, unseen(replacement))
