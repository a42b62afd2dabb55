"""MindSpore's older interface `Profiler` works, with its analysis and its deprecated parts."""

import subprocess
from pathlib import Path

import pytest
from conftest import PROGRAMS, eventually
from guests import OFF
from ms_profiler.store import layout, run_info
from test_api_profile import start

PRINTED = """\
['Profiler: ascend_job_id', 'Profiler: optypes_not_deal']
{'trainable_parameters': 2} {'trainable_parameters': 1}
3
False
{'text': '[1]', 'list': [1]}
True
[[3], [3]]
False
True
True
True
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("names", "way"),
    [("ms_profiler", "variable"), ("ms_profiler", "none"), ("mindspore.profiler", "install")],
)
def test_older_interface(job, tmp_path, names, way):
    if way == "install":
        run = start(job, way, "old_interface.py", names)
    else:
        run = job(PROGRAMS / "old_interface.py", names, profile=way == "variable", env={"MS_PROFILER_RAISE": "1"})
    assert run.code == 0, run.err
    assert run.out == PRINTED
    (later,) = (tmp_path / "later").glob("*_ascend_ms")
    eventually((later / "summary.json").exists)


WRONG = """
import {names} as profiling
profiling.analyse("nothing/here")
profiling.Profiler.offline_analyse("nothing/here")
print("goes on")
"""


@pytest.mark.slow
def test_a_wrong_directory_ends_no_script_that_ran_before(job):
    ours = job(WRONG.format(names="ms_profiler"), profile=False)
    assert ours.code == 1 and "nothing/here" in ours.err
    theirs = job(WRONG.format(names="mindspore.profiler.profiler"))
    assert (theirs.code, theirs.out) == (0, "goes on\n")
    assert theirs.err.count("ms-profiler: nothing/here: No such file or directory.") == 2
    assert "failed" not in theirs.err


IN_A_CHILD = """
import os, mindspore, ms_profiler
pid = os.fork()
if not pid:
    profiler = ms_profiler.Profiler(output_path="child")
    profiler.stop()
    os._exit(4)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


def test_a_fork_child_that_has_recorded_nothing_takes_a_result(guest):
    process = guest.start(IN_A_CHILD, OFF, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, b"4\n")
    assert b"failed" not in err
    (result,) = (guest.folder / "child").glob("*_ascend_ms")
    (folder,) = layout.process_dirs(str(result))
    assert run_info.read_process(f"{folder}/{layout.PROCESS_INFO}").state == "ended"
    assert list(Path(folder).glob("*.seg"))


ELSEWHERE = """
import sys
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
code = '''
import sys
sys.path[:] = %r
import ms_profiler.errors
try:
    ms_profiler.Profiler(output_path="other")
except ms_profiler.errors.StateError as reason:
    print(reason, flush=True)
'''
inner = interpreters.create()
interpreters.run_string(inner, code % sys.path)
interpreters.destroy(inner)
"""


def test_a_profiler_in_another_interpreter_of_the_process_is_refused(job, tmp_path):
    done = job(ELSEWHERE, profile=False)
    refused = "A profiler records only in the main interpreter of a process. Call it there.\n"
    assert (done.code, done.out) == (0, refused), done.err
    assert not (tmp_path / "other").exists()
