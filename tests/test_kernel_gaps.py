"""The time between two kernels of a graph belongs to the innermost module around both kernels."""

import polars as pl
import pytest
from ms_profiler.analysis.comparison import kernel_gaps

TEXTS = pl.Series(["", "net.blocks.1", "net.blocks.2", "net.blocks.2.up", "net.blocks.20"])
STAGES = {0: "", 1: "forward", 2: "backward"}
#: the calls of the graph
CALLS = pl.DataFrame({"start_ns": [0, 100], "end_ns": [90, 200]})


def between(*kernels, calls=CALLS):
    """Return (module, stage, begin, end) of the gaps between kernels (begin, end, module, part)."""
    schema = {"start_ns": pl.Int64, "end_ns": pl.Int64, "module": pl.UInt32, "part": pl.UInt8}
    table = pl.DataFrame(kernels, schema=schema, orient="row")
    return kernel_gaps.gaps(table, calls, TEXTS, STAGES).rows()


@pytest.mark.parametrize(
    ("modules", "expected"),
    [((2, 2), "net.blocks.2"), ((3, 2), "net.blocks.2"), ((1, 2), "net.blocks"), ((2, 4), "net.blocks"), ((3, 0), "")],
)
def test_the_module_is_the_innermost_one_around_both_kernels(modules, expected):
    first, second = modules
    assert between((10, 20, first, 1), (30, 40, second, 1)) == [(expected, "forward", 20, 30)]


def test_kernels_of_different_stages_have_no_stage_between_them():
    assert between((10, 20, 2, 1), (30, 40, 2, 2)) == [("net.blocks.2", "", 20, 30)]


def test_kernels_of_different_calls_have_nothing_between_them():
    assert between((10, 20, 2, 1), (120, 130, 2, 1)) == []
    assert between((10, 20, 2, 1), (30, 40, 2, 1), calls=CALLS.clear()) == []


def test_a_gap_begins_when_all_kernels_before_it_have_ended():
    assert between((10, 50, 2, 1), (20, 30, 2, 1), (40, 55, 2, 1), (60, 70, 2, 1)) == [
        ("net.blocks.2", "forward", 55, 60)
    ]


def test_a_kernel_of_an_unknown_module_leaves_the_module_unknown():
    assert between((10, 20, None, 1), (30, 40, 2, 1)) == [("", "forward", 20, 30)]
