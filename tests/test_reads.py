"""Reads of tensors by the host are found, with the time in which they keep the host from launching."""

import polars as pl
import pytest
from microseconds import US, phases, shown
from ms_profiler.analysis.metrics import reads
from ms_profiler.analysis.metrics.steps import Steps
from ms_profiler.analysis.model import tables
from ms_profiler.store.format import Category, StepSource

NAMES = pl.Series(["", reads.READ, "Tensor.asnumpy", "Net.head", "aten::item"])
STEPS = Steps(
    1,
    1,
    StepSource.SCRIPT,
    pl.DataFrame(
        [(1, 1, number, number * 10_000 * US, (number + 1) * 10_000 * US, 1, True, "all", 0) for number in range(2)],
        schema=tables.STEPS,
        orient="row",
    ),
)


def spans(*rows):
    """Return a table of spans (name, category, start, end) in microseconds; a fifth value is a thread other than 1."""
    return pl.DataFrame(
        [
            (1, thread[0] if thread else 1, name, category, 0, False, start * US, end * US, 0, 0, None)
            for name, category, start, end, *thread in rows
        ],
        schema=tables.SPANS,
        orient="row",
    )


def test_reads_have_their_step_and_module_and_those_of_samplers_and_optimizers_do_not_count():
    table = spans(
        (3, Category.MODULE, 1000, 3000),
        (4, Category.OP, 2000, 2010),
        (1, Category.OP, 2002, 2004),
        (2, Category.SYNC, 9000, 9100),
        (1, Category.OP, 12_000, 12_001),
        (1, Category.OP, 500, 501),
        (2, Category.SYNC, 9000, 9100, 2),
    )
    pieces = phases((0, "data", 0, 1000), (0, "forward", 1000, 10_000), (1, "optimizer", 10_000, 20_000))
    found = reads.reads(table, NAMES, pieces, STEPS)
    assert found.select("name", "module", "step").rows() == [
        (reads.READ, "Net.head", 0),
        ("Tensor.asnumpy", None, 0),
    ]


def test_a_read_of_a_tensor_counts_once_although_its_operator_is_inside():
    pieces = phases((0, "other", 0, 10_000))
    read = [(2, Category.SYNC, 1000, 1100), (4, Category.OP, 1010, 1090), (1, Category.OP, 1020, 1080)]
    host = [(2, Category.OTHER, 2000, 2010), (4, Category.OP, 2002, 2008), (1, Category.OP, 2003, 2006)]
    found = reads.reads(spans(*read, *host), NAMES, pieces, STEPS)
    assert found["start_ns"].to_list() == [1000 * US]


def test_the_queue_is_empty_between_consecutive_reads():
    pieces = phases((0, "other", 0, 10_000), (1, "other", 10_000, 20_000))
    table = spans(*((1, Category.OP, start, start + 1) for start in (100, 250, 5000, 9990, 10_010, 10_150)))
    none = spans().select("start_ns", "end_ns")
    found = reads.drained(reads.reads(table, NAMES, pieces, STEPS), none, none["start_ns"], pieces)
    # in the gaps from 250 to 5000 and from 5000 to 9990, the host has time to queue something
    assert shown(found) == [(100, 250), (9990, 10_150)]


def test_a_read_that_waited_for_the_last_kernel_leaves_the_device_without_work_until_the_next():
    pieces = phases((0, "other", 0, 10_000))
    table = spans((2, Category.SYNC, 1000, 2000), (2, Category.SYNC, 5000, 5100))
    kernels = pl.DataFrame({"start_ns": [500, 2700, 7000], "end_ns": [1900, 3000, 7100]}) * US
    found = reads.drained(reads.reads(table, NAMES, pieces, STEPS), kernels, kernels["start_ns"].head(0), pieces)
    # no kernel ended during the second read, so it waited for none
    assert shown(found) == [(2000, 2700)]


