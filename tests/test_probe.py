"""The trial of a tracing interface reports its path and version, or why it cannot be used."""

import json
import subprocess
import sys

import pytest
from conftest import environment
from fakes_built import build_one

LIMITS = "msprof is missing; it turns aclprof's files into tables, so analyse the result on a machine that has it"
PROGRAM = """
import json, sys
from ms_profiler.job.devices import npu
from ms_profiler.job.devices.aclprof import Aclprof
from ms_profiler.job.devices.probe import probe
npu.FOLDER = sys.argv[1]
print(json.dumps(probe(Aclprof())))
"""


@pytest.fixture
def toolkit(tmp_path):
    """Return a toolkit without libraries; beside it is a folder with the device files of two NPUs."""
    (tmp_path / "dev").mkdir()
    for name in ("davinci0", "davinci1", "davinci_manager"):
        (tmp_path / "dev" / name).touch()
    (tmp_path / "cann" / "lib64").mkdir(parents=True)
    (tmp_path / "cann" / "compiler").mkdir()
    (tmp_path / "cann" / "compiler" / "version.info").write_text("Version=8.3.RC1\n")
    return tmp_path / "cann"


def tried(toolkit, devices="dev"):
    """Return the finding about aclprof from a new process, because a loaded library stays loaded."""
    extra = {"PATH": "/usr/bin:/bin", "ASCEND_HOME_PATH": str(toolkit), "FAKE_ACLPROF_LOG": str(toolkit / "log")}
    command = [sys.executable, "-c", PROGRAM, str(toolkit.parent / devices)]
    done = subprocess.run(command, env=environment(**extra), capture_output=True, text=True, timeout=100, check=True)
    return json.loads(done.stdout)


def test_aclprof_is_loaded_and_not_begun(toolkit):
    library = build_one(toolkit / "lib64", "libmsprofiler.so", ["aclprof.c"])
    assert tried(toolkit) == {
        "where": str(library),
        "version": "CANN 8.3.RC1",
        "devices": 2,
        "why": "",
        "limits": LIMITS,
    }
    assert not (toolkit / "log").exists()


def test_with_msprof_it_is_whole(toolkit):
    build_one(toolkit / "lib64", "libmsprofiler.so", ["aclprof.c"])
    (toolkit / "bin").mkdir()
    (toolkit / "bin" / "msprof").touch(0o755)
    assert tried(toolkit)["limits"] == ""


def test_without_a_library_it_names_the_remedy(toolkit):
    why = "there is no aclprof; source CANN's set_env.sh before the job, or install CANN's toolkit"
    assert tried(toolkit) == {"where": "", "version": "", "devices": 2, "why": why, "limits": ""}


def test_without_an_npu_nothing_is_loaded(toolkit):
    library = toolkit / "lib64" / "libmsprofiler.so"
    library.write_text("no library at all")
    found = tried(toolkit, "empty")
    assert found["why"] == f"there is no NPU ({toolkit.parent / 'empty'}/davinci0); install Ascend's driver"
    assert found["where"] == str(library)
