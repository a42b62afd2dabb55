"""The install command of the README installs the command that the README uses next."""

import re
import shlex
import subprocess
import sys

import pytest
from conftest import ROOT, environment

JOB = """
import torch
network = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
for _ in range(8):
    optimizer.zero_grad()
    network(torch.ones(4, 8)).sum().backward()
    optimizer.step()
print("trained")
"""


@pytest.mark.slow
def test_three_commands_of_the_readme_lead_to_a_result(tmp_path):
    """The test uses a new environment and a new checkout, and shares only the framework with this environment."""
    readme = (ROOT / "README.md").read_text()
    (install,) = re.findall(r"^ {4}pip (install '\./ms-profiler.*')$", readme, re.MULTILINE)
    (options,) = re.findall(r"^ {4}export MS_PROFILER_OPTIONS='(.*)'$", readme, re.MULTILINE)
    (summary,) = re.findall(r"^ {4}ms-profiler (summary \S+)", readme, re.MULTILINE)
    subprocess.run(["git", "clone", "-q", ROOT, tmp_path / "ms-profiler"], check=True)
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    # built from the committed sources, because the extension in this environment may be out of date
    subprocess.run([python, "-m", "pip", "-q", *shlex.split(install)], cwd=tmp_path, env=environment(), check=True)
    (packages,) = (tmp_path / "venv").glob("lib/python*/site-packages")
    (framework,) = [entry for entry in sys.path if entry.endswith("site-packages") and str(sys.prefix) in entry]
    (packages / "framework.pth").write_text(f"{framework}\n")
    (tmp_path / "train.py").write_text(JOB)
    done = subprocess.run(
        [python, "train.py"], cwd=tmp_path, env=environment(options), capture_output=True, text=True, check=True
    )
    assert done.stdout == "trained\n"
    shown = subprocess.run(
        [tmp_path / "venv" / "bin" / "ms-profiler", *summary.split()],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert "8 steps" in shown.stdout and "aten::addmm" in shown.stdout
    (tmp_path / "test_nothing.py").write_text("def test_nothing():\n    pass\n")
    tested = subprocess.run(
        [python, "-m", "pytest", "-W", "error", "-p", "no:cacheprovider", "-p", "no:xdist", "test_nothing.py"],
        cwd=tmp_path,
        env=environment(options),
        capture_output=True,
        text=True,
    )
    # pytest must not warn of ms-profiler as of a plugin whose package is imported already
    assert tested.returncode == 0, tested.stdout + tested.stderr
