import json
import subprocess
import sys

import pytest
from conftest import PROGRAMS, ROOT, environment
from ms_profiler.gate import pytest_plugin

JOB = f"{sys.executable} {PROGRAMS / 'made_job.py'}"
TEST = """\
import pytest

@pytest.mark.perf_smoke({command!r}, "base.json", repeat=1, timeout=60)
def test_training():
    print("the test itself ran")
"""
#: loads the plugin by name, whether the package's entry point is installed or not
PLUGIN = ("-p", "no:ms_profiler", "-p", pytest_plugin.__name__, "-p", "no:cacheprovider", "-p", "no:xdist")


def smoke(folder, command, *words):
    (folder / "test_it.py").write_text(TEST.format(command=command))
    line = [sys.executable, "-m", "pytest", "-rA", "--strict-markers", *PLUGIN, *words, "test_it.py"]
    return subprocess.run(line, cwd=folder, env=environment(), capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_a_test_fails_where_its_command_got_slower(tmp_path):
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    missing = smoke(tmp_path, f"{JOB} 1")
    assert missing.returncode == 1 and "There is no baseline" in missing.stdout
    saved = smoke(tmp_path, f"{JOB} 1", "--perf-smoke-save")
    assert saved.returncode == 0 and "base.json: 1 run, " in saved.stdout
    assert len(json.loads((tmp_path / "base.json").read_text())["runs"]) == 1
    again = smoke(tmp_path, f"{JOB} 1", "--perf-smoke-save")
    assert again.returncode == 0 and "base.json stays as it was: it has 1 run, too few to decide" in again.stdout
    same = smoke(tmp_path, f"{JOB} 1")
    assert same.returncode == 0 and "the test itself ran" in same.stdout
    slower = smoke(tmp_path, f"{JOB} 2")
    assert slower.returncode == 1 and "REGRESSION: Steps take " in slower.stdout
    assert "the test itself ran" not in slower.stdout


def test_the_plugin_imports_the_standard_library_alone(tmp_path):
    program = (
        f"import sys; before = set(sys.modules); import {pytest_plugin.__name__}; "
        "new = {name.split('.')[0] for name in set(sys.modules) - before}; "
        "print(sorted(new - set(sys.stdlib_module_names)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "['ms_profiler']\n"


def test_a_wrong_argument_of_the_marker_is_one_line(tmp_path):
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    source = TEST.replace("timeout=60", "treshold=0.1")
    (tmp_path / "test_it.py").write_text(source.format(command="true"))
    line = [sys.executable, "-m", "pytest", *PLUGIN, "test_it.py"]
    done = subprocess.run(line, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "The marker perf_smoke is wrong: got an unexpected keyword argument 'treshold'." in done.stdout
    assert "perf_smoke(cmd, baseline, repeat=5, threshold=0.05, timeout=600)" in done.stdout
    assert "Traceback" not in done.stdout and "pytest_plugin.py" not in done.stdout.partition("plugins:")[2]


@pytest.mark.parametrize(
    ("message", "named"),
    [
        ("Name --threshold 0.048, or store and gate 9 runs a side with --repeat 9.", ["threshold=0.048,", "repeat=9."]),
        ("allow it more time with --timeout SECONDS.", ["timeout=SECONDS."]),
    ],
)
def test_messages_name_the_arguments_of_the_marker(message, named):
    found = pytest_plugin._by_arguments(message)
    assert all(words in found for words in named) and "--" not in found


def test_it_is_declared():
    entry = f'[project.entry-points.pytest11]\nms_profiler = "{pytest_plugin.__name__}"\n'
    assert entry in (ROOT / "pyproject.toml").read_text()
