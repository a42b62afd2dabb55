"""`ms_profiler.analyse` has MindSpore's signature, and runs the command `ms-profiler analyse`."""

import inspect
import json
import os
import subprocess

import ms_profiler
import pytest
from ms_profiler import log
from ms_profiler.errors import MsProfilerError, UsageError
from store_builder import write_training


def test_the_signature_is_that_of_the_documents():
    parameters = inspect.signature(ms_profiler.analyse).parameters
    assert list(parameters) == ["profiler_path", "max_process_number", "pretty", "step_list", "data_simplification"]
    assert [parameters[name].default for name in ("pretty", "step_list", "data_simplification")] == [False, None, True]


@pytest.fixture
def command(monkeypatch):
    """Return a list that receives, for each started command, the words after `analyse` and the environment."""
    seen = []

    def run(words, env, **_):
        seen.append((words[words.index("analyse") + 1 :], env))
        return subprocess.CompletedProcess(words, 0)

    monkeypatch.setattr(subprocess, "run", run)
    return seen


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, ["--data-simplification", "true"]),
        ({"pretty": True}, ["--pretty", "--data-simplification", "true"]),
        ({"step_list": [3, 2, 4]}, ["--step-list", "2,3,4", "--data-simplification", "true"]),
        ({"max_process_number": 2}, ["--max-process-number", "2", "--data-simplification", "true"]),
        ({"data_simplification": False}, ["--data-simplification", "false"]),
    ],
)
def test_arguments_become_those_of_the_command(command, monkeypatch, arguments, words):
    monkeypatch.setenv("MS_PROFILER_OPTIONS", '{"start": true}')
    ms_profiler.analyse("/data", **arguments)
    ((found, env),) = command
    assert found == ["--in-script", "/data", *words]
    assert "MS_PROFILER_OPTIONS" not in env
    assert env["PATH"] == os.environ["PATH"]


@pytest.mark.parametrize(
    "arguments",
    [{"max_process_number": 0}, {"max_process_number": "2"}, {"max_process_number": True}]
    + [{"step_list": steps} for steps in ([], [1, 3], [1, 1], ["1"], [-1], [True])],
)
def test_wrong_arguments_are_named(command, arguments):
    with pytest.raises(UsageError, match=next(iter(arguments))):
        ms_profiler.analyse("/data", **arguments)
    assert command == []


def test_a_recording_is_analysed(tmp_path):
    pytest.importorskip("polars")
    result = write_training(tmp_path)
    assert not (result / "summary.json").exists()
    ms_profiler.analyse(str(tmp_path), pretty=True)
    assert json.loads((result / "summary.json").read_text())["steps"]["count"] == 20


def test_nothing_to_analyse_is_an_error(tmp_path, capfd, monkeypatch):
    monkeypatch.setattr(log, "_start", os.fstat(2))
    with pytest.raises(MsProfilerError, match="failed with exit code"):
        ms_profiler.analyse(tmp_path)
    assert capfd.readouterr().err.startswith("ms-profiler: ")
