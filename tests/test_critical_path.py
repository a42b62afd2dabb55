"""The critical paths are those that a person found by hand."""

import polars as pl
import pytest
from microseconds import BOUNDS, US, shown, spans, table
from ms_profiler.analysis.metrics import critical_path


def path(kernels=(), waits=(), host=(), steps=((0, 0, 1000),), moments=None):
    """Return the segments of the critical path as (part, start, end), with all times in microseconds.

    Args:
        kernels: (start, end, launch, whether it is an exchange) of each kernel.
        waits: (start, end) of each wait of the host for the device.
        host: (part, start, end) of the host's work.
        steps: (number, start, end) of each step.
        moments: (part, start, end) of the step's bounds; None without them.
    """
    during = table(steps, step=pl.UInt32, **BOUNDS)
    ran = table(kernels, **BOUNDS, launch_ns=pl.Int64, exchange=pl.Boolean)
    did = table(host, part=pl.String, **BOUNDS)
    known = None if moments is None else table(moments, part=pl.String, **BOUNDS)
    return shown(critical_path.segments(during, ran, spans(*waits), did, known).drop("step"))


def test_a_host_that_computes_itself_is_its_own_path():
    host = [("data", 0, 300), ("computing", 300, 900)]
    assert path(host=host) == [("data", 0, 300), ("computing", 300, 900), ("host", 900, 1000)]


def test_a_read_at_the_end_leads_back_along_the_kernels_to_the_launch_of_the_first():
    # The kernels run without a pause, and the second was launched long before it could start. The exchange overlaps no
    # kernel. The host waits from 200 on.
    kernels = [(150, 500, 120, False), (500, 600, 140, True), (600, 900, 180, False)]
    assert path(kernels, waits=[(200, 950)], host=[("data", 0, 100)]) == [
        ("data", 0, 100),
        ("host", 100, 120),
        ("launch", 120, 150),
        ("computing", 150, 500),
        ("communication", 500, 600),
        ("computing", 600, 900),
        ("sync", 900, 950),
        ("host", 950, 1000),
    ]


def test_a_moment_without_kernels_has_the_same_part_on_the_path_as_in_the_bounds():
    # Nothing waits for the first kernel, so the host's own work is on the path from 100 to 400.
    kernels = [(100, 400, 50, False), (600, 800, 500, False)]
    host = [("data", 0, 200), ("launch", 200, 1000)]
    moments = [("blocked", 0, 100), ("computing", 100, 400), ("sync", 400, 600), ("computing", 600, 800)]
    moments.append(("runnable", 800, 1000))
    assert path(kernels, waits=[(700, 800)], host=host, moments=moments) == [
        ("blocked", 0, 100),
        ("data", 100, 200),
        ("launch", 200, 400),
        ("sync", 400, 600),
        ("computing", 600, 800),
        ("runnable", 800, 1000),
    ]


def test_host_work_beside_a_kernel_is_not_on_the_path():
    # The host's wait for data from 100 to 400 overlaps the kernel for which the host waits later.
    kernels = [(60, 800, 50, False)]
    assert path(kernels, waits=[(500, 800)], host=[("data", 100, 400)]) == [
        ("host", 0, 50),
        ("launch", 50, 60),
        ("computing", 60, 800),
        ("host", 800, 1000),
    ]


def test_a_kernel_that_waited_for_its_launch_leads_to_the_host():
    kernels = [(100, 200, 90, False), (700, 900, 690, False)]
    assert path(kernels, waits=[(750, 900)]) == [
        ("host", 0, 690),
        ("launch", 690, 700),
        ("computing", 700, 900),
        ("host", 900, 1000),
    ]


def test_inside_a_graph_kernels_follow_each_other_without_known_launches():
    kernels = [(250, 400, None, False), (450, 700, None, False)]
    assert path(kernels, waits=[(200, 750)]) == [
        ("host", 0, 200),
        ("launch", 200, 250),
        ("computing", 250, 400),
        ("launch", 400, 450),
        ("computing", 450, 700),
        ("sync", 700, 750),
        ("host", 750, 1000),
    ]


def test_kernels_of_an_earlier_step_are_cut_off_at_the_begin():
    kernels = [(0, 1500, 0, False)]
    steps = [(0, 0, 1000), (1, 1000, 2000)]
    assert path(kernels, waits=[(1200, 1600)], steps=steps) == [
        ("host", 0, 1000),
        ("computing", 1000, 1500),
        ("sync", 1500, 1600),
        ("host", 1600, 2000),
    ]


def test_each_path_adds_up_to_its_step():
    kernels = [(start, start + 30, start - 20, False) for start in range(40, 1900, 100)]
    waits = [(start + 5, start + 31) for start in range(40, 1900, 300)]
    during = table([(0, 0, 1000), (1, 1000, 2000)], step=pl.UInt32, **BOUNDS)
    ran = table(kernels, **BOUNDS, launch_ns=pl.Int64, exchange=pl.Boolean)
    found = critical_path.segments(during, ran, spans(*waits), table([], part=pl.String, **BOUNDS))
    lengths = found.group_by("step").agg((pl.col("end_ns") - pl.col("start_ns")).sum())
    assert lengths["end_ns"].to_list() == [1000 * US] * 2
    assert found["start_ns"].to_list()[1:] == found["end_ns"].to_list()[:-1]
    assert sum(critical_path.shares(found).values()) == pytest.approx(1.0)
    by_step = critical_path.by_step(found)
    assert by_step.select(pl.sum_horizontal(pl.exclude("step"))).to_series().to_list() == [1000 * US] * 2
