"""Fixtures that run a program as a user would and read its result."""

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

# Each worker has a processor of its own. More threads of Polars would take a third more of it for queries of some rows.
THREADS = "POLARS_MAX_THREADS"
given = os.environ.get(THREADS)
os.environ.setdefault(THREADS, "1")
import polars  # noqa: E402

polars.thread_pool_size()  # makes the threads
if given is None:
    del os.environ[THREADS]  # the commands that the tests start choose for themselves

over = polars.Expr.over


def checked_over(self, *keys, **options):
    """Fail on a window inside of another one that has further keys.

    Polars computes the inner window for each part of the outer one, which divides the parts of the inner one.
    """
    outer = [key for each in keys for key in (each if isinstance(each, (list, tuple)) else [each])]
    texts = [f'col("{key}")' if isinstance(key, str) else str(key) for key in outer]
    for inner in re.findall(r"\.over\((?:partition_by: )?\[(.*?)\]", str(self)):
        lacking = [text for text in texts if text not in inner]
        assert not lacking, f"the window over {inner} is inside of one over {lacking}: compute it first"
    return over(self, *keys, **options)


setattr(polars.Expr, "over", checked_over)  # noqa: B010

from ms_profiler.analysis.comparison import runs  # noqa: E402
from ms_profiler.analysis.driver import engine  # noqa: E402

ROOT = Path(__file__).parent.parent
PROGRAMS = Path(__file__).parent / "programs"
VARIABLE = "MS_PROFILER_OPTIONS"


@dataclass
class Run:
    """The outcome of a program: its exit code, stdout, stderr, and the directory of its results."""

    code: int
    out: str
    err: str
    output: Path
    #: whether the job left its analysis to the test
    left: bool = False

    @property
    def lines(self):
        """Return the profiler's lines on stderr, without their prefix "ms-profiler: "."""
        return [line[len("ms-profiler: ") :] for line in self.err.splitlines() if line.startswith("ms-profiler: ")]

    @property
    def results(self):
        """Return the result directories, the oldest first; analysed when a test first asks for them."""
        results = sorted(self.output.glob("*_ascend_ms"), key=lambda path: path.name.rsplit("_", 3)[1])
        if self.left and results:
            self.left = False
            engine.analyse([str(path) for path in results])
        return results

    @property
    def result(self):
        """Return the only result directory."""
        (result,) = self.results
        return result

    @property
    def recorded(self):
        """Return the only result directory, not analysed."""
        (result,) = self.output.glob("*_ascend_ms")
        return result

    @property
    def summary(self):
        """Return the summary of the only result."""
        return json.loads((self.result / "summary.json").read_text())


def environment(options=None, **extra):
    """Return the environment of a user who sets no variable of ms-profiler except for the options."""
    variables = {key: value for key, value in os.environ.items() if not key.startswith(("MS_PROFILER", "PYTEST"))}
    variables.pop("PYTHONPATH", None)
    variables["GLOG_v"] = "3"
    if options is not None:
        variables[VARIABLE] = options if isinstance(options, str) else json.dumps(options)
    return variables | extra


def eventually(condition, seconds=60):
    """Wait until `condition()` is true, checking a hundred times a second; fail after `seconds` seconds."""
    deadline = time.monotonic() + seconds
    pause = threading.Event()
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s"
        pause.wait(0.01)


def launcher(folder):
    """Return a function that runs a Python program in `folder`, profiled with its results in `folder / "data"`.

    By default, the job does not analyse its result, in contrast to a user's job: that takes more than a second of a
    processor. The process of the tests has what it needs loaded. Tests of a job's end set the option "analyse".
    """

    def run(program, *args, options=None, profile=True, env=None, timeout=300, python=sys.executable):
        output = folder / "data"
        left = profile and not isinstance(options, str) and "analyse" not in (options or {})
        if profile and not isinstance(options, str):
            options = {"start": True, "output_path": str(output), "analyse": "off"} | (options or {})
        command = [program] if isinstance(program, Path) else ["-c", program]
        # stderr is a file like a user's log: a pipe would get no lines of ms-profiler after the end of the job
        with tempfile.TemporaryFile("w+") as err:
            finished = subprocess.run(
                [python, *command, *args],
                env=environment(options if profile else None, **(env or {})),
                stdout=subprocess.PIPE,
                stderr=err,
                text=True,
                timeout=timeout,
                cwd=folder,
                check=False,
            )
            err.seek(0)
            return Run(finished.returncode, finished.stdout, err.read(), output, left)

    return run


@pytest.fixture(scope="session", autouse=True)
def results_are_condensed_once():
    """Keep the digest of each result, because the commands of a test compare the same results again and again."""
    known, condensed = {}, runs.of_result

    def once(path):
        files = [Path(path), *Path(path).rglob("*")]
        key = os.path.realpath(path), *((str(file), file.lstat().st_mtime_ns) for file in sorted(files))
        if key not in known:
            known[key] = condensed(path)
        return known[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "of_result", once)
        yield


@pytest.fixture
def job(tmp_path):
    """Return a function that runs a Python program in the directory of this test, profiled into `data` below it."""
    return launcher(tmp_path)


@pytest.fixture(scope="module")
def launch(tmp_path_factory):
    """Return a function that runs a Python program in a new directory each time, so that tests can share a run."""
    return lambda *args, **options: launcher(tmp_path_factory.mktemp("job"))(*args, **options)


@pytest.fixture
def guest(tmp_path):
    """Return a job in the directory of this test, as a `guests.Guest`."""
    from guests import Guest

    return Guest(tmp_path)


@pytest.fixture(params=["native", "plain"])
def columns(request):
    """Return an implementation of columns; the test runs once with each of them."""
    from column_kinds import BOTH

    return next(kind for kind in BOTH if kind.kind == request.param)
