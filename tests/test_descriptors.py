"""The job finds only its own descriptors in its process, and files that it opens are left alone."""

import pytest
from conftest import PROGRAMS


@pytest.mark.parametrize("framework", ["torch", pytest.param("mindspore", marks=pytest.mark.slow)])
def test_a_job_that_closes_what_it_does_not_know_keeps_its_files(job, tmp_path, framework):
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
