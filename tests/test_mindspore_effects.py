"""A compiled graph counts as a forward pass only if it has no gradients and no effect."""

import pytest
from graph_builder import FLOAT32, model, node, tensor
from ms_profiler.job.frameworks.mindspore import effects
from ms_profiler.job.frameworks.mindspore.effects import Effect, Effects

SIZES = tensor(FLOAT32, 4, 8)
LOAD = node("1", "Load", ["w", "u"], SIZES, "Default/Load-op0")
PRODUCT = node("2", "MatMul", ["x", "1"], SIZES, "Default/MatMul-op0")
STATE = node("3", "UpdateState", ["u", "1"], SIZES, "Default/UpdateState-op0")


def with_one_more(*, kind, inputs, full_name):
    return model(LOAD, PRODUCT, STATE, node("4", kind, inputs, SIZES, full_name), parameters=[("w", SIZES)])


@pytest.mark.parametrize(
    ("kind", "inputs", "full_name", "effect"),
    [
        ("Depend", ["2", "3"], "Default/Depend-op0", Effect.FORWARD),
        ("AssignAdd", ["w", "2", "3"], "Default/AssignAdd-op0", Effect.UNKNOWN),  # after the state of the load
        ("AssignAdd", ["w", "2", "u"], "Default/AssignAdd-op0", Effect.UNKNOWN),  # beside the load
        ("AssignAdd", ["global_step", "c", "u"], "Default/AssignAdd-op0", Effect.TRAINS),
        ("AssignAdd", ["train.global_step", "c", "u"], "Default/AssignAdd-op0", Effect.TRAINS),
        ("Gather", ["2", "global_step"], "Default/Gather-op0", Effect.FORWARD),  # a schedule only reads it
        ("AssignAdd", ["global_step_of_mine", "c", "u"], "Default/AssignAdd-op0", Effect.UNKNOWN),
        ("MatMul", ["2", "1"], "Gradients/Default/fc-Dense/Grad_MatMul/MatMul-op0", Effect.UNKNOWN),
        ("Switch", ["2", "a", "b"], "Default/Switch-op0", Effect.UNKNOWN),  # what it calls is not described
        ("", ["2"], "", Effect.UNKNOWN),
    ],
)
def test_effect_of_a_graph(kind, inputs, full_name, effect):
    assert effects.of(with_one_more(kind=kind, inputs=inputs, full_name=full_name)) == effect


def test_a_very_large_description_is_not_read(monkeypatch):
    monkeypatch.setattr(effects, "MOST", 10)
    assert effects.of(with_one_more(kind="Depend", inputs=["2", "3"], full_name="")) == Effect.UNKNOWN


def test_of_several_graphs_of_a_function_the_smallest_effect_counts():
    known = Effects()
    for effect in (Effect.FORWARD, Effect.UNKNOWN, Effect.FORWARD):
        known.compiled(with_one_more, effect)
    assert known.known[id(with_one_more)] == Effect.UNKNOWN
