"""Code that reads, compiles, copies or pickles a replaced function runs as before, and undoing the hooks is exact."""

import pytest
from conftest import PROGRAMS

ENVIRONMENT = {"MS_PROFILER_RAISE": "1"}


def foreign(run):
    """Return the lines on stderr that are not ms-profiler's."""
    return [line for line in run.err.splitlines() if not line.startswith("ms-profiler: ")]


@pytest.mark.slow
def test_captured_compiled_and_copied_code_runs_as_before(job):
    bare = job(PROGRAMS / "captures.py", profile=False)
    run = job(PROGRAMS / "captures.py", options={"analyse": "off"}, env=ENVIRONMENT)
    assert bare.code == 0 and "Error" not in bare.out, bare.err + bare.out
    assert (run.code, run.out.splitlines()) == (0, bare.out.splitlines())
    assert foreign(run) == foreign(bare)
    # the program's numbers show whether a gradient was compiled
    lines = dict(line.rsplit(" ", 1) for line in bare.out.splitlines() if line.startswith("gradient"))
    assert lines["gradient captured"] == lines["gradient compiled"] != lines["gradient pynative"]


def test_undo_restores_every_attribute_of_every_module_and_class(job, tmp_path):
    (tmp_path / "undone").mkdir()
    run = job(PROGRAMS / "hooks_undone.py", str(tmp_path / "undone"), profile=False, env=ENVIRONMENT)
    assert run.code == 0, run.err
    hooked, left = run.out.splitlines()
    assert int(hooked) > 700
    assert left == "[]"
