"""A read of a tensor is a wait for a device only if it calls the device's driver."""

from types import SimpleNamespace

import polars as pl
import pytest
from ms_profiler.analysis.readers import host_reads
from ms_profiler.analysis.readers.device_sources import SOURCES
from ms_profiler.store.device_format import Source
from ms_profiler.store.format import Category

#: the steps of process 7 begin at 0, 100, 200 and 300, and thread 1 of it has the native number 11
STEPS = SimpleNamespace(process=7, table=pl.DataFrame({"start_ns": [0, 100, 200, 300]}))
NAMES = ["Tensor.item", "Tensor.asnumpy", "cuda.synchronize"]
THREADS = pl.DataFrame({"process": [7, 7], "thread": [1, 2], "native_tid": [11, 12]}).cast(pl.UInt32)


def settled(spans, calls, source=Source.CUPTI):
    """Return the categories of spans `(name, start, end)` of thread 1 after calls `(native thread, start)`."""
    table = pl.DataFrame(
        {
            "name": [NAMES.index(name) for name, _, _ in spans],
            "category": [int(Category.SYNC)] * len(spans),
            "process": [7] * len(spans),
            "thread": [1] * len(spans),
            "start_ns": [start for _, start, _ in spans],
            "end_ns": [end for _, _, end in spans],
        },
        schema_overrides={"name": pl.UInt32, "category": pl.UInt8, "process": pl.UInt32, "thread": pl.UInt32},
    )
    recording = SimpleNamespace(spans=table, names=pl.Series(NAMES), threads=THREADS)
    called = pl.DataFrame(calls, schema={"native_tid": pl.UInt32, "start_ns": pl.Int64}, orient="row")
    host_reads.settle(recording, STEPS, called, SOURCES[source])
    return [Category(number) for number in recording.spans["category"]]


def test_a_read_with_a_call_of_its_thread_stays_a_wait_and_the_others_do_not():
    spans = [("Tensor.item", 20, 30), ("Tensor.item", 40, 50), ("Tensor.item", 60, 70)]
    calls = [(11, 10), (11, 25), (12, 45), (11, 80)]
    assert settled(spans, calls) == [Category.SYNC, Category.OTHER, Category.OTHER]


def test_a_wait_that_is_no_read_stays_a_wait():
    assert settled([("cuda.synchronize", 20, 30)], [(11, 10), (11, 40)]) == [Category.SYNC]


@pytest.mark.parametrize(
    "calls",
    [[], [(11, 10), (11, 310)], [(11, 10)], [(11, 210)]],
    ids=["none", "a step without calls", "none after it", "none before it"],
)
def test_where_no_calls_were_recorded_a_read_stays_a_wait(calls):
    assert settled([("Tensor.item", 120, 130)], calls) == [Category.SYNC]


def test_where_an_interface_may_not_report_the_calls_of_a_read_it_stays_a_wait():
    assert settled([("Tensor.asnumpy", 20, 30)], [(11, 10), (11, 40)], Source.MSPTI) == [Category.SYNC]
    assert settled([("Tensor.asnumpy", 20, 30)], [(11, 10), (11, 40)]) == [Category.OTHER]
