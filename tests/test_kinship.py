"""A child of multiprocessing finds the result of the process that started it, without an environment variable."""

import json
import posix
import subprocess
import sys

import pytest
from conftest import ROOT, environment
from guests import OFF
from ms_profiler.job import kinship
from ms_profiler.store import alive, layout, run_info

PARENT = """
import json, os, sys
from ms_profiler.job import kinship

def report():
    print(json.dumps(kinship.find(os.environ)), flush=True)

if __name__ == "__main__":
    import multiprocessing, subprocess
    before = dict(os.environ)
    how, directory = sys.argv[1:3]
    if directory:
        os.makedirs(os.path.join(directory, "FRAMEWORK", f"process_{os.getpid()}"))
        with open(os.path.join(directory, "FRAMEWORK", "run_info.json"), "w") as stream:
            json.dump({"rank": 0, "job": "a"}, stream)
    if "announced" in sys.argv:
        kinship.announce(directory)
    if "replaced" in sys.argv:
        os.unlink(os.path.join(directory, "FRAMEWORK", f"process_{os.getpid()}", "announced"))
    assert dict(os.environ) == before
    os.environ.update(json.loads(os.environ.get("CHILD", "{}")))
    if how == "subprocess":
        code = "import os; from ms_profiler.job import kinship; print(kinship.find(os.environ))"
        subprocess.run([sys.executable, "-c", code], check=True)
    elif how == "grandchild" and os.fork() > 0:
        os.wait()
    else:
        context = multiprocessing.get_context(how.replace("grandchild", "spawn"))
        child = context.Process(target=report)
        child.start()
        child.join()
        raise SystemExit(child.exitcode)
"""


def found(tmp_path, how, *words, directory=None, child=None):
    """Return the fields of the `Parent` that a child of a profiled process finds; None if it finds none."""
    program = tmp_path / "parent.py"
    program.write_text(PARENT)
    directory = str(tmp_path / "a result") if directory is None else directory
    done = subprocess.run(
        [sys.executable, program, how, directory, *words],
        env=environment(PYTHONPATH=str(ROOT / "agent"), CHILD=json.dumps(child or {})),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return json.loads(done.stdout.replace("None", "null"))


def test_the_paths_are_those_of_the_store():
    assert layout.process_dir("", 1) == "FRAMEWORK/process_1" and layout.run_info_path("") == "FRAMEWORK/run_info.json"
    assert (layout.ANNOUNCED, run_info.RunInfo(rank=3).rank) == ("announced", 3)


@pytest.mark.parametrize("how", ["spawn", "forkserver"])
def test_a_child_of_multiprocessing_belongs_to_its_parent(tmp_path, how):
    assert found(tmp_path, how, "announced") == [str(tmp_path / "a result"), 0, "a", how == "forkserver"]


def test_also_when_the_file_is_gone_and_its_name_is_strange(tmp_path):
    """The child finds its parent even if the parent's file has an unusual name and has been removed."""
    strange = str(tmp_path / "line\nbreak (deleted)")
    assert found(tmp_path, "spawn", "announced", "replaced", directory=strange) == [strange, 0, "a", False]


def test_a_parent_that_records_now_and_then(tmp_path):
    assert found(tmp_path, "spawn", "announced", directory="") == ["", 0, "", False]


@pytest.mark.parametrize("how", ["subprocess", "grandchild"])
def test_others_are_jobs_of_their_own(tmp_path, how):
    """Other programs and children of a fork child are separate jobs."""
    assert found(tmp_path, how, "announced") is None


def test_a_parent_that_is_not_profiled(tmp_path):
    assert found(tmp_path, "spawn") is None


def test_a_launcher_s_rank(tmp_path):
    assert found(tmp_path, "spawn", "announced", child={"RANK_ID": "0"})[1:3] == [0, "a"]
    other = str(tmp_path / "another result")
    assert found(tmp_path, "spawn", "announced", directory=other, child={"RANK_ID": "1"}) is None


def test_a_process_without_a_profiled_parent(monkeypatch):
    monkeypatch.setattr(sys, "orig_argv", [*sys.orig_argv, "--multiprocessing-fork"])
    monkeypatch.setattr(posix, "getppid", lambda: 0)
    assert kinship.find({}) is None
    assert alive.parent_of(0) == 0


SHOW = """
import json, os, subprocess, sys
{imports}
native = subprocess.run(["env", "-0"], capture_output=True, check=True).stdout.decode().split("\\0")
print(json.dumps([dict(os.environ), sorted(line for line in native if not line.startswith("_="))]))
"""


def shown(guest, imports, options):
    """Return the environment that a job sees, without the user's variable, in a bare and in a profiled run."""
    found = []
    for profile in False, True:
        process = guest.start(SHOW.format(imports=imports), options, profile, stdout=subprocess.PIPE)
        python, native = json.loads(process.communicate(timeout=120)[0])
        python.pop("MS_PROFILER_OPTIONS", None)
        found.append((python, [line for line in native if not line.startswith("MS_PROFILER_OPTIONS=")]))
    return found


@pytest.mark.parametrize("dynamic", [False, True])
def test_the_environment_is_that_of_a_bare_run(guest, dynamic):
    path = guest.folder / "dynamic.json"
    bare, profiled = shown(guest, "import mindspore", OFF | ({"dynamic": str(path)} if dynamic else {}))
    assert profiled == bare and bare[1]
    assert path.exists() if dynamic else guest.output.exists()


@pytest.mark.slow
@pytest.mark.parametrize("imports", ["import torch", "import mindspore"])
def test_the_environment_with_a_framework_itself(guest, imports):
    guest.real = True
    bare, profiled = shown(guest, imports, OFF)
    assert profiled == bare and guest.output.exists()
