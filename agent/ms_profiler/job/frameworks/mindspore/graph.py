"""Record compilations, the reasons for repeated compilations, and runs of graphs, in graph mode and with @jit.

MindSpore has one executor for cells and one for functions. The method `compile` of an executor looks for a compiled
graph. If it finds none, it calls `_check_recompile` and compiles the graph. So the span of a compilation begins at the
call of `_check_recompile` and ends when `compile` ends. If `compile` finds a graph, there is no span.

A compiled function may call an optimizer. Each call of such a function is a step, or one part of the cycle of several
such functions. Python does not see the call of the optimizer, so the function is recognized while it is compiled:
MindSpore's parser then requests the method of the optimizer.
"""

import functools
import sys
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FunctionType
from typing import TYPE_CHECKING, Any

from ms_profiler.job.frameworks import base, trees
from ms_profiler.job.frameworks.base import RAISED, Target, loaded
from ms_profiler.job.frameworks.mindspore import compiled
from ms_profiler.job.frameworks.mindspore.effects import Effect, effects
from ms_profiler.job.frameworks.mindspore.modules import TABLE, mode, optimizer_types, training
from ms_profiler.job.frameworks.mindspore.recompile import History, Signature, signature
from ms_profiler.store.format import Category, Flag, Kind, StepSource
from ms_profiler.store.names import EVALUATING

if TYPE_CHECKING:
    from ms_profiler.job.host import Host

#: The outermost cells of the graphs of a compiled function, by their ids. A method has graphs for several objects.
Networks = dict[frozenset[int], tuple[weakref.ref[Any], ...]]


def evaluate(networks: Networks) -> bool:
    """Return whether each graph of a function has an outermost cell in evaluation mode."""
    return bool(networks) and all(any(mode(cell()) is False for cell in cells) for cells in networks.values())


@dataclass
class Running:
    """A compilation of a cell or function that has not ended.

    Attributes:
        key: the object that identifies the compilation: the cell, or the function's executor.
        subject: the cell or function.
        executor: MindSpore's executor of the function; None for a cell.
        token: token of the compilation's span.
        now: the arguments for which the graph is compiled.
        trains: whether the graph calls an optimizer.
        cells: the cells that the parser has read, by their ids.
        inner: the ids of the cells that are part of these cells.
    """

    key: Any
    subject: Any
    executor: Any
    token: int
    now: Signature
    trains: bool = False
    cells: dict[int, Any] = field(default_factory=dict)
    inner: set[int] = field(default_factory=set)


class _Compiling(threading.local):
    def __init__(self) -> None:
        #: compilations of this thread, innermost last
        self.waiting: list[Running] = []


