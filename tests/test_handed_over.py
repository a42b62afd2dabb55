"""The time of operators that hand exchanges to gloo is communication, and belongs to no module."""

import polars as pl
import pytest
from ms_profiler.analysis.driver import engine
from ms_profiler.analysis.metrics import bounds, overlap
from ms_profiler.store.format import Category
from store_builder import MS, StoreBuilder

STEPS = 4
ENGINE = "autograd::engine::evaluate_function: "
ACCUMULATE = f"{ENGINE}torch::autograd::AccumulateGrad"


@pytest.fixture(scope="module", params=["CPU", "GPU"])
def measures(request, tmp_path_factory):
    """Return the measures of a run whose backward passes exchange gradients for 4 ms on the stepping thread.

    The product of a backward pass takes 3 ms. Gloo's thread exchanges from 1 ms after the begin of the operator until
    2 ms after its end. In the forward pass, a module computes for 3 ms, and calls an exchange that takes 2 ms.
    """
    framework = {"name": "torch", "device": request.param}
    store = StoreBuilder(tmp_path_factory.mktemp("exchange"), rank=0, world_size=2, framework=framework)
    process = store.process()
    thread, gloo = process.thread(), process.thread(2, "gloo", 77)
    for number in range(STEPS):
        start = (50 + 20 * number) * MS

        def span(name, category, begin, end, start=start, arg=0, on=thread):
            on.span(name, category, start + begin * MS, start + end * MS, arg=arg)

        span("forward", Category.FORWARD, 0, 5)
        span("Net", Category.MODULE, 0, 5)
        span("aten::mm", Category.OP, 0, 3, arg=2 * (number + 1))
        span("AllReduce@0", Category.COMMUNICATION, 3, 5, arg=8)
        span("c10d::allreduce_", Category.OP, 3, 4)
        span("backward", Category.BACKWARD, 6, 17)
        span(f"{ENGINE}MmBackward0", Category.OP, 6, 9, arg=2 * (number + 1) + 1)
        span("MmBackward0", Category.OP, 6, 9, arg=2 * (number + 1) + 1)
        span("aten::mm", Category.OP, 6, 9)
        span(ACCUMULATE, Category.OP, 10, 15)
        span("c10d::allreduce_", Category.OP, 10, 14)
        span("gloo:all_reduce", Category.COMMUNICATION, 11, 16, on=gloo)
        thread.step(number, start, start + 19 * MS)
    process.anchor((60 + 20 * STEPS) * MS)
    return engine.measured(str(store.write()))


def test_the_time_belongs_to_no_module_unless_the_module_calls_the_exchange(measures):
    (net,) = measures.ownership.tree.filter(pl.col("module") == "Net").iter_rows(named=True)
    # the backward pass of the module: 3 ms for the product, 1 ms for the rest of the node that adds to the gradient
    steady = STEPS - 1
    assert (net["forward_ns"], net["backward_ns"]) == (steady * 5 * MS, steady * 4 * MS)
    assert measures.ownership.outside_ns == steady * (19 - 5 - 4) * MS


def test_steps_communicate_in_this_time(measures):
    phases = measures.pieces.group_by("phase").agg((pl.col("end_ns") - pl.col("start_ns")).sum())
    in_phase = dict(phases.iter_rows())["communication"]
    if measures.recording.info.framework["device"] != "CPU":  # operators queue exchanges; only the module's call counts
        assert in_phase == STEPS * 2 * MS
        return
    assert in_phase == STEPS * (2 + 4) * MS
    times = overlap.by_step(measures.states)
    assert times.select(
        (pl.col("computing") + pl.col("not_overlapped") + pl.col("free") == pl.col("stage")).all()
    ).item()
    # 3 ms of the module's exchange, then the operator and gloo's thread from 10 ms to 16 ms
    assert times.select("computing", "communication", "overlapped").unique().rows() == [(6 * MS, 8 * MS, 0)]
    shares = measures.diagnosis.shares
    assert shares[bounds.COMPUTING] == pytest.approx(6 / 19) and shares[bounds.COMMUNICATION] == pytest.approx(8 / 19)
    whole = measures.stretches.filter(pl.col("phase") == "communication")
    assert whole.select((pl.col("end_ns") - pl.col("start_ns")).sum()).item() == STEPS * 6 * MS
