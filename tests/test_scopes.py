import polars as pl
import pytest
from ms_profiler.analysis.metrics import scopes
from ms_profiler.analysis.metrics.scopes import Part, Scope
from ms_profiler.analysis.model import tables
from ms_profiler.store.format import Category


@pytest.mark.parametrize(
    ("name", "primitive", "module", "kind", "part"),
    [
        ("MatMul", "MatMul", None, None, Part.UNKNOWN),
        ("Default/BiasAdd-op1", "BiasAdd", None, None, Part.UNKNOWN),
        (
            "Default/network-Loss/_backbone-Net/fc-Dense/MatMul-op0",
            "MatMul",
            "network._backbone.fc",
            "Dense",
            Part.FORWARD,
        ),
        (
            "Default/network-Loss/blocks-SequentialCell/0-Block/Add-op1",
            "Add",
            "network.blocks.0",
            "Block",
            Part.FORWARD,
        ),
        (
            "Gradients/Default/network-Loss/_backbone-Net/1-ReLU/Grad_ReLU/ReluGrad-op0",
            "ReluGrad",
            "network._backbone.1",
            "ReLU",
            Part.BACKWARD,
        ),
        ("Default/optimizer-Momentum/AssignAdd-op0", "AssignAdd", "optimizer", "Momentum", Part.OPTIMIZER),
        ("recompute_Default/net-Net/fc-Dense/MatMul-op3", "MatMul", "net.fc", "Dense", Part.RECOMPUTE),
        ("Gradients/recompute_Default/net-Net/Grad_MatMul/MatMul-op3", "MatMul", "net", "Net", Part.BACKWARD),
        ("Expand/_Muls/Mul-op0", "Mul", None, None, Part.UNKNOWN),
        ("Default/net-Net/Custom-Kernel-op12", "Custom-Kernel", "net", "Net", Part.FORWARD),
        ("", "", None, None, Part.UNKNOWN),
    ],
)
def test_names_hold_primitive_module_and_part(name, primitive, module, kind, part):
    scope = Scope.of(name)
    assert (scope.type, scope.module, scope.kind, scope.part) == (primitive, module, kind, part)
    assert scope.expanded == name.startswith("Expand/")


@pytest.mark.parametrize(
    ("primitive", "phase"),
    [
        ("ReluGrad", Category.BACKWARD),
        ("Conv2DBackpropFilter", Category.BACKWARD),
        ("GatherDGradV2", Category.BACKWARD),
        ("StopGradient", None),
        ("ApplyMomentum", Category.OPTIMIZER),
        ("FusedSparseAdam", Category.OPTIMIZER),
        ("SparseApplyAdagrad", Category.OPTIMIZER),
        ("MatMul", None),
        ("Add", None),
    ],
)
def test_some_primitives_occur_in_one_phase_only(primitive, phase):
    assert Scope.of(f"Default/{primitive}-op0").phase == phase


def runs(*kernels):
    """Return (depth, scope, start, end) of each run of kernels (name, start, end, step) with the same scope."""
    names = list(dict.fromkeys(name for name, *_ in kernels))
    table = pl.DataFrame(
        [
            {"lane": 0, "kernel": names.index(name), "step": step, "start_ns": start, "duration_ns": end - start}
            for name, start, end, step in kernels
        ],
        schema={name: tables.KERNELS[name] for name in ("lane", "kernel", "step", "start_ns", "duration_ns")},
    )
    scope = [name.rpartition("/")[0] for name in names]
    return scopes.runs(table, pl.DataFrame({"scope": pl.Series(scope, dtype=pl.String)})).rows()


def test_consecutive_kernels_of_a_scope_are_one_run():
    found = runs(
        ("Default/net-Net/a-Dense/MatMul-op0", 0, 10, 0),
        ("Default/net-Net/a-Dense/BiasAdd-op0", 20, 30, 0),
        ("Default/net-Net/b-ReLU/ReLU-op0", 40, 50, 0),
        ("Default/net-Net/Add-op0", 60, 70, 0),
        ("Mul", 72, 74, 0),
        ("Expand/_Muls/Mul-op0", 75, 78, 0),
        ("Default/net-Net/a-Dense/MatMul-op0", 80, 90, 0),
    )
    assert found == [
        (0, "Default", 0, 90),
        (1, "net-Net", 0, 90),
        (2, "a-Dense", 0, 30),
        (2, "b-ReLU", 40, 50),
        (2, "a-Dense", 80, 90),
    ]


def test_runs_end_with_their_step_and_do_not_overlap():
    found = runs(
        ("Default/a-A/x-op0", 0, 10, 0),
        ("Default/a-A/x-op0", 20, 30, 1),
        ("Default/b-B/x-op0", 25, 40, 1),
        ("Default/a-A/x-op0", 35, 60, None),
    )
    assert found == [
        (0, "Default", 0, 10),
        (0, "Default", 20, 35),
        (0, "Default", 35, 60),
        (1, "a-A", 0, 10),
        (1, "a-A", 20, 25),
        (1, "b-B", 25, 35),
        (1, "a-A", 35, 60),
    ]


def test_runs_without_kernels():
    assert runs() == [] == runs(("MatMul", 0, 10, 0))
