"""Hide our functions from Dynamo: replacements of PyTorch's functions vanish from its traces, and all others are
skipped.

Dynamo traces an object of the extension as the function that it wraps. It skips the frame of a Python function of ours
and traces the functions that it calls. Inside a compiled region `is_dynamo_compiling` is a constant, so code that
depends on it disappears; outside it is a call that returns False (40 ns).
"""

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

from ms_profiler.job.frameworks.base import keep_signature

if TYPE_CHECKING:
    pass

Closure = Callable[[Callable[..., Any]], Callable[..., Any]]


def traced() -> Callable[[], bool]:
    """Return PyTorch's function that says whether Dynamo is tracing its caller."""
    compiler = sys.modules["torch.compiler"]
    # PyTorch 2.2 and older have only `is_compiling`
    found: Callable[[], bool] = getattr(compiler, "is_dynamo_compiling", None) or compiler.is_compiling
    return found


def unseen(function: Callable[..., Any]) -> Callable[..., Any]:
    """Exclude a function of ours from Dynamo's tracing, but not the functions that it calls."""
    _exclude(function.__code__, "DEFAULT")
    return function


def hide() -> None:
    """Exclude every other function of ours from Dynamo's tracing, with all functions that it calls."""
    for name, module in list(sys.modules.items()):
        if name.startswith("ms_profiler.") and module is not None:
            for code in _codes(vars(module).values(), name):
                if code not in _unseen:
                    _exclude(code, "SKIP")


#: code of ours that calls code of the job
_unseen: set[CodeType] = set()


def _exclude(code: CodeType, called: str) -> None:
    """Exclude code from Dynamo's tracing through its evaluation of frames, which works without importing Dynamo.

    Args:
        code: the code to exclude.
        called: treatment of the functions that the code calls: "DEFAULT", or "SKIP" to exclude them, too.
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
    """Make `replacement` pass for `original`, and have Dynamo leave its frame alone."""
    return keep_signature(original, unseen(replacement))
