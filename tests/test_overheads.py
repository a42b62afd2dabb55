"""The cost of an optimizer with asynchronous kernels is found in made-up kernels."""

import polars as pl
import pytest
from ms_profiler.analysis.metrics import bounds, overheads
from ms_profiler.analysis.metrics.scopes import Part
from ms_profiler.store.format import Category

FORWARD, OPTIMIZER = int(Part.FORWARD), int(Part.OPTIMIZER)


def table(*rows, name):
    """Return a table from rows (value of the column `name`, begin, end), sorted by begin."""
    return pl.DataFrame(rows, schema=[name, "start_ns", "end_ns"], orient="row").sort("start_ns")


def test_launching_the_kernels_of_an_optimizer_belongs_to_it():
    """Of the first step's 100 ns, the optimizer's kernels take 30, their launches 30, and a sleep 10.

    The last kernel of the second step's optimizer ends in the third step.
    """
    kernels = table(
        *((FORWARD, 0, 20), (OPTIMIZER, 30, 40), (OPTIMIZER, 60, 70), (OPTIMIZER, 90, 100)),
        *((FORWARD, 100, 140), (OPTIMIZER, 180, 190), (OPTIMIZER, 195, 205), (FORWARD, 205, 210)),
        name="part",
    ).with_columns(pl.col("part").cast(pl.UInt8))
    computing = [(bounds.COMPUTING, start, end) for start, end in kernels.select("start_ns", "end_ns").iter_rows()]
    idle = [(20, 30), (40, 60), (80, 90), (140, 180), (190, 195)]
    moments = table(
        *computing, *((bounds.LAUNCH, *times) for times in idle), (bounds.BLOCKED, 70, 80), name="part"
    ).filter(pl.col("start_ns") < 200)
    during = pl.DataFrame({"start_ns": [0, 100], "end_ns": [100, 200]})
    found = overheads.optimizing_beside(moments, kernels, during)
    # The optimizer takes 30 to 100 without the sleep, and 180 to 205. A piece that begins in the steps counts as a
    # whole.
    assert found.share == pytest.approx((60 + 25) / 200)
    assert found.launching == pytest.approx((30 + 5) / 200)
    assert found.per_step == pytest.approx(5 / 2)


def test_kernels_without_an_optimizer_take_nothing_for_one():
    kernels = table((FORWARD, 0, 20), (None, 30, 40), name="part").with_columns(pl.col("part").cast(pl.UInt8))
    moments = table((bounds.COMPUTING, 0, 20), (bounds.LAUNCH, 20, 30), (bounds.COMPUTING, 30, 40), name="part")
    found = overheads.optimizing_beside(moments, kernels, pl.DataFrame({"start_ns": [0], "end_ns": [40]}))
    assert (found.share, found.launching, found.per_step) == (0.0, 0.0, 0.0)
    none = kernels.head(0)
    assert overheads.optimizing_beside(moments, none, pl.DataFrame({"start_ns": [0], "end_ns": [40]})).share == 0.0


def test_sleep_in_an_optimizer_is_not_its_work_and_launching_agrees_with_the_parts():
    """A closure runs a forward pass of 10 ns and sleeps for 60 ns within the optimizer, which has 20 ns of launches."""
    moments = table(
        *((bounds.LAUNCH, 0, 20), (bounds.COMPUTING, 20, 30), (bounds.BLOCKED, 30, 90), (bounds.COMPUTING, 90, 100)),
        name="part",
    ).with_columns(phase=pl.Series(["optimizer", "forward", "optimizer", "optimizer"]))
    during = pl.DataFrame({"start_ns": [0], "end_ns": [100]})
    found = overheads.optimizing(moments, None, during)
    assert (found.share, found.launching) == pytest.approx((0.3, 0.2))
    spans = table((0, 0, 100), (1, 20, 30), (2, 95, 96), name="name").with_columns(
        category=pl.Series([Category.OPTIMIZER, Category.FORWARD, Category.OPTIMIZER], dtype=pl.UInt8)
    )
    names = pl.Series(["LBFGS.step", "forward", "zero_grad"])
    found = overheads.with_caller(found, spans, names, during)
    assert found.longest == 1.0
    assert (found.share, found.name, found.closure) == (pytest.approx(0.3), "LBFGS", True)
    assert not overheads.with_caller(found, spans.filter(pl.col("name") != 1), names, during).closure
