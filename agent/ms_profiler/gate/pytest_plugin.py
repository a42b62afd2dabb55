"""The pytest marker `perf_smoke(cmd, baseline)`: a test with it fails if the command is slower than the baseline says.

Every run of pytest loads this module, so it must load quickly. Until a test with the marker runs, it imports only the
standard library.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

MARKER = "perf_smoke"
SAVE = "--perf-smoke-save"
_LINE = (
    f"{MARKER}(cmd, baseline, repeat=5, threshold=0.05, timeout=600): fail if `cmd` got slower than the "
    "baseline in the file `baseline`, which `ms-profiler gate --save` wrote; skip if the runs are inconclusive; `cmd` "
    "runs in pytest's root directory, and a relative path of the file starts there"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add an option to pytest that stores baselines; called by pytest."""
    text = f"run the commands of {MARKER}, store baselines; an existing one changes only if the step time passes"
    parser.getgroup("ms-profiler").addoption(SAVE, action="store_true", help=text)


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker `perf_smoke`; called by pytest."""
    config.addinivalue_line("markers", _LINE)


def pytest_runtest_call(item: pytest.Item) -> None:
    """Run the command in a test's marker and gate it against the baseline, before the test itself runs."""
    marker = item.get_closest_marker(MARKER)
    if marker is not None:
        _gate(item, *_marked(marker))


def _marked(marker: pytest.Mark) -> tuple[str, str, list[str]]:
    """Return command, baseline and options of the gate from a marker; fail with one line if its arguments are wrong."""
    import inspect

    import pytest

    try:
        inspect.signature(_arguments).bind(*marker.args, **marker.kwargs)
    except TypeError as error:
        pytest.fail(f"The marker {MARKER} is wrong: {error}. It is {_LINE.partition(':')[0]}.", pytrace=False)
    return _arguments(*marker.args, **marker.kwargs)


def _arguments(
    cmd: str, baseline: str, repeat: int = 5, threshold: float = 0.05, timeout: float = 600
) -> tuple[str, str, list[str]]:
    return cmd, baseline, [f"--repeat={repeat}", f"--threshold={threshold}", f"--timeout={timeout}"]


def _gate(item: pytest.Item, command: str, baseline: str, options: list[str]) -> None:
    import subprocess
    import sys

    import pytest

    from ms_profiler.gate import exits

    root = item.config.rootpath
    path = os.path.join(root, baseline)
    if item.config.getoption(SAVE):
        sides = ["--base", command, "--save", path]
    else:
        if not os.path.exists(path):
            pytest.fail(f"There is no baseline {baseline}. Store it with `pytest {SAVE}`.", pytrace=False)
        sides = ["--baseline", path, "--new", command]
    # with --strict, an inconclusive verdict has another exit code than a pass
    words = [sys.executable, "-m", "ms_profiler", "gate", *sides, *options, "--strict"]
    done = subprocess.run(words, cwd=root, capture_output=True, text=True, check=False)
    said, errors = (_by_arguments(text) for text in (done.stdout, done.stderr))
    if done.returncode == exits.INCONCLUSIVE:
        pytest.skip(said.partition("\n\n")[0])
    if done.returncode != exits.PASS:
        # pytest shows the first line of the message in its summary
        pytest.fail(f"{said or errors}\n`{command}` against {baseline}", pytrace=False)
    if item.config.getoption(SAVE):
        # the line about the baseline names the smallest threshold that it allows, or says why it stays as it was
        about = (f"ms-profiler: {path}: ", f"ms-profiler: {path} stays ")
        stored = [line for line in errors.splitlines() if line.startswith(about)]
        item.config.get_terminal_writer().line("".join(f"\n{line}" for line in stored))


def _by_arguments(text: str) -> str:
    """Replace the options of `ms-profiler gate` in a message by the marker's arguments."""
    import re

    return re.sub(r"--(threshold|repeat|timeout)[ =](\S*\w)", r"\1=\2", text)
