"""In a real backward pass, autograd's numbers tell the module of each node, also where some results are not used."""

import importlib.util

import polars as pl
import pytest
from conftest import PROGRAMS
from ms_profiler.analysis.driver import engine
from ms_profiler.analysis.metrics import backward_operators
from ms_profiler.analysis.metrics.binding import Bound

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs PyTorch")

STEPS = 12
LAYERS = ["Sequential.0", "Sequential.1.layer", "Sequential.2"]


@pytest.fixture(scope="module")
def nodes(launch):
    run = launch(PROGRAMS / "torch_discarded.py", options={"overhead_budget": 0})
    measures = engine.measured(str(run.result))
    spans = measures.recording.spans.with_row_index("row").filter(pl.col("process") == measures.steps.process)
    return backward_operators.nodes(spans, measures.recording.names)


def test_each_layer_has_its_nodes_and_no_other(nodes):
    known = nodes.filter(pl.col("bound") == int(Bound.MODULE))
    counts = dict(known.group_by("module").len().drop_nulls("module").iter_rows())
    assert sorted(counts) == LAYERS
    assert len(set(counts.values())) == 1 and counts[LAYERS[0]] >= 2 * STEPS, "AddmmBackward0 and TBackward0"


def test_no_node_is_assigned_by_order_to_another_module(nodes):
    """A node that adds to a parameter's gradient has no number; it belongs to the module of the node before it."""
    by_order = nodes.filter(pl.col("bound") == int(Bound.ORDER))
    counts = dict(by_order.group_by("module").len().iter_rows())
    assert sorted(counts) == LAYERS and len(set(counts.values())) == 1
