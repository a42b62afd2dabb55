"""No frame of ms-profiler is on the stack of a job's own code: the job sees the same frames as without it."""

import re

import pytest
from conftest import PROGRAMS

ADDRESS = re.compile(r"0x[0-9a-f]+|<rubric>|\d{4}-\d\d-\d\d-\d\d:\d\d:\d\d[.\d]*|\[\w+\(\d+,[^\]]*\]:?.*")


def plain(text):
    return ADDRESS.sub("...", text).splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("framework", ["torch", "mindspore"])
def test_a_job_sees_the_frames_of_the_bare_run(job, framework):
    program = PROGRAMS / f"frames_{framework}.py"
    bare = job(program, profile=False)
    run = job(program, options={"quiet": True, "exit_timeout": 0}, env={"MS_PROFILER_RAISE": "1"})
    assert "RecursionError" not in bare.out and len(bare.out.splitlines()) > 50
    assert plain(run.out) == plain(bare.out)
    assert run.code == bare.code == 0, run.err
    assert plain(run.err)[1:] == plain(bare.err)
