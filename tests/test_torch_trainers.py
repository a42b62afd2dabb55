"""Steps are right in Lightning, in transformers' Trainer, and in a script's own loop with Accelerate."""

import re

import pytest
from conftest import PROGRAMS

PROGRAM = PROGRAMS / "torch_trainers.py"


def plain(text):
    """Return the lines that the library wrote with 0 in place of each number, because most numbers are times."""
    return [re.sub(r"[-\d.]+", "0", line) for line in text.splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("library", "count", "source"),
    [
        ("lightning", 12, "framework_loop"),
        ("transformers", 12, "framework_loop"),
        ("accelerate", 4, "optimizer_cycle"),
    ],
)
def test_steps_are_those_of_the_library(job, library, count, source):
    bare = job(PROGRAM, library, profile=False)
    run = job(PROGRAM, library, options={"quiet": True}, env={"MS_PROFILER_RAISE": "1"})
    assert (run.code, run.out.splitlines()[-1]) == (0, bare.out.splitlines()[-1])
    assert plain(run.err) == plain(bare.err)
    steps = run.summary["steps"]
    assert (steps["count"], steps["source"]) == (count, source)
    phases = run.summary["phases"]
    assert all(phases[name]["total_ms"] for name in ("forward", "backward", "optimizer")), phases
