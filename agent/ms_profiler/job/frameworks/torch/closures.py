"""Functions in place of PyTorch's own, which vanish from whatever its compiler traces.

Dynamo takes apart what runs inside a compiled region, functions of ours included. There `is_dynamo_compiling` is a
constant, so that nothing of a replacement is left but the call of the original; outside it is a call that returns
False (40 ns). Frames of replacements are left alone by Dynamo, which looks at what they call.

A function that warns in the name of its caller (`stacklevel=2`) is not replaced but one that it calls, for the caller
would be ours: the script's own line would be missing from the warning.
"""

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

from ms_profiler.job.frameworks import base
from ms_profiler.job.frameworks.base import RAISED, keep_signature

if TYPE_CHECKING:
    from ms_profiler.job.session import Session

Closure = Callable[[Callable[..., Any]], Callable[..., Any]]


def traced() -> Callable[[], bool]:
    """Return the function that tells whether Dynamo is tracing its caller."""
    compiler = sys.modules["torch.compiler"]
    # until PyTorch 2.2 there was only the second
    found: Callable[[], bool] = getattr(compiler, "is_dynamo_compiling", None) or compiler.is_compiling
    return found


def flags_of(reason: BaseException) -> int:
    """Return the flags of a span that an exception ended; not all are failures.

    The end of an iteration is none, nor is that by which a recomputation stops when all is there that is needed.
    """
    stops = isinstance(reason, StopIteration) or type(reason).__name__ == "_StopRecomputationError"
    return 0 if stops else RAISED


def unseen(function: Callable[..., Any]) -> Callable[..., Any]:
    """Have Dynamo leave the frame of a function of ours alone, but not what the function calls."""
    _leave_alone(function.__code__, "DEFAULT")
    return function


def hide() -> None:
    """Have Dynamo leave alone every other function of ours, with all that it calls: none of that is the job's."""
    for name, module in list(sys.modules.items()):
        if name.startswith("ms_profiler."):
            for code in _codes(vars(module).values(), name):
                if code not in _unseen:
                    _leave_alone(code, "SKIP")


#: code of ours that calls code of the job
_unseen: set[CodeType] = set()


def _leave_alone(code: CodeType, called: str) -> None:
    """Tell Dynamo's evaluation of frames, which has no need of the rest of Dynamo, what to do with some code.

    Args:
        code: whose frames it leaves alone.
        called: what to do with the frames that those call: "DEFAULT", or "SKIP" them as well.
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
            yield function.__code__
        elif isinstance(value, type) and value.__module__ == module:
            yield from _codes(vars(value).values(), module)


def replace(original: Callable[..., Any], replacement: Callable[..., Any]) -> Callable[..., Any]:
    """Make `replacement` pass for `original`, and have Dynamo leave its frame alone."""
    return keep_signature(original, unseen(replacement))


def recorded(session: "Session", name: str, category: int) -> Closure:
    """Return what makes the replacement of a function or method whose calls are spans with a fixed name."""
    recorder, tracing, forked = session.recorder, traced(), base.forked
    begin, end, label, category = recorder.begin, recorder.end, recorder.intern(name), int(category)

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if tracing():
                return original(*args, **kwargs)
            token = begin(label, category)
            if not token and forked:
                forked[0].reopen()
                token = begin(label, category)
            try:
                result = original(*args, **kwargs)
            except BaseException as reason:
                end(token, flags_of(reason))
                raise
            end(token)
            return result

        return replace(original, call)

    return make
