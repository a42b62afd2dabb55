"""If MindSpore's kernels cost too much, they are sampled together with operators and modules."""

import importlib.util

import polars as pl
import pytest
from ms_profiler.analysis.driver import engine
from ms_profiler.analysis.metrics import intervals

pytestmark = pytest.mark.skipif(importlib.util.find_spec("mindspore") is None, reason="needs MindSpore")

STEPS = 400
JOB = f"""
import sys
import mindspore as ms
import numpy as np
from mindspore import nn
ms.set_context(mode=ms.GRAPH_MODE if sys.argv[1] == "graph" else ms.PYNATIVE_MODE)
ms.set_seed(1)
net = nn.SequentialCell([nn.Dense(4, 4) for _ in range(6)])
train = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), nn.SGD(net.trainable_params(), 0.01))
x = ms.Tensor(np.ones((2, 4), np.float32))
for _ in range({STEPS}):
    loss = train(x, x)
print(float(loss.asnumpy()).hex())
"""


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["graph"])
def test_kernels_of_late_steps_are_there_and_totals_are_of_all_steps(job, mode):
    bare = job(JOB, mode, profile=False)
    run = job(JOB, mode, options={"overhead_budget": 0.02}, env={"MS_PROFILER_RAISE": "1"})
    assert (run.code, run.out) == (0, bare.out), run.err
    measures = engine.measured(str(run.result))
    table, kernels = measures.steps.table, measures.stream.table
    rows = intervals.locate(kernels["start_ns"], table).drop_nulls().value_counts(name="count")
    found = dict(rows.iter_rows())
    sampled = table["recorded"].arg_true().to_list()
    assert 0 < len(sampled) < STEPS / 2
    assert sampled[-1] > STEPS * 0.6
    assert all(found.get(row, 0) > 0 for row in sampled)
    summary = run.summary
    assert summary["sampling"]["sampled"] == len(sampled)
    (products,) = (row for row in summary["kernels"]["by_type"] if row["name"] == "MatMul")
    each = kernels.filter(pl.col("step") == sampled[-2])
    types = measures.stream.names["type"].gather(each["kernel"])
    assert products["scaled"]
    assert products["count"] == pytest.approx(STEPS * (types == "MatMul").sum(), rel=0.05)