class Compilation:
    """Record each compilation as a span, and the reasons of repeated compilations."""

    def __init__(self, host: "Host") -> None:
        self.host = host
        self._running = _Compiling()
        self._history = History()
        self._graphs = compiled.Graphs(host)
        #: functions whose graphs call an optimizer
        self.training: base.Labels[bool] = base.Labels(lambda function: True)
        self.networks: base.Labels[Networks] = base.Labels(lambda function: {})
        #: class -> the object of this class that was compiled last
        self._latest: base.Labels[weakref.ref[Any]] = base.Labels(weakref.ref)

    def cell(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return the replacement of `_CellGraphExecutor.compile(cell, ...)`, which every step calls."""

        def before(executor: Any, cell: Any, *_: Any, **__: Any) -> tuple[Any, Any]:
            return executor, cell

        return base.around(self.host, "noting the end of a compilation", before, self._ends)(original)

    def function(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return the replacement of `_JitExecutor.compile`, which every call of a @jit function calls."""

        def before(executor: Any, *_: Any, **__: Any) -> tuple[Any, Any]:
            return executor, executor

        return base.around(self.host, "noting the end of a compilation", before, self._ends)(original)

    def _ends(self, call: tuple[Any, Any], result: Any, reason: BaseException | None) -> None:
        """Note that `compile` of an executor ended on this thread, whether or not it compiled a graph.

        Args:
            call: the executor whose `compile` ended, and the key of the compilation: the cell, or else the executor.
            result: MindSpore's name for the graph; for a cell, (this name, whether the graph was compiled).
            reason: the exception that ended `compile`, or None.
        """
        waiting = self._running.waiting
        if not waiting:
            return  # the usual case: `compile` found a compiled graph
        executor, key = call
        if not any(running.key is key for running in waiting):
            return
        while waiting[-1].key is not key:  # a nested compilation is still open, because its end was not reported
            self.host.recorder.end(waiting.pop().token, RAISED)
        running, flags = waiting.pop(), 0 if reason is None else RAISED
        if not flags:
            with self.host.guard("noting why a graph was compiled again"):
                self._explain(running, running.now)
        self.host.recorder.end(running.token, flags)
        if not flags:
            phase = result[0] if isinstance(result, tuple) else result
            owner = running.executor and running.executor.obj
            known = Effect.TRAINS if running.trains else Effect.UNKNOWN
            effect = self._graphs.compiled(executor._graph_executor, running.subject, owner, phase, known)
            self._note_networks(running)
            effects.compiled(trees.function_of(running.subject), effect)
            optimizes = running.executor is not None and not issubclass(type(owner), optimizer_types())
            if optimizes and effect == Effect.TRAINS:
                self.training.add(trees.function_of(running.subject))

    def _note_networks(self, running: Running) -> None:
        """Note the outermost cells of a function. The mode of these cells tells whether a call is an evaluation."""
        outer = {key: weakref.ref(cell) for key, cell in running.cells.items() if key not in running.inner}
        if outer and running.executor is not None:
            function = trees.function_of(running.subject)
            known = self.networks.known.get(id(function)) or self.networks.add(function)
            known[frozenset(outer)] = tuple(outer.values())

    def checks(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return the replacement of `_check_recompile(obj, compile_args, kwargs, full_function_name, ...)`."""

        def before(*args: Any, **_: Any) -> tuple[Any, ...]:
            return args

        def after(args: tuple[Any, ...], result: Any, reason: BaseException | None) -> None:
            # The executor that called `_check_recompile` is not an argument. It is `self` in the frame of the caller.
            caller = sys._getframe(1).f_locals.get("self")
            if reason is None and caller is not None:
                obj, arguments, named, full_name = args[:4]
                executor = caller if hasattr(caller, "fn") else None
                self._starts(obj, executor, (*arguments, *named.values()), full_name)

        return base.around(self.host, "noting a compilation", before, after)(original)

    def parses(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return the replacement of `get_parse_method_of_class(obj, ...)`, which the parser calls for each object."""

        def before(obj: Any, *_: Any, **__: Any) -> None:
            for running in self._running.waiting[-1:]:
                running.trains |= issubclass(type(obj), optimizer_types())
                if TABLE in trees.attributes(obj) and id(obj) not in running.inner:
                    running.cells[id(obj)] = obj
                    running.inner |= {id(cell) for path, cell in trees.walk(obj, TABLE) if path}

        return base.around(self.host, "noting a compiled optimizer", before)(original)

    def _starts(self, obj: Any, executor: Any, arguments: tuple[Any, ...], full_name: str) -> None:
        subject = obj if executor is None else executor.fn
        held = trees.attributes(obj)
        # A script may override a cell's properties `phase` and `create_time`. So read the attributes behind them.
        phase = held.get("_phase", "") if "_create_time" in held else ""
        gradient = executor is not None and f".{_first_line(subject)}.grad" in full_name
        now = signature(arguments, phase if type(phase) is str else "", gradient)
        recorder = self.host.recorder
        token = recorder.begin(recorder.intern(f"compile {title(subject)}"), Category.COMPILE)
        key = obj if executor is None else executor
        self._running.waiting.append(Running(key, subject, executor, token, now))

    def _explain(self, running: Running, now: Signature) -> None:
        subject, executor = running.subject, running.executor
        owner = subject if executor is None else executor.obj
        which, replaces = executor and executor._create_time, True
        if owner is not None:
            # A job may have several objects of a class, and each is compiled once. That is no repeated compilation. But
            # if a new object replaces one that no longer exists, the replacement is the reason for the compilation.
            which = (which, trees.attributes(owner).get("_create_time", 0), id(owner))
            latest = self._latest.known.get(id(type(owner)))
            replaces = latest is not None and latest() is None
            try:
                self._latest.put(type(owner), weakref.ref(owner))
            except TypeError:  # objects of a class with __slots__ allow no weak reference
                replaces = False
        names = _parameters(subject if executor is not None else trees.member(type(subject), "construct"))
        why, count = self._history.compiled(*_definition(subject), which, now, names, replaces)
        if why:
            recorder = self.host.recorder
            recorder.instant(recorder.intern(f"recompile {title(subject)}: {why}"), Category.COMPILE, count)


def _first_line(function: Any) -> int:
    owner = trees.function_of(function)
    return owner.__code__.co_firstlineno if type(owner) is FunctionType else 0


def _inner(function: Any) -> Any:
    """Return the user's function or cell inside a wrapper of MindSpore, for example `after_grad`."""
    made = trees.function_of(function)
    code = getattr(made, "__code__", None)
    if code is None or "fn" not in code.co_freevars or not made.__module__.startswith("mindspore."):
        return None
    try:
        return function.__closure__[code.co_freevars.index("fn")].cell_contents
    except (AttributeError, ValueError):
        return None


def _definition(subject: Any) -> tuple[Any, int]:
    """Return a key for the code of a cell or function: its class or code object, and the id of the user's function.

    The id is 0, except for a function that MindSpore made around a function of the user. All such wrappers share a code
    object, so the id tells them apart.
    """
    function = trees.function_of(subject)
    if type(function) is not FunctionType:
        return type(subject), 0
    inner = _inner(function)
    if inner is None:
        return function.__code__, 0
    made_for = trees.function_of(inner)
    return function.__code__, id(made_for.__code__ if type(made_for) is FunctionType else made_for)


def _parameters(function: Any) -> tuple[str, ...]:
    while (inner := trees.attributes(trees.function_of(function)).get("__wrapped__")) is not None:
        function = inner
    owner = trees.function_of(function)
    if type(owner) is not FunctionType:
        return ()
    names = owner.__code__.co_varnames[: owner.__code__.co_argcount]
    return names[1:] if names[:1] == ("self",) else names


def title(subject: Any) -> str:
    """Return the class of a cell, or the name of a function.

    The name of a function that MindSpore made ends with the user's function: "after_grad of forward".
    """
    function = trees.function_of(subject)
    if type(function) is not FunctionType:
        return trees.kind_name(subject)
    inner = _inner(function)
    if inner is None:
        return function.__qualname__
    return f"{function.__name__} of {title(inner)}"


def _run(host: "Host", trains: dict[int, bool], networks: dict[int, Networks]) -> base.Closure:
    """Return a decorator for `_JitExecutor.__call__`, which compiles a function if necessary, and runs its graph.

    For a cell in graph mode, `Cell.__call__` does both. The module `modules` records its calls.

    Args:
        host: the session.
        trains: the keys are the ids of the functions whose graphs call an optimizer.
        networks: the outermost cells of a function's graphs, by the id of the function.
    """
    recorder, steps = host.recorder, host.steps
    end, now = recorder.end, recorder.now
    labels: base.Labels[int] = base.Labels(lambda function: recorder.intern(f"jit {title(function)}"))
    known, category = labels.known, int(Category.GRAPH)
    evaluates, no_gradients = recorder.intern(EVALUATING), int(Flag.NO_GRADIENTS)

    def before(executor: Any, *_: Any, **__: Any) -> tuple[int, int, int, bool]:
        function = trees.function_of(executor.fn)
        label = known.get(id(function))
        if label is None:
            label = 0
            with host.guard("naming a graph"):
                label = labels.add(function)
        begun, updates = now(), id(function) in trains
        if not updates:
            steps.call_began(begun)
        elif not training.value:
            steps.began(begun)
        return base.begin(recorder, label, category), id(function), begun, updates

    def after(call: tuple[int, int, int, bool], result: Any, reason: BaseException | None) -> None:
        token, function, begun, updates = call
        flags, effect = 0 if reason is None else base.flags_of(reason), Effect.UNKNOWN
        if not training.value:
            effect = effects.known.get(function, effect)
        forward = effect == Effect.FORWARD
        evaluated = forward and evaluate(networks.get(function, {}))
        end(token, flags | (no_gradients if forward and not evaluated else 0))
        ended = now()
        if evaluated:
            recorder.record(Kind.SPAN, Category.FORWARD, flags | no_gradients, evaluates, begun, ended, 0)
        if not updates:
            steps.call_ended(function, ended)
        # If a cell makes this call, the cell's own hook reports the end of the step.
        if function in trains and reason is None and not training.value:
            if not updates:  # this call compiled the function, and so showed that it calls an optimizer
                steps.began(begun)
            steps.turn_ended(StepSource.TRAIN_CELL, function, ended)

    return base.around(host, "recording a graph", before, after)


def targets(host: "Host") -> list[Target]:
    """Return the functions to wrap: those that compile graphs or run them."""
    compilation = Compilation(host)
    module = loaded("mindspore.graph.api", "mindspore.common.api")
    package = loaded("mindspore.graph._parse", "mindspore._extends.parse")
    parses = functools.cache(compilation.parses)  # the same function has two names
    return [
        Target(module, "_CellGraphExecutor.compile", closure=compilation.cell),
        Target(module, "_JitExecutor.compile", closure=compilation.function),
        Target(module, "_check_recompile", closure=compilation.checks),
        *(Target(name, "get_parse_method_of_class", closure=parses) for name in (package, f"{package}.parser")),
        Target(
            module, "_JitExecutor.__call__", closure=_run(host, compilation.training.known, compilation.networks.known)
        ),
    ]
