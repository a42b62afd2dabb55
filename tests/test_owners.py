"""The owners of a backward pass that follow from the order of nodes agree with autograd's own numbers."""

import contextlib
import importlib.util
import sys

import polars as pl
import pytest
from conftest import PROGRAMS
from ms_profiler.analysis.metrics import backward_operators, module_tree
from ms_profiler.analysis.metrics.binding import Bound
from ms_profiler.analysis.model import tables
from ms_profiler.analysis.readers import store, tapes
from ms_profiler.analysis.streams.nesting import nest
from ms_profiler.store.format import Category, Flag

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs PyTorch")

NETWORKS = PROGRAMS / "planted_networks.py"
KINDS = {"module ": Category.MODULE, "backward": Category.BACKWARD, "forward ": Category.FORWARD}


@pytest.fixture(scope="module")
def planted():
    sys.path.insert(0, str(PROGRAMS))
    try:
        import planted_networks

        yield planted_networks
    finally:
        sys.path.remove(str(PROGRAMS))


@contextlib.contextmanager
def watched():
    """Mark calls of modules (by their paths), forward passes and backward passes for PyTorch's profiler."""
    import torch
    from torch import nn

    mark, call, backward = torch.profiler.record_function, nn.Module.__call__, torch.Tensor.backward
    known, depth = {}, [0]

    def name(module):
        if id(module) not in known:
            for path, inner in module.named_modules():
                known.setdefault(id(inner), ".".join(filter(None, [type(module).__name__, path])))
        return known[id(module)]

    def called(module, *args, **kwargs):
        outermost = contextlib.nullcontext() if depth[0] else mark(f"forward {int(torch.is_grad_enabled())}")
        depth[0] += 1
        try:
            with outermost, mark(f"module {name(module)}"):
                return call(module, *args, **kwargs)
        finally:
            depth[0] -= 1

    def backwards(*args, **kwargs):
        with mark("backward"):
            backward(*args, **kwargs)

    nn.Module.__call__, torch.Tensor.backward = called, backwards
    try:
        yield
    finally:
        nn.Module.__call__, torch.Tensor.backward = call, backward


def recorded(step):
    """Return the spans of two steps with autograd's numbers, and the names of the spans."""
    import torch

    with watched():
        step()
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
            step()
            step()
    names, rows = {"": 0}, []
    for event in profiler.profiler.kineto_results.events():
        text, start, number = event.name(), event.start_ns(), event.sequence_nr()
        kind = next((kind for mark, kind in KINDS.items() if text.startswith(mark)), Category.OP)
        arg = 2 * (number + 1) + int(event.fwd_thread_id() > 0) if number >= 0 and kind == Category.OP else 0
        flags = int(Flag.NO_GRADIENTS) if text == "forward 0" else 0
        name = names.setdefault(text.removeprefix("module "), len(names))
        end = start + event.duration_ns()
        rows.append((1, event.start_thread_id(), name, int(kind), flags, False, start, end, arg))
    spans = nest(pl.DataFrame(rows, tables.UNNESTED, orient="row")).select(tables.SPANS.names())
    return spans.with_row_index("row"), pl.Series("name", list(names))


def judged(spans, names, known=()):
    """Compare the owners of nodes by order and by tapes with the owners by autograd's numbers.

    Returns:
        The shares of the nodes' time by outcome: the same module, a module around it, the whole network, unbound,
        wrong.
    """
    numbered = pl.col("category") == int(Category.OP)
    bare = spans.with_columns(arg=pl.when(numbered).then(pl.lit(0, pl.UInt64)).otherwise("arg"))
    bound, true = backward_operators.nodes(bare, names, known), backward_operators.nodes(spans, names)
    known = bound.join(true, on=["thread", "start_ns", "end_ns"], suffix="_true").filter(
        pl.col("bound_true") == Bound.MODULE
    )
    found = {"same": 0, "around": 0, "whole": 0, "unbound": 0, "wrong": 0}
    for row in known.iter_rows(named=True):
        module, truth = row["module"], row["module_true"]
        if row["bound"] == Bound.NOTHING:
            what = "unbound"
        elif module == truth:
            what = "same"
        elif module is not None and truth is not None and truth.startswith(f"{module}."):
            what = "around" if "." in module else "whole"
        else:
            what = "wrong"
        found[what] += row["end_ns"] - row["start_ns"]
    total = sum(found.values())
    assert total
    return {what: time / total for what, time in found.items()}


CLEAR = ("blocks", "transformer", "frozen", "encoder", "twice", "resnet", "recurrent", "experts", "accumulated")


@pytest.mark.parametrize("name", [*CLEAR, "custom", "taught", "rollouts"])
def test_the_order_agrees_with_autograds_numbers(planted, name):
    share = judged(*recorded(planted.step_of(name)))
    assert share["wrong"] <= 0.005 and share["same"] + share["around"] >= 0.8, share


@pytest.mark.parametrize("name", ["alike", "unlike", "adversaries"])
def test_nodes_with_an_ambiguous_order_are_unbound(planted, name):
    """If several losses have separate backward passes, nodes with an ambiguous order stay unbound."""
    assert judged(*recorded(planted.step_of(name)))["wrong"] <= 0.005


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["resnet18", "mobilenetv3_small_050", "vit_tiny_patch16_224", "convnext_atto", "efficientnet_b0"]
)
def test_models_of_timm_are_bound_as_autograds_numbers_say(planted, name):
    if importlib.util.find_spec("timm") is None:
        pytest.skip("needs timm")
    share = judged(*recorded(planted.step_of(f"timm.{name}")))
    print(name, share)
    assert share["wrong"] <= 0.005 and share["same"] + share["around"] >= 0.8, share


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        *("blocks", "transformer", "reentrant", "recomputed", "recurrent", "compiled", "taught"),
        *("alike", "unlike", "adversaries"),
    ],
)
def test_jobs_are_bound_as_the_numbers_of_their_shapes_say(job, name):
    """With shapes, Kineto reports autograd's numbers of three steps, with which the test compares order and graph."""
    run = job(NETWORKS, name, options={"record_shapes": True})
    assert run.code == 0, run.err
    recording = store.read(str(run.result))
    known = tapes.read(recording, recording.processes["process"][0])
    share = judged(recording.spans.with_row_index("row"), recording.names, known)
    assert share["wrong"] <= 0.005
    assert share["same"] + share["around"] + (share["whole"] if name == "compiled" else 0) >= 0.8, share


def test_the_heaviest_module_is_no_optimizer_and_the_other_way_round():
    rows = [("net.0", 5, 5, 0, 10), ("Adam", 0, 0, 20, 20), ("learning rate", 0, 0, 30, 30)]
    names = ("module", "forward_ns", "backward_ns", "optimizer_ns", "self_ns")
    tree = pl.DataFrame(rows, schema=names, orient="row")
    assert module_tree.heaviest(tree, 100, optimizes=False) == ("net.0", 0.1)
    assert module_tree.heaviest(tree, 100, optimizes=True) == ("learning rate", 0.3)
