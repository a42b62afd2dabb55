"""Steps and callbacks are right in Lightning and transformers' Trainer; steps also in a loop with Accelerate."""

import re

import pytest
from conftest import PROGRAMS

PROGRAM = PROGRAMS / "torch_trainers.py"


def plain(text):
    """Return the lines that the library wrote with 0 in place of each number, because most numbers are times."""
    return [re.sub(r"[-\d.]+", "0", line) for line in text.splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("library", "count", "source", "callback"),
    [
        ("lightning", 12, "framework_loop", ("Waiting.on_train_batch_end", 24)),
        ("transformers", 12, "framework_loop", ("Waiting.on_step_end", 12)),
        ("accelerate", 4, "optimizer_cycle", None),
    ],
)
def test_steps_and_callbacks_are_those_of_the_library(job, library, count, source, callback):
    bare = job(PROGRAM, library, profile=False)
    run = job(PROGRAM, library, options={"quiet": True}, env={"MS_PROFILER_RAISE": "1"})
    assert (run.code, run.out.splitlines()[-1]) == (0, bare.out.splitlines()[-1])
    assert plain(run.err) == plain(bare.err)
    steps = run.summary["steps"]
    assert (steps["count"], steps["source"]) == (count, source)
    phases = run.summary["phases"]
    assert all(phases[name]["total_ms"] for name in ("forward", "backward", "optimizer")), phases
    calls = [(row["callback"], row["count"]) for row in run.summary["callbacks"]]
    assert calls == ([] if callback is None else [callback])
    if callback is not None:
        assert run.summary["verdict"].endswith(f"most of it in callback {callback[0]}."), run.summary["verdict"]
