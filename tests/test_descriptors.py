"""The job sees only its own descriptors, and ms-profiler leaves files alone that the job opens later."""

import pytest
from conftest import PROGRAMS


@pytest.mark.slow
@pytest.mark.parametrize("framework", ["torch", "mindspore"])
def test_a_job_that_closes_unknown_descriptors_has_its_files(job, tmp_path, framework):
    runs = []
    for profiled in (False, True):
        folder = tmp_path / str(profiled)
        folder.mkdir()
        program = PROGRAMS / "descriptors.py"
        runs.append(job(program, framework, str(folder), profile=profiled, options={"analyse": "off"}))
    bare, profiled = runs
    assert bare.code == 0 and bare.out.count("begin, end") == 30, bare.err
    assert (profiled.code, profiled.out) == (0, bare.out)
    assert len(profiled.lines) == 2 and len(profiled.err.splitlines()) == 2 + len(bare.err.splitlines())
