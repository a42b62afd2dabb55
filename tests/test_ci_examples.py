"""The commands in the examples for CI pipelines run unchanged."""

import argparse
import os
import re
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from conftest import PROGRAMS, ROOT, environment
from ms_profiler.cli import gate

FOLDER = ROOT / "examples" / "ci"


def commands(text):
    """Return the commands of a workflow's steps, in the order of the file."""
    found = re.findall(r"^( +)(?:- )?run: (?:\|\n((?:\1 +.*\n)+)|(.*)\n)", text, re.MULTILINE)
    return [textwrap.dedent(block) if block else line for _, block, line in found]


def repository(folder, base, new):
    """Make a clone with two branches, `main` and `change`, whose jobs have steps of these relative lengths."""

    def git(*words):
        identity = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main")
        subprocess.run(["git", *identity, *words], cwd=folder / "origin", check=True, capture_output=True)

    (folder / "origin").mkdir()
    git("init")
    job = (PROGRAMS / "made_job.py").read_text()
    for branch, factor in (("main", base), ("change", new)):
        git("checkout", "-b", branch)
        (folder / "origin" / "train.py").write_text(job.replace("sys.argv[1]", repr(str(factor))))
        (folder / "origin" / "requirements.txt").write_text("")
        git("add", ".")
        git("commit", "--allow-empty", "-m", branch)
    subprocess.run(
        ["git", "clone", "-q", "-b", "change", "origin", "work"], cwd=folder, check=True, capture_output=True
    )
    return folder / "work"


@pytest.mark.parametrize(("new", "code"), [pytest.param(1.0, 0, marks=pytest.mark.slow), (1.3, 1)])
def test_the_workflow_of_github(tmp_path, new, code):
    work = repository(tmp_path, 1.0, new)
    tools = tmp_path / "tools"
    tools.mkdir()
    # scripts that replace commands of the pipeline's machine; the one for pip only notes its arguments
    for name, line in {"pip": f'echo "$@" > {tmp_path}/installed', "python": f'exec {sys.executable} "$@"'}.items():
        (tools / name).write_text(f"#!/bin/sh\n{line}\n")
    (tools / "ms-profiler").write_text(f'#!/bin/sh\nexec {sys.executable} -m ms_profiler "$@"\n')
    for tool in tools.iterdir():
        tool.chmod(0o755)
    path = f"{tools}:{os.environ['PATH']}"
    summary = tmp_path / "summary.md"
    env = environment(PATH=path, GITHUB_BASE_REF="main", GITHUB_ACTIONS="true", GITHUB_STEP_SUMMARY=str(summary))
    lines = commands((FOLDER / "github.yml").read_text())
    assert len(lines) == 3
    codes = []
    for line in lines:
        done = subprocess.run(
            ["bash", "-e", "-c", line], cwd=work, env=env, capture_output=True, text=True, check=False
        )
        codes.append(done.returncode)
    assert codes == [0, 0, code], done.stdout + done.stderr
    assert "ms-profiler[analysis]" in (tmp_path / "installed").read_text()
    assert ("::error" in done.stdout) == bool(code)
    assert "### ms-profiler gate" in summary.read_text()
    assert (work / "gate.xml").exists() and len(list((work / "runs").iterdir())) == 10


@pytest.mark.parametrize("name", ["github.yml", "gitlab.yml", "kubernetes.yml"])
def test_the_options_of_each_example_are_those_of_the_command(name):
    text = (FOLDER / name).read_text()
    parser = argparse.ArgumentParser()
    gate.add_arguments(parser)
    known = {option for action in parser._actions for option in action.option_strings}
    used = set(re.findall(r"(?<![\w-])--[a-z-]+", text)) - {"--from-file"}
    assert used and used <= known


def test_each_example_is_named_by_the_page():
    page = (ROOT / "docs" / "gate.md").read_text()
    assert all(f"examples/ci/{path.name}" in page for path in Path(FOLDER).iterdir())
    assert shlex.split(page.split("\n    ")[1].partition("\n")[0])[:2] == ["ms-profiler", "gate"]