def test_long_host_work_after_a_read_is_no_wait():
    pieces = phases((0, "other", 0, 20_000))
    table = spans((2, Category.SYNC, 1000, 2000), (2, Category.SYNC, 14_000, 14_100))
    kernels = pl.DataFrame({"start_ns": [500, 12_000], "end_ns": [1900, 12_100]}) * US
    found = reads.drained(reads.reads(table, NAMES, pieces, STEPS), kernels, kernels["start_ns"], pieces)
    assert shown(found) == []


@pytest.mark.parametrize(("operators", "expected"), [(7, [(1000, 2000)]), (4, [(1000, 2000)]), (3, []), (9, [])])
def test_reads_with_few_operators_between_them_keep_a_queue_empty_while_these_can_take_so_long(operators, expected):
    pieces = phases((0, "other", 0, 10_000))
    table = spans((2, Category.SYNC, 1000, 1001), (2, Category.SYNC, 2000, 2001))
    starts = pl.Series([(1100 + place) * US for place in range(operators)])
    none = spans().select("start_ns", "end_ns")
    found = reads.drained(reads.reads(table, NAMES, pieces, STEPS), none, starts, pieces)
    assert shown(found) == expected


def test_the_work_of_the_host_with_values_that_it_read_is_no_wait():
    """A callback reads two copies of each parameter and works with them for 0.3 ms; the device waits for nothing."""
    pieces = phases((0, "other", 0, 10_000))
    copies = ((2, Category.SYNC, start + more, start + more + 20) for start in (1000, 1340, 1680) for more in (0, 25))
    kernels = pl.DataFrame({"start_ns": [500, 4000], "end_ns": [1010, 5000]}) * US
    found = reads.drained(reads.reads(spans(*copies), NAMES, pieces, STEPS), kernels, kernels["start_ns"], pieces)
    # the first read waited for the kernel, but the next kernel comes after the work with the values
    assert shown(found) == [(1000, 1025), (1340, 1365), (1680, 1705)]


def test_the_last_of_consecutive_reads_leaves_the_device_without_work_until_the_next_kernel():
    pieces = phases((0, "other", 0, 10_000))
    table = spans((2, Category.SYNC, 1000, 1020), (2, Category.SYNC, 1025, 1045))
    kernels = pl.DataFrame({"start_ns": [500, 2000], "end_ns": [1010, 5000]}) * US
    found = reads.drained(reads.reads(table, NAMES, pieces, STEPS), kernels, kernels["start_ns"], pieces)
    assert shown(found) == [(1000, 1025), (1045, 2000)]


@pytest.mark.parametrize(("phase", "expected"), [("other", [(1000, 2000)]), ("compute (graph)", [])])
def test_a_compiled_graph_between_two_reads_queues_its_kernels_itself(phase, expected):
    pieces = phases((0, "other", 0, 1200), (0, phase, 1200, 1800), (0, "other", 1800, 10_000))
    table = spans((2, Category.SYNC, 1000, 1020), (2, Category.SYNC, 2000, 2020))
    kernels = pl.DataFrame({"start_ns": range(1300, 1800, 100), "end_ns": range(1310, 1810, 100)}) * US
    found = reads.drained(reads.reads(table, NAMES, pieces, STEPS), kernels, kernels["start_ns"], pieces)
    assert shown(found) == expected


def test_a_read_inside_of_another_one_ends_no_wait():
    pieces = phases((0, "other", 0, 10_000))
    table = spans((2, Category.SYNC, 1000, 2000), (2, Category.SYNC, 1010, 1020), (2, Category.SYNC, 1500, 1510))
    kernels = pl.DataFrame({"start_ns": [500, 2700], "end_ns": [1900, 3000]}) * US
    found = reads.drained(reads.reads(table, NAMES, pieces, STEPS), kernels, kernels["start_ns"].head(0), pieces)
    assert shown(found) == [(1000, 1010), (2000, 2700)]
