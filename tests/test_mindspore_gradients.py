"""Forward, backward and recomputation are recorded, whichever function of MindSpore computes the gradient."""

import re

from conftest import PROGRAMS
from events import events, inside, named, of
from ms_profiler.store.format import Category

#: way to compute gradients -> number of forward and of backward passes
PASSES = {
    "value_and_grad": (1, 1),
    "grad": (1, 1),
    "GradOperation": (1, 1),
    "vjp": (1, 1),
    "jvp": (0, 0),  # MindSpore compiles both modes of it
    "second": (2, 2),
    "recompute": (1, 2),  # with reentrance, a backward pass contains another one
    "recompute function": (1, 2),
    "jit": (0, 0),
    "hook": (1, 0),  # a hook of the script runs in the backward pass
}


def test_gradients_of_every_kind_and_their_operators(job):
    run = job(PROGRAMS / "gradients.py", options={"analyse": "off"}, env={"MS_PROFILER_RAISE": "1"})
    assert run.code == 0, run.err
    found = events(run.result)
    markers = {event.name: event for event in found if event.category == Category.MARKER}
    assert markers.keys() == PASSES.keys()

    def within(title, name):
        return [event for event in named(found, name) if inside(event, [markers[title]])]

    with_script = "backward with the script's gradients"
    for title, passes in PASSES.items():
        assert (len(within(title, "forward")), len(within(title, "backward"))) == passes, title
    assert len(named(found, with_script)) == len(within("hook", with_script)) == 1
    assert len(within("jit", "jit compiled")) == len(within("jit", "compile compiled")) == 1
    # one block is recomputed with reentrance and one without; later, one block is recomputed through a function
    assert (len(within("recompute", "recompute Block")), len(within("recompute function", "recompute Block"))) == (2, 1)
    again = named(found, "recompute Block")
    assert all(inside(event, named(found, "backward")) for event in again)
    assert all(event.category == Category.BACKWARD for event in named(found, "recompute forward"))
    # further networks of the same class have a number in their name
    cells = [event for event in found if re.fullmatch(r"Net(#\d+)?\.one\.first", event.name) and inside(event, again)]
    assert len(cells) == 1

    # an operator has the name of its primitive
    operators = of(found, Category.OP)
    assert operators.keys() >= {"MatMul", "BiasAdd", "ReLU", "Pow"}
    # Each ReLU lies between two layers. Without reentrance, recomputation stops before the last bias, whose result
    # nothing needs.
    assert operators["MatMul"] == operators["BiasAdd"] + 1 == 2 * operators["ReLU"]
    modules = [event for event in found if event.category == Category.MODULE]
    assert all(inside(event, modules) for event in named(found, "MatMul"))
