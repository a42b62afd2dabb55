"""Overridden methods of a script are called as often as in the bare run: hooks do not run them to read its objects."""

import pytest
from conftest import PROGRAMS
from events import events, of
from ms_profiler.store.format import Category

#: modules or cells that have to be in the result; without them, the test would compare two bare runs
RECORDED = {
    "torch": {"OptimizedModule", "Sequential", "Sequential.0", "Sequential.1", "OwnLinear"},
    "mindspore": {"Around.cell"},
}


@pytest.mark.slow
@pytest.mark.parametrize("framework", ["torch", "mindspore"])
def test_no_further_method_of_the_script_is_called_and_no_further_class_stays_alive(job, framework):
    program = PROGRAMS / f"overrides_{framework}.py"
    bare = job(program, profile=False)
    run = job(program, options={"analyse": "off", "quiet": True}, env={"MS_PROFILER_RAISE": "1"})
    assert run.out == bare.out
    assert run.code == bare.code == 0, run.err
    assert [line for line in run.err.splitlines() if not line.startswith("ms-profiler: ")] == bare.err.splitlines()
    assert "nothing ended the job" in bare.err and len(bare.out.splitlines()) > 50
    recorded = of(events(run.result), Category.MODULE)
    assert RECORDED[framework] <= recorded.keys()
