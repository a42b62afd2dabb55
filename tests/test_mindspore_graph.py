"""What is compiled, and why again."""

import pytest
from conftest import PROGRAMS
from events import events, inside, of
from ms_profiler.job.frameworks.mindspore.recompile import History, differences, signature
from ms_profiler.store.format import Category, Kind

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
    # the number of compilations so far
    assert [cause.arg for cause in causes if cause.name.startswith("recompile pick")] == [2, 3, 4, 5, 6]
    calls = of(found, Category.GRAPH)
    assert calls["jit scale"] == 7 and calls["Net"] == 6


class Tensor:
    def __init__(self, shape, dtype="Float32"):
        self.shape, self.dtype = shape, dtype

    def asnumpy(self):
        raise AssertionError("a value was read")


class Parameter(Tensor):
    def __init__(self, name):
        super().__init__((2,))
        self.name = name


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
        (([[[[1]]]],), ([[[[2]]]],), []),  # deeper than is looked at
        ((1, 2), (1,), ["2 -> 1 arguments"]),
    ],
)
def test_differences_are_told_and_values_are_not(before, after, why):
    assert differences(signature(before), signature(after)) == why


def test_many_differences_are_cut_short():
    history = History()
    history.compiled("f", 1, signature((1, 2, 3, 4, 5)))
    why, count = history.compiled("f", 1, signature((2, 3, 4, 5, 6)))
    assert (why.count("changed"), why.endswith("; 2 more"), count) == (3, True, 2)


def test_what_is_not_seen_is_said_so():
    history = History()
    assert history.compiled("f", 1, signature((1,))) == ("", 1)
    assert history.compiled("f", 1, signature((1,)))[0] == "parameters, hooks or settings, not the arguments"
    assert history.compiled("f", 2, signature((1,)), replaces=False) == ("", 3)
    assert history.compiled("f", 3, signature((1,))) == ("new object", 4)


def test_memory_of_objects_is_bounded():
    history = History()
    for number in range(1000):
        history.compiled("f", number, signature((number,)))
    assert len(history._known["f"].last) == 64
