import polars as pl
import pytest
from ms_profiler.analysis.metrics import kernels
from ms_profiler.analysis.metrics.binding import Bound
from ms_profiler.analysis.metrics.scopes import Part
from ms_profiler.analysis.model import tables

NAMES = pl.DataFrame(
    {
        "full_name": ["Default/a-A/Mul-op0", "Default/b-B/Mul-op1", "Add"],
        "type": ["Mul", "Mul", "Add"],
        "core": ["HOST_CPU"] * 3,
    }
)
TEXTS = pl.Series(["", "a", "b"])


def table(*rows):
    """Return a table of kernels from rows (kernel, duration in ns, module, bound, part)."""
    names = ("kernel", "duration_ns", "module", "bound", "part")
    found = pl.DataFrame(rows, schema={name: tables.KERNELS[name] for name in names}, orient="row")
    return found.with_columns(in_step=True)


def sums():
    first = kernels.sum_up(
        table(
            (0, 100, 1, Bound.MODULE, Part.FORWARD),
            (0, 300, 1, Bound.MODULE, Part.FORWARD),
            (1, 50, 2, Bound.MODULE, Part.BACKWARD),
        )
    )
    second = kernels.sum_up(table((0, 20, 1, Bound.MODULE, Part.FORWARD), (2, 530, None, Bound.PHASE, Part.UNKNOWN)))
    return kernels.add_up([first, second])


def test_sums_by_type_name_and_module():
    types = kernels.by_type(sums(), NAMES)
    assert types.drop("ratio", "core", "squares").rows() == [("Add", 1, 530, 530, 530), ("Mul", 4, 470, 20, 300)]
    assert types["ratio"].to_list() == pytest.approx([0.53, 0.47])
    assert kernels.by_name(sums(), NAMES).select("name", "count", "total_ns").rows() == [
        ("Add", 1, 530),
        ("Default/a-A/Mul-op0", 3, 420),
        ("Default/b-B/Mul-op1", 1, 50),
    ]
    # the ratio relates to the time of all kernels, including those without a module
    modules = kernels.by_module(sums(), TEXTS)
    assert modules.drop("ratio", "squares", strict=False).rows() == [("a", 3, 420, 20, 300), ("b", 1, 50, 50, 50)]
    assert modules["ratio"].to_list() == pytest.approx([0.42, 0.05])
    assert kernels.by_part(sums()) == {"forward": 0.00042, "backward": 0.00005}
    assert kernels.by_part(sums(), 5) == {"forward": 0.000084, "backward": 0.00001} and kernels.by_part(sums(), 0) == {}
    assert kernels.bound(sums()) == {"module": 4, "primitive": 0, "phase": 1, "nothing": 0}
    assert kernels.inferred(sums(), Bound.ORDER) == 0
    assert kernels.module_time_share(sums()) == 0.47
    assert kernels.queued(sums()) == {}
    known = sums().filter(pl.col("part") != int(Part.UNKNOWN))
    assert kernels.queued(known) == pytest.approx({"forward": 420 / 470, "backward": 50 / 470})
    inferred = sums().with_columns(bound=pl.lit(int(Bound.ORDER), pl.UInt8))
    assert kernels.bound(inferred)["module"] == kernels.inferred(inferred, Bound.ORDER) == 5
    assert kernels.top(kernels.by_type(sums(), NAMES), 1) == [
        {
            "name": "Add",
            "count": 1,
            "total_ms": 0.00053,
            "average_ms": 0.00053,
            "min_ms": 0.00053,
            "max_ms": 0.00053,
            "ratio": 0.53,
            "scaled": False,
            "count_error": None,
            "total_ms_error": None,
        }
    ]


def test_sums_without_kernels():
    nothing = kernels.sum_up(table())
    assert kernels.by_type(nothing, NAMES).is_empty() and kernels.by_part(nothing) == {}
    assert set(kernels.bound(nothing).values()) == {0}


def test_wait_is_the_gap_to_the_kernel_before_in_the_lane():
    rows = [(0, 100, 50), (1, 110, 5), (0, 160, 10), (0, 165, 20), (1, 120, 5), (0, 170, 1), (0, 200, 5)]
    executions = pl.DataFrame(
        [(lane, start, duration) for lane, start, duration in rows],
        schema={name: tables.KERNELS[name] for name in ("lane", "start_ns", "duration_ns")},
        orient="row",
    )
    # the kernel from 165 to 185 ends after the next one, so the wait before 200 counts from 185
    assert kernels.waits(executions).select("lane", "start_ns", "wait_ns").rows() == [
        (0, 100, 0),
        (0, 160, 10),
        (0, 165, 0),
        (0, 170, 0),
        (0, 200, 15),
        (1, 110, 0),
        (1, 120, 5),
    ]
