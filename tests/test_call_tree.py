"""The traced tree of known calls is exact on each CPython of this machine."""

import json
import subprocess
import sys

import pytest
import versions
from conftest import PROGRAMS, ROOT
from ms_profiler import _native

CASES = json.loads((ROOT / "tests" / "baselines" / "call_trees.json").read_text())
PROGRAM = str(PROGRAMS / "call_tree.py")


def calls(python, folder, case):
    """Run a case with a Python; return the number of dropped calls, and a line for each recorded call."""
    name, _, c_calls = case.partition(" ")
    folder.mkdir()
    command = [python, PROGRAM, _native.__file__, str(folder), name, *([c_calls] if c_calls else [])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("case", [case for case in CASES if case != "greenlets"])
def test_known_calls_are_recorded_as_they_were(case, tmp_path):
    assert calls(sys.executable, tmp_path / "store", case) == ["0", *CASES[case]]


def test_a_deep_recursion(tmp_path):
    found = calls(sys.executable, tmp_path / "store", "deep")
    assert found == ["0", "1 2 deep", *(f"1 {depth} falls" for depth in range(3, 3004))]


@pytest.mark.slow
@pytest.mark.parametrize("version", ["3.10", "3.11", "3.12", "3.13", "3.14"])
def test_other_versions_and_greenlets(version, tmp_path):
    python = versions.interpreters().get(version)
    if python is None:
        pytest.skip(f"there is no CPython {version}")
    subprocess.run([python, "-m", "venv", tmp_path / "venv"], check=True)
    inside = str(tmp_path / "venv" / "bin" / "python")
    pip = [inside, "-m", "pip", "--disable-pip-version-check", "install", "-q", "cffi", "greenlet"]
    if subprocess.run(pip, capture_output=True).returncode:
        pytest.skip("cffi and greenlet cannot be installed")
    for case, expected in CASES.items():
        assert calls(inside, tmp_path / case.replace(" ", "-"), case) == ["0", *expected], case
