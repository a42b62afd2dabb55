"""`ms-profiler run` sets the environment of the command, and becomes the command."""

import argparse
import json
import os
import signal
import subprocess
import sys

import pytest
from conftest import ROOT, environment, eventually
from guests import STAND_INS
from ms_profiler.cli import run as command, watcher
from ms_profiler.errors import UsageError

SITE = str(ROOT / "sitecustomize")
CLI = "import sys; sys.path.insert(0, sys.argv.pop(1)); from ms_profiler.cli import main; sys.exit(main())"


def ms_profiler(*words, variable=None, cwd=None, **extra):
    """Run the command line of this checkout, not that of an installed version; return the finished process."""
    return subprocess.run(
        [sys.executable, "-c", CLI, str(ROOT / "agent"), *map(str, words)],
        env=environment(variable, **extra),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=cwd,
    )


def parsed(*words):
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return parser.parse_args(words)


SHOW = "import json, os; print(json.dumps([os.environ['MS_PROFILER_OPTIONS'], os.environ['PYTHONPATH']]))"


@pytest.mark.parametrize("separator", [[], ["--"]])
def test_the_command_sees_the_variable_and_the_path(separator):
    words = ["--output-path", "/data", "--option", "quiet=true", *separator, sys.executable, "-c", SHOW]
    done = ms_profiler("run", *words)
    options, path = json.loads(done.stdout)
    assert json.loads(options) == {"start": True, "output_path": "/data", "quiet": True}
    assert path == SITE
    assert (done.returncode, done.stderr) == (0, "")


def test_the_command_keeps_its_own_arguments():
    program = "import sys; print(sys.argv[1:])"
    done = ms_profiler("run", sys.executable, "-c", program, "--output-path", "x", "--", "--option", "y")
    assert done.stdout == "['--output-path', 'x', '--', '--option', 'y']\n"


def test_it_is_the_command_that_runs():
    done = ms_profiler("run", "--", "sh", "-c", "echo $PPID; exit 7")
    assert done.returncode == 7
    assert int(done.stdout) == os.getpid()
    assert ms_profiler("run", "--", "sh", "-c", "kill -9 $$").returncode == -9


def test_the_profiler_waits_in_the_command():
    program = "import sys; print('ms_profiler.job.bootstrap' in sys.modules)"
    assert ms_profiler("run", "--", sys.executable, "-c", program).stdout == "True\n"


def test_a_run_inside_a_run_is_one(tmp_path):
    inner = [sys.executable, "-c", CLI, ROOT / "agent", "run", "--option", "quiet=true", sys.executable, "-c", SHOW]
    done = ms_profiler("run", "--output-path", tmp_path, "--option", "quiet=false", *inner, PYTHONPATH="/own")
    options, path = json.loads(done.stdout)
    assert json.loads(options) == {"start": True, "output_path": str(tmp_path), "quiet": True}
    assert path == f"{SITE}{os.pathsep}/own"
    program = "import sys; print(sum(type(f).__module__.endswith('.import_hook') for f in sys.meta_path))"
    inner[-1] = program
    assert ms_profiler("run", *inner).stdout == "1\n"


@pytest.mark.parametrize("name", ["no-such-command", "/dev/null/command"])
def test_a_command_that_is_not_there(name):
    done = ms_profiler("run", "--", name)
    assert (done.returncode, done.stdout) == (127, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"ms-profiler: Cannot run {name}: ")


def test_a_command_that_cannot_be_executed(tmp_path):
    (tmp_path / "program").write_text("text")
    assert ms_profiler("run", "--", tmp_path / "program").returncode == 126


@pytest.mark.parametrize("words", [[], ["--"], ["--output-path", "x"]])
def test_no_command(words):
    done = ms_profiler("run", *words)
    assert done.returncode == 2
    assert "No command to run" in done.stderr


@pytest.mark.parametrize("text", ["quiet", "=1", ""])
def test_an_option_that_is_none(text):
    with pytest.raises(UsageError, match="KEY=VALUE"):
        command.options_of(parsed("--option", text, "x"))


