"""Graph mode and @jit: what is compiling, why again, and what is running.

`_check_recompile` is what both executors call when they found no compiled graph and are about to make one: there
the compile span begins. It ends with the executor's `compile`. A call that finds its graph records no compile span.
"""

import sys
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import TYPE_CHECKING, Any

from ms_profiler.job.frameworks.base import RAISED, Labels, Target, keep_signature, loaded
from ms_profiler.job.frameworks.mindspore import exchanges
from ms_profiler.job.frameworks.mindspore.recompile import History, Signature, signature
from ms_profiler.store.format import Category

if TYPE_CHECKING:
    from ms_profiler.job.session import Session


@dataclass
class Running:
    """A compilation that has not ended.

    Attributes:
        key: the cell or executor whose `compile` runs.
        thread: that runs it.
        subject: the cell or function.
        executor: of a function; None for a cell.
        token: of the compile span.
        now: what it is compiled for.
    """

    key: Any
    thread: int
    subject: Any
    executor: Any
    token: int
    now: Signature


class Compilation:
    """Record compile spans and recompilations."""

    def __init__(self, session: "Session") -> None:
        self.session = session
        #: of all threads, innermost last; usually empty, which is all that a call that compiles nothing looks at
        self._running: list[Running] = []
        self._history = History()
        self._graphs = exchanges.Graphs(session)
        #: class -> the object of it that was compiled last
        self._latest: dict[type, weakref.ref[Any]] = {}

    def cell(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return the replacement of `_CellGraphExecutor.compile`, which every step calls."""
        running, ended = self._running, self._ended

        def compile(self: Any, obj: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                result = original(self, obj, *args, **kwargs)
            except BaseException:
                ended(obj, RAISED)
                raise
            if running:
                ended(obj, 0, self, result)
            return result

        return keep_signature(original, compile)

    def function(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return the replacement of `_JitExecutor.compile`, which every call calls."""
        running, ended = self._running, self._ended

        def compile(self: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                result = original(self, *args, **kwargs)
            except BaseException:
                ended(self, RAISED)
                raise
            if running:
                ended(self, 0, self, result)
            return result

        return keep_signature(original, compile)

    def _ended(self, key: Any, flags: int, executor: Any = None, result: Any = None) -> None:
        """Note that `compile` of this cell or executor ended on this thread, whether or not it compiled something.

        Args:
            key: cell or executor.
            flags: of the span.
            executor: whose `compile` it was.
            result: of that: MindSpore's name for the graph, and for a cell whether it was compiled.
        """
        thread = threading.get_ident()
        for index in range(len(self._running) - 1, -1, -1):
            running = self._running[index]
            if running.key is key and running.thread == thread:
                del self._running[index]
                if not flags:
                    with self.session.guard("noting why a graph was compiled again"):
                        self._explain(running, running.now)
                self.session.recorder.end(running.token, flags)
                if not flags:
                    with self.session.guard("reading what a graph exchanges"):
                        phase = result[0] if isinstance(result, tuple) else result
                        self._graphs.compiled(executor._graph_executor, phase)
                return

    def checks(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return the replacement of `_check_recompile(obj, compile_args, kwargs, full_function_name, ...)`."""

        def _check_recompile(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            with self.session.guard("noting a compilation"):
                # whose method this is: a function's executor is not among the arguments
                caller = sys._getframe(1).f_locals.get("self")
                if caller is not None:
                    obj, arguments, named, full_name = args[:4]
                    executor = caller if hasattr(caller, "fn") else None
                    self._starts(obj, executor, (*arguments, *named.values()), full_name)
            return result

        return keep_signature(original, _check_recompile)

    def _starts(self, obj: Any, executor: Any, arguments: tuple[Any, ...], full_name: str) -> None:
        subject = obj if executor is None else executor.fn
        phase = getattr(obj, "phase", "") if hasattr(obj, "create_time") else ""
        gradient = executor is not None and f".{_first_line(subject)}.grad" in full_name
        now = signature(arguments, str(phase), gradient)
        recorder = self.session.recorder
        token = recorder.begin(recorder.intern(f"compile {title(subject)}"), Category.COMPILE)
        key = obj if executor is None else executor
        self._running.append(Running(key, threading.get_ident(), subject, executor, token, now))

    def _explain(self, running: Running, now: Signature) -> None:
        subject, executor = running.subject, running.executor
        owner = subject if executor is None else executor.obj
        which, replaces = executor and executor._create_time, True
        if owner is not None:
            # several objects of a class are nothing special, but one that is made anew for each call is
            which = (which, getattr(owner, "create_time", 0), id(owner))
            latest = self._latest.get(type(owner))
            replaces = latest is not None and latest() is None
            try:
                self._latest[type(owner)] = weakref.ref(owner)
            except TypeError:  # a class with __slots__
                replaces = False
        names = _parameters(subject if executor is not None else type(subject).construct)
        why, count = self._history.compiled(_definition(subject), which, now, names, replaces)
        if why:
            recorder = self.session.recorder
            recorder.instant(recorder.intern(f"recompile {title(subject)}: {why}"), Category.COMPILE, count)


def _code_owner(function: Any) -> Any:
    """Return the function behind a bound method."""
    return getattr(function, "__func__", function)


def _first_line(function: Any) -> int:
    return int(_code_owner(function).__code__.co_firstlineno)


def _inner(function: Any) -> Any:
    """Return the user's function or cell inside one that MindSpore made for it, `after_grad` and the like."""
    code = getattr(_code_owner(function), "__code__", None)
    if code is None or "fn" not in code.co_freevars or not _code_owner(function).__module__.startswith("mindspore."):
        return None
    try:
        return function.__closure__[code.co_freevars.index("fn")].cell_contents
    except (AttributeError, ValueError):
        return None


def _definition(subject: Any) -> Any:
    """Return what tells the code of a cell or function from any other code."""
    function = _code_owner(subject)
    if not isinstance(function, FunctionType):
        return type(subject)
    inner = _inner(function)
    if inner is None:
        return function.__code__
    return function.__code__, getattr(_code_owner(inner), "__code__", None) or id(inner)


def _parameters(function: Any) -> tuple[str, ...]:
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    code = getattr(_code_owner(function), "__code__", None)
    if code is None:
        return ()
    names: tuple[str, ...] = code.co_varnames[: code.co_argcount]
    return names[1:] if names[:1] == ("self",) else names


def title(subject: Any) -> str:
    """Name a cell by its class, and a function by its name and, where MindSpore made it, the one it was made for."""
    function = _code_owner(subject)
    if not isinstance(function, FunctionType):
        return type(subject).__name__
    inner = _inner(function)
    if inner is None:
        return function.__qualname__
    return f"{function.__name__} of {title(inner)}"


def _run(session: "Session") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return what makes the replacement of `_JitExecutor.__call__`: compiles if need be, and runs.

    The same of a cell in graph mode is its `__call__`, see `modules`.
    """
    recorder = session.recorder
    begin, end, now = recorder.begin, recorder.end, recorder.now
    labels: Labels[int] = Labels(lambda function: recorder.intern(f"jit {title(function)}"))
    known, category = labels.known, int(Category.GRAPH)

    def left(function: Any) -> None:
        try:
            session.steps.call_ended(id(function), now())
        except Exception as reason:  # noqa: BLE001
            session.failed("marking a call", reason)

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def run(self: Any, *args: Any, **kwargs: Any) -> Any:
            function = _code_owner(self.fn)
            label = known.get(id(function))
            if label is None:
                label = 0
                with session.guard("naming a graph"):
                    label = labels.add(function)
            try:  # no guard: it takes a microsecond, and this is done every step
                session.steps.call_began(now())
            except Exception as reason:  # noqa: BLE001
                session.failed("marking a call", reason)
            token = begin(label, category)
            try:
                result = original(self, *args, **kwargs)
            except BaseException:
                end(token, RAISED)
                left(function)
                raise
            end(token)
            left(function)
            return result

        return keep_signature(original, run)

    return make


def targets(session: "Session") -> list[Target]:
    """Declare what is wrapped around graphs."""
    compilation = Compilation(session)
    module = loaded("mindspore.graph.api", "mindspore.common.api")
    return [
        Target(module, "_CellGraphExecutor.compile", closure=compilation.cell),
        Target(module, "_JitExecutor.compile", closure=compilation.function),
        Target(module, "_check_recompile", closure=compilation.checks),
        Target(module, "_JitExecutor.__call__", closure=_run(session)),
    ]
