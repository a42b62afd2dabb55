"""Graph mode and @jit: what is compiling and what is running.

`_check_recompile` is what both executors call when they found no compiled graph and are about to make one: there
the compile span begins. It ends with the executor's `compile`. A call that finds its graph records no compile span.
"""

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ms_profiler.job.frameworks.base import RAISED, Target, Wrapper
from ms_profiler.store.format import Category

if TYPE_CHECKING:
    from ms_profiler.job.session import Session

MODULE = "mindspore.graph.api"


class Compilation:
    """Record compile spans; one stack per thread, because a compilation may start another."""

    def __init__(self, session: "Session") -> None:
        self.session = session
        self._local = threading.local()

    def _open(self) -> list[int]:
        stack = getattr(self._local, "stack", None)
        if stack is None:
            stack = self._local.stack = []
        return stack

    def compile(self, wrapped: Callable[..., Any], instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Wrap the `compile` of an executor."""
        stack = self._open()
        depth = len(stack)
        flags = RAISED
        try:
            result = wrapped(*args, **kwargs)
            flags = 0
            return result
        finally:
            while len(stack) > depth:
                self.session.recorder.end(stack.pop(), flags)

    def starts(self, wrapped: Callable[..., Any], instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Wrap `_check_recompile`."""
        result = wrapped(*args, **kwargs)
        with self.session.guard("noting a compilation"):
            recorder = self.session.recorder
            what = args[5] if len(args) > 5 else kwargs.get("echo_function_name", "graph")
            self._open().append(recorder.begin(recorder.intern(f"compile {what}"), Category.COMPILE))
        return result


def _run(session: "Session", label: Callable[[Any, tuple[Any, ...]], str]) -> Wrapper:
    """Return a wrapper that records the run of a compiled graph."""
    recorder = session.recorder
    begin, end, intern = recorder.begin, recorder.end, recorder.intern

    def wrapper(wrapped: Callable[..., Any], instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        token = 0
        with session.guard("naming a graph"):
            token = begin(intern(label(instance, args)), Category.GRAPH)
        try:
            result = wrapped(*args, **kwargs)
        except BaseException:
            end(token, RAISED)
            raise
        end(token)
        return result

    return wrapper


def targets(session: "Session") -> list[Target]:
    """Declare what is wrapped around graphs."""
    compilation = Compilation(session)
    return [
        Target(MODULE, "_CellGraphExecutor.compile", compilation.compile),
        Target(MODULE, "_JitExecutor.compile", compilation.compile),
        Target(MODULE, "_check_recompile", compilation.starts),
        Target(MODULE, "_CellGraphExecutor.run", _run(session, lambda self, args: f"graph {type(args[0]).__name__}")),
        Target(
            MODULE,
            "_JitExecutor.__call__",
            _run(session, lambda self, args: f"jit {getattr(self.fn, '__qualname__', type(self.fn).__name__)}"),
        ),
    ]
