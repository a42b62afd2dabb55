"""Operators that compute within their calls get the right nesting, module and gradient."""

import polars as pl
from ms_profiler.analysis.metrics import host_operators
from ms_profiler.analysis.metrics.operators import self_times
from ms_profiler.analysis.model import tables
from ms_profiler.analysis.streams.nesting import nest
from ms_profiler.store.format import Category

LINEAR, ADDMM, RELU, BACKWARD, MODULE, BLOCK = range(6)


def span(name, start, end, category=Category.OP, thread=1, arg=0):
    return {
        "process": 7,
        "thread": thread,
        "name": name,
        "category": category,
        "flags": 0,
        "unfinished": False,
        "start_ns": start,
        "end_ns": end,
        "arg": arg,
    }


def calls(*spans):
    return host_operators.calls(self_times(nest(pl.DataFrame(spans, schema=tables.UNNESTED))))


def test_operators_in_modules():
    found = calls(
        span(BLOCK, 0, 100, Category.MODULE),
        span(MODULE, 10, 50, Category.MODULE),
        span(LINEAR, 20, 40),
        span(ADDMM, 22, 30),
        span(RELU, 60, 60),
        span(RELU, 60, 70),
        span(BACKWARD, 200, 210),
        span(ADDMM, 25, 35, thread=2),
    )
    assert found.select("thread", "name", "start_ns", "inner", "module", "self_ns").rows() == [
        (1, LINEAR, 20, False, MODULE, 12),
        (1, ADDMM, 22, True, MODULE, 8),
        (1, RELU, 60, False, BLOCK, 10),
        (1, RELU, 60, True, BLOCK, 0),
        (1, BACKWARD, 200, True, None, 10),
        (2, ADDMM, 25, True, None, 10),
    ]


def test_operators_that_work_themselves_are_listed_like_the_innermost_ones():
    """A product of 100 us contains an empty operator. The linear operator around it adds 15 us, and autograd 30 us."""
    names = pl.Series([f"{host_operators.AROUND_NODE}: Mm", "aten::linear", "aten::mm", "aten::resolve_conj"])
    us = 1000
    found = calls(
        span(0, 0, 150 * us),
        span(1, 20 * us, 140 * us),
        span(2, 30 * us, 135 * us),
        span(3, 31 * us, 32 * us),
        span(3, 33 * us, 34 * us),
        span(3, 160 * us, 161 * us),
        span(0, 170 * us, 175 * us),
        span(3, 31 * us, 32 * us, thread=2),
    )
    own = host_operators.listed(found, names).filter("listed")
    assert own.select("name", "self_ns", "wait_ns").rows() == [
        (2, 103 * us, 0),
        (3, us, 0),
        (3, us, 0),
        (3, us, 25 * us),
        (0, 5 * us, 9 * us),
        (3, us, 0),
    ]


def test_gradients_are_of_the_last_operator_with_their_number():
    found = calls(
        span(LINEAR, 0, 50, arg=2 * 4),
        span(ADDMM, 10, 40, arg=2 * 4),
        span(RELU, 60, 70, arg=2 * 5),
        span(BACKWARD, 100, 150, arg=2 * 4 + 1),
        span(BACKWARD, 110, 140, arg=2 * 4 + 1),
        span(RELU, 160, 170),
    )
    ties = host_operators.ties(found)
    assert [(found["start_ns"][a], found["start_ns"][b]) for a, b in ties.iter_rows()] == [(10, 100)]


def test_threads_have_separate_numbers():
    """Two threads use number 3 for themselves. A third thread runs the gradients of 3 and of 4 for another one."""
    found = calls(
        span(LINEAR, 0, 50, arg=2 * 4),
        span(ADDMM, 60, 70, arg=2 * 5),
        span(RELU, 10, 40, arg=2 * 4, thread=2),
        span(BACKWARD, 100, 150, arg=2 * 4 + 1),
        span(BACKWARD, 90, 95, arg=2 * 4 + 1, thread=2),
        span(BACKWARD, 80, 85, arg=2 * 4 + 1, thread=3),
        span(BACKWARD, 110, 120, arg=2 * 5 + 1, thread=3),
    )
    pairs = host_operators.ties(found)
    starts = found["start_ns"]
    assert sorted((starts[a], starts[b]) for a, b in pairs.iter_rows()) == [(0, 100), (10, 90), (60, 110)]


def test_none():
    assert calls(span(BLOCK, 0, 100, Category.MODULE)).is_empty()
    assert host_operators.ties(calls(span(LINEAR, 0, 1))).is_empty()


def test_between_the_operators_of_a_compiled_graph_run_its_own_kernels():
    """One graph of 4 ms has a product of 1 ms, and a view with 10 us of the graph's own code before it.

    The other graph has no operators.
    """
    names = pl.Series(["CompiledFunction", f"{host_operators.GRAPH} fxyz ##", "aten::mm", "aten::view"])
    ms = 1_000_000
    found = calls(
        span(0, 0, 6 * ms),
        span(1, ms, 5 * ms),
        span(2, 2 * ms, 3 * ms),
        span(3, 3 * ms + 10_000, 3 * ms + 11_000),
        span(2, 7 * ms, 8 * ms),
        span(1, 2 * ms, 4 * ms, thread=2),
    )
    fused = host_operators.fused(found, names).sort("start_ns")
    assert fused.rows() == [(ms, 2 * ms), (2 * ms, 4 * ms), (3 * ms + 11_000, 5 * ms)]
    assert host_operators.fused(found.filter(pl.col("name") != 1), names).is_empty()