def test_values_of_options():
    given = ["quiet=true", "exit_timeout=5", 'schedule={"active": 2}', "ranks=0-7", "output_path=a=b", "analyse="]
    words = [word for text in given for word in ("--option", text)]
    assert command.options_of(parsed(*words, "x")) == {
        "quiet": True,
        "exit_timeout": 5,
        "schedule": {"active": 2},
        "ranks": "0-7",
        "output_path": "a=b",
        "analyse": "",
    }


@pytest.mark.parametrize(
    ("present", "expected"),
    [
        (None, {"start": True, "quiet": True}),
        ("", {"start": True, "quiet": True}),
        ('{"start": false, "report": true}', {"start": False, "report": True, "quiet": True}),
        ('{"quiet": false}', {"start": True, "quiet": True}),
    ],
)
def test_the_arguments_win_over_the_variable(present, expected):
    environ = {} if present is None else {command.VARIABLE: present}
    command.set_options(environ, {"quiet": True})
    assert json.loads(environ[command.VARIABLE]) == expected


@pytest.mark.parametrize("present", ["[1]", "not json", "1", "null", "[" * 100_000])
def test_a_variable_that_is_no_object_is_refused(present):
    environ = {command.VARIABLE: present}
    with pytest.raises(UsageError, match="no JSON object"):
        command.set_options(environ, {})
    assert environ == {command.VARIABLE: present}


@pytest.mark.parametrize(
    ("present", "expected"),
    [
        (None, ["/s"]),
        ("", ["/s"]),
        ("/a", ["/s", "/a"]),
        ("/a:/s:/b:/s", ["/s", "/a", "/b"]),
        ("/s::/a", ["/s", "", "/a"]),
    ],
)
def test_the_path_holds_our_directory_once_and_first(present, expected):
    environ = {} if present is None else {"PYTHONPATH": present.replace(":", os.pathsep)}
    command.set_path(environ, "/s")
    assert environ["PYTHONPATH"] == os.pathsep.join(expected)


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGSEGV, marks=pytest.mark.slow)])
def test_the_signal_that_ended_a_job_is_recorded(tmp_path, number):
    program = f"import mindspore, os; os.kill(os.getpid(), {int(number)})"
    words = ["--output-path", tmp_path, "--", sys.executable, "-c", program]
    assert ms_profiler("run", *words, PYTHONPATH=STAND_INS).returncode == -number
    (result,) = tmp_path.glob("*_ascend_ms")
    eventually(lambda: list(result.glob("FRAMEWORK/process_*/exit_status")))
    assert ms_profiler("analyse", result).returncode == 0
    (process,) = json.loads((result / "summary.json").read_text())["run"]["processes"]
    assert process["state"] == f"killed by {number.name}"
    assert f"killed by {number.name}" in ms_profiler("summary", result).stdout


def test_a_job_that_leaves_without_python_s_exit_has_its_code_recorded(tmp_path):
    """The watcher finds the exit code even if the job is a process below the command, as a launcher's ranks are."""
    rank = f"import mindspore, os, time; time.sleep({2 * watcher._INTERVAL}); os._exit(3)"
    below = f"import subprocess, sys; sys.exit(subprocess.run([sys.executable, '-c', {rank!r}]).returncode + 1)"
    words = ["--output-path", tmp_path, "--", sys.executable, "-c", below]
    assert ms_profiler("run", *words, PYTHONPATH=STAND_INS).returncode == 4
    (result,) = tmp_path.glob("*_ascend_ms")
    eventually(lambda: list(result.glob("FRAMEWORK/process_*/exit_status")))
    assert ms_profiler("analyse", result).returncode == 0
    (process,) = json.loads((result / "summary.json").read_text())["run"]["processes"]
    assert process["state"] == "exit code 3, without Python's exit"


def test_a_job_that_exits_has_its_exit_code(tmp_path):
    words = ["--output-path", tmp_path, "--", sys.executable, "-c", "import mindspore, sys; sys.exit(3)"]
    assert ms_profiler("run", *words, PYTHONPATH=STAND_INS).returncode == 3
    (result,) = tmp_path.glob("*_ascend_ms")
    (process,) = json.loads((result / "summary.json").read_text())["run"]["processes"]
    assert process["state"] == "exit code 3"
