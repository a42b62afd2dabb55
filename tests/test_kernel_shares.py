"""Kernels of steps that were not sampled are shared among modules as in sampled steps, and the sum stays exact."""

import polars as pl
from ms_profiler.analysis.metrics import kernel_shares
from ms_profiler.analysis.metrics.binding import Bound
from ms_profiler.analysis.metrics.scopes import Part

KINDS = {"kernel": pl.UInt32, "module": pl.UInt32, "bound": pl.UInt8, "part": pl.UInt8}
KINDS |= {"in_step": pl.Boolean, "count": pl.UInt64, "total_ns": pl.Int64}
NOTHING, MODULE = int(Bound.NOTHING), int(Bound.MODULE)
FORWARD, BACKWARD, UNKNOWN = int(Part.FORWARD), int(Part.BACKWARD), int(Part.UNKNOWN)
IN, OUT = True, False


def shared(sums, unseen):
    table = pl.DataFrame(sums, schema=KINDS, orient="row")
    found, estimated = kernel_shares.shared(table, pl.DataFrame(unseen, schema=kernel_shares.UNSEEN, orient="row"))
    assert found["total_ns"].sum() == table["total_ns"].sum()
    rows = found.filter(pl.col("total_ns") > 0).select("kernel", "module", "part", "total_ns").rows()
    return sorted(rows, key=str), estimated


def test_a_kernel_is_shared_in_proportion_without_a_rest():
    sums = [(0, 1, MODULE, FORWARD, IN, 1, 1), (0, 2, MODULE, FORWARD, IN, 1, 1)]
    sums += [(0, None, NOTHING, FORWARD, IN, 1, 21)]
    rows, estimated = shared(sums, [(IN, 0, FORWARD, 1, 21)])
    assert sorted(total for *_, total in rows) == [11, 12] and estimated == 21


def test_each_part_of_a_step_is_shared_by_itself():
    sums = [(0, 1, MODULE, FORWARD, IN, 1, 10), (0, 2, MODULE, BACKWARD, IN, 1, 30)]
    sums += [(0, None, NOTHING, BACKWARD, IN, 2, 60)]
    assert shared(sums, [(IN, 0, BACKWARD, 2, 60)]) == ([(0, 1, FORWARD, 10), (0, 2, BACKWARD, 90)], 60)


def test_without_parts_the_kernel_alone_decides():
    sums = [(0, 1, MODULE, FORWARD, IN, 1, 10), (0, 2, MODULE, BACKWARD, IN, 1, 30)]
    sums += [(0, None, NOTHING, UNKNOWN, IN, 4, 80)]
    assert shared(sums, [(IN, 0, None, 4, 80)]) == ([(0, 1, FORWARD, 30), (0, 2, BACKWARD, 90)], 80)


def test_a_kernel_that_no_sampled_step_launched_has_no_module():
    sums = [(0, 1, MODULE, FORWARD, IN, 1, 10), (3, None, NOTHING, FORWARD, IN, 1, 5)]
    assert shared(sums, [(IN, 3, FORWARD, 1, 5)]) == ([(0, 1, FORWARD, 10), (3, None, FORWARD, 5)], 0)


def test_kernels_outside_of_all_steps_keep_their_time_and_change_no_share():
    """If they counted, the module would get only a quarter of the kernel's time in the other steps."""
    sums = [(0, 1, MODULE, FORWARD, IN, 1, 10), (0, None, NOTHING, FORWARD, IN, 3, 30)]
    sums += [(0, None, NOTHING, FORWARD, OUT, 4, 40), (0, None, NOTHING, UNKNOWN, OUT, 2, 20)]
    expected = [(0, 1, FORWARD, 40), (0, None, UNKNOWN, 20), (0, None, FORWARD, 40)]
    assert shared(sums, [(IN, 0, FORWARD, 3, 30)]) == (expected, 30)


def test_modules_that_ran_the_kernel_only_outside_of_the_steps_get_no_share():
    """A network of an evaluation, module 2, runs the same kernel as the network that trains."""
    sums = [(0, 1, MODULE, FORWARD, IN, 1, 10), (0, None, NOTHING, FORWARD, IN, 3, 30)]
    sums += [(0, 2, MODULE, FORWARD, OUT, 9, 90)]
    assert shared(sums, [(IN, 0, FORWARD, 3, 30)]) == ([(0, 1, FORWARD, 40), (0, 2, FORWARD, 90)], 30)
