"""Compilations are recorded, and repeated ones with their reasons."""

import collections
import gc
import sys
import threading
from types import SimpleNamespace

import pytest
from conftest import PROGRAMS
from events import events, inside, of
from ms_profiler.job.frameworks.mindspore.graph import Compilation
from ms_profiler.job.frameworks.mindspore.recompile import History, differences, signature
from ms_profiler.job.guard import Guard
from ms_profiler.store.format import Category, Kind
from recorders import finish, make

pytest_plugins = ["recorder_fixtures"]

WHY = {
    "recompile scale: argument 1 tensor: shape (2, 3) -> (4, 3)": 1,
    "recompile scale: argument 1 tensor: shape (4, 3) -> (2, 3); argument 1 tensor: dtype Float32 -> Int32": 1,
    "recompile scale: 1 -> 2 arguments": 1,
    "recompile scale: argument 2 factor: type int -> float": 1,
    "recompile pick: argument 2 pair[1]: int changed": 1,
    "recompile pick: argument 2 pair: type list -> tuple": 1,
    "recompile pick: argument 2 pair: 2 -> 3 elements": 1,
    "recompile pick: argument 2 pair: 3 -> 2 elements": 1,
    "recompile pick: argument 2: value of a constant tensor in a tuple": 1,
    "recompile make.<locals>.made: new object": 2,
    "recompile Net: argument 1 x: shape (2, 3) -> (4, 3)": 1,
    "recompile Net: phase train -> predict": 1,
    "recompile Net: new object": 1,
    "recompile after_grad of square: new object": 1,
    "recompile forward: now with gradient": 1,
}
COMPILED = {"scale": 5, "pick": 6, "make.<locals>.made": 3, "Net": 6, "after_grad of square": 2, "forward": 2}


def test_every_compilation_is_a_span_and_every_second_one_has_a_cause(job):
    run = job(PROGRAMS / "recompiles.py", options={"analyse": "off"}, env={"MS_PROFILER_RAISE": "1"})
    assert run.code == 0, run.err
    found = events(run.result)
    compiled = [event for event in found if event.category == Category.COMPILE and event.kind == Kind.SPAN]
    assert of(compiled, Category.COMPILE) == {f"compile {name}": count for name, count in COMPILED.items()}
    causes = [event for event in found if event.category == Category.COMPILE and event.kind == Kind.INSTANT]
    assert of(causes, Category.COMPILE) == WHY
    assert all(inside(cause, compiled) for cause in causes)
    # `arg` is the number of compilations so far
    assert [cause.arg for cause in causes if cause.name.startswith("recompile pick")] == [2, 3, 4, 5, 6]
    calls = of(found, Category.GRAPH)
    # the program makes three networks of one class, which do not all exist at the same time
    nets = sum(count for name, count in calls.items() if name.partition("#")[0] == "Net")
    assert calls["jit scale"] == 7 and nets == 6


class Tensor:
    """A tensor with those properties that MindSpore defines in C++."""

    def __init__(self, shape, dtype="Float32"):
        self.given = shape, dtype

    _shape = property(lambda self: self.given[0])
    dtype = property(lambda self: self.given[1])

    def asnumpy(self):
        raise AssertionError("a value was read")


class Information:
    def __init__(self, name):
        self.given = name

    name = property(lambda self: self.given)


class Parameter(Tensor):
    def __init__(self, name):
        super().__init__((2,))
        self._param_info = Information(name)


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ((1, "a", None), (1, "a", None), []),
        ((1,), (2,), ["argument 1: int changed"]),
        (("secret",), ("other",), ["argument 1: str changed"]),
        ((1,), (None,), ["argument 1: type int -> NoneType"]),
        ((Tensor((2, 3)),), (5,), ["argument 1: type Tensor -> int"]),
        ((Tensor(()),), (Tensor((1,)),), ["argument 1: shape () -> (1,)"]),
        ((Parameter("a"),), (Parameter("b"),), ["argument 1: another Parameter"]),
        (([Tensor((1,))],), ([Tensor((2,))],), ["argument 1[0]: shape (1,) -> (2,)"]),
        (({"a": 1},), ({"b": 1},), ["argument 1: keys of the dict"]),
        (({"a": 1},), ({"a": 2},), ["argument 1[0]: int changed"]),
        (([[[[1]]]],), ([[[[2]]]],), []),  # nested deeper than the comparison looks
        ((1, 2), (1,), ["2 -> 1 arguments"]),
    ],
)
def test_differences_are_named_without_values(before, after, why):
    assert differences(signature(before), signature(after)) == why


class Net:
    """A class whose objects are compiled."""


def test_classes_made_at_run_time_are_not_kept():
    history = History()
    for number in range(10):
        history.compiled(type("Net", (), {}), 0, number, signature((number,)))
    gc.collect()
    assert not history._known.known


def test_many_differences_are_cut_short():
    history = History()
    history.compiled(Net, 0, 1, signature((1, 2, 3, 4, 5)))
    why, count = history.compiled(Net, 0, 1, signature((2, 3, 4, 5, 6)))
    assert (why.count("changed"), why.endswith("; 2 more"), count) == (3, True, 2)


def test_a_cause_that_is_not_visible_is_named_as_such():
    history = History()
    assert history.compiled(Net, 0, 1, signature((1,))) == ("", 1)
    assert history.compiled(Net, 0, 1, signature((1,)))[0] == "parameters, hooks or settings, not the arguments"
    assert history.compiled(Net, 0, 2, signature((1,)), replaces=False) == ("", 3)
    assert history.compiled(Net, 0, 3, signature((1,))) == ("new object", 4)


def test_memory_of_objects_is_bounded():
    history = History()
    for number in range(1000):
        history.compiled(Net, 0, number, signature((number,)))
    assert len(history._known.known[id(Net)][0].last) == 64


def plus():
    """Do nothing, as a function that is compiled."""


def square():
    """Do nothing, as a second function that is compiled."""


class Executor:
    """Compile like MindSpore's `_JitExecutor`: the functions that it calls find it in their caller's frame."""

    def __init__(self, fn, checks):
        self.fn, self.obj, self._create_time, self._graph_executor = fn, None, id(self), None
        self._checks = checks

    def compile(self, inner=None):
        self._checks(None, (self,), {}, "name")
        return "phase" if inner is None else inner()


def test_threads_that_compile_at_the_same_time_end_their_own(folder):
    threads, rounds = 20, 100
    recorder, errors = make("native"), []
    host = SimpleNamespace(
        recorder=recorder, home=None, guard=lambda what: Guard(lambda *reason: errors.append(reason), what)
    )
    compilation = Compilation(host)
    recorder.open(str(folder))
    checks = compilation.checks(lambda *_: None)
    compiled = compilation.function(Executor.compile)
    together = threading.Barrier(threads)

    def compiles():
        outer, inner = (Executor(function, checks) for function in (plus, square))
        together.wait(30)
        try:
            for _ in range(rounds):
                assert compiled(outer, lambda: compiled(inner)) == "phase"
        except Exception as reason:  # noqa: BLE001 - it would have been the job's
            errors.append(reason)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        running = [threading.Thread(target=compiles) for _ in range(threads)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join(60)
    finally:
        sys.setswitchinterval(interval)
    store = finish(recorder, folder)
    assert errors == []
    found = collections.Counter((span.thread, span.name, span.flags) for span in store.spans())
    assert len(found) == 2 * threads and set(found.values()) == {rounds}
    assert {(name, flags) for _, name, flags in found} == {("compile plus", 0), ("compile square", 0)}
