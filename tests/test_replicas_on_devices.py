"""Buckets of DistributedDataParallel that a GPU exchanges have their group and bytes.

The GPU is made up: the tests load libraries with the vendor's names and interface, but without a device.
"""

import importlib.util
import json

import polars as pl
import pytest
from conftest import PROGRAMS
from fakes_built import (
    fakes,  # noqa: F401
    runner,
)
from ms_profiler.analysis.cluster import exchanged
from ms_profiler.analysis.driver import engine

STEPS = 6


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs PyTorch")
def test_kernels_of_nccl_have_the_bytes_of_the_buckets(job, fakes, tmp_path):  # noqa: F811
    program = PROGRAMS / "replicas_gpu.py"
    run = runner(job, program, fakes, "CUPTI", "libcupti.so.12", tmp_path / "log")(str(STEPS))
    assert run.code == 0, run.err
    truth = json.loads(run.out.splitlines()[-1])
    assert [len(step) for step in truth[2:]] == [len(truth[2])] * (STEPS - 2)
    measures = engine.measured(str(run.result))
    found = exchanged.exchanges(measures).filter(pl.col("step").is_not_null())
    by_step = [found.filter(pl.col("step") == step)["bytes"].to_list() for step in range(STEPS)]
    # The script calls an all-reduce during the second step's backward pass. Only this pass has unknown buckets.
    script = truth[1].index(12)
    unknown = [size if place in (script, len(truth[1]) - 1) else 0 for place, size in enumerate(truth[1])]
    assert by_step == [truth[0], unknown, *truth[2:]]
    assert set(found.filter(pl.col("bytes") > 0)["group"]) == {"0"}
    listed = measures.calls.filter(pl.col("operation") == "AllReduce")
    assert listed["bytes"].to_list() == [size for step in by_step for size in step if size]
    # an exchange takes the time of its kernel
    assert set(listed["end_ns"] - listed["start_ns"]) == {20_000}
