"""Compiling is the biggest finding if it takes half of the run, or if repeated compiling takes half of the steps."""

import polars as pl
import pytest
from ms_profiler.analysis.metrics import repeated_compiling
from ms_profiler.analysis.metrics.repeated_compiling import Again

SECOND = 10**9
AGAIN = Again({6, 12}, 60, 2 * SECOND, 0.925, 6, "; recompile Net: tensor 'x' size mismatch")


@pytest.mark.parametrize(
    ("compile_ns", "before_ns", "run_ns", "whole", "repeated", "expected"),
    [
        (
            *(41 * SECOND // 10, 5 * SECOND, 6 * SECOND, False, AGAIN),
            "Compiling took 4.1 s of the first 5.0 s of the run; nothing was compiled after that.",
        ),
        # most of it in steps that compiled again
        (
            *(4 * SECOND, 5 * SECOND, 6 * SECOND, False, AGAIN),
            "92 % of the steps' time was spent compiling again, in 2 of 60 steps (the first compilation left out); "
            "recompile Net: tensor 'x' size mismatch.",
        ),
        (4 * SECOND, 499 * SECOND // 100, 5 * SECOND, False, None, "Compiling took 4.0 s of the run of 5.0 s."),
        (SECOND // 2, 0, SECOND, True, None, "Compiling took 500 ms of the run of 1.0 s."),
        (4 * SECOND, 0, 100 * SECOND, False, None, None),
        (
            *(2 * SECOND, 9 * SECOND, 10 * SECOND, False, AGAIN),
            "92 % of the steps' time was spent compiling again, in 2 of 60 steps (the first compilation left out); "
            "recompile Net: tensor 'x' size mismatch.",
        ),
        (2 * SECOND, 9 * SECOND, 10 * SECOND, False, AGAIN._replace(share=0.49), None),
    ],
)
def test_compiling_is_the_finding(compile_ns, before_ns, run_ns, whole, repeated, expected):
    found = repeated_compiling.finding(compile_ns, before_ns, run_ns, whole, repeated)
    assert (None if found is None else found.sentence) == expected
    assert found is None or found.kind == "compile"


def test_the_first_compilation_does_not_count():
    recompiles = pl.DataFrame({"step": [3, 5], "text": ["recompile f"] * 2}, schema_overrides={"step": pl.UInt32})
    found = repeated_compiling.again(recompiles, {0: 400, 3: 100, 5: 300}, pl.Series([400, 50, 50, 120, 30, 350]))
    assert found == Again({3, 5}, 6, 400, 400 / 600, 5, "; 2 times: recompile f")


def test_two_steps_that_compile_are_warm_up():
    none = pl.DataFrame(schema={"step": pl.UInt32, "text": pl.String})
    assert repeated_compiling.again(none, {0: 400, 1: 100}, pl.Series([500, 200, 50])) is None
