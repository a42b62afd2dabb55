"""Train with every minor version of PyTorch from 2.4 on, with and without the profiler, and report the results.

    python tests/torch_versions.py [VERSION ...] [--wheel DIRECTORY] [--write FILE] [--keep]

The last release of each minor version that pip finds for this Python is installed in an environment of its own,
together with our wheel. On Linux, PyPI's wheels of PyTorch are built for CUDA. CUDA's packages, several gigabytes, are
left out (see `cuda_stand_ins`). An environment takes 3 GB while it is made, and is deleted after its runs.
"""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cuda_stand_ins
import jsonschema
import versions
from conftest import PROGRAMS, environment
from events import events, of
from kineto_trees import ours, theirs, trees
from launches import free_port
from ms_profiler.store.format import Category, Kind
from unknown_torch import UNKNOWN
from versions import SCHEMA, VARYING, BrokenError

#: The oldest version that we support.
OLDEST = [2, 4]
#: Packages that PyTorch needs, without those of CUDA.
PURE = ("typing-extensions", "sympy", "networkx", "jinja2", "fsspec", "filelock", "setuptools")
#: NumPy 1 has no wheels for CPython 3.13 and later; older versions of PyTorch need it.
NUMPY = "numpy<2" if sys.version_info < (3, 13) else "numpy"
#: Limit of seconds for one run: Inductor compiles for 40 s on a busy machine.
LIMIT = 300
PREFIX = "ms-profiler: "
#: Lines that PyTorch itself adds to stderr: Kineto, also when we start it, reports its begin, its end, or a missing
#: driver.
THEIRS = re.compile(r"^USDT:.*\] profiler_(start|stop)$|^ERROR:.*\] gpuGetDeviceCount failed")
#: the kinds of `torch_loops.py` without the plain one
KINDS = ("accumulate", "gan", "lbfgs", "scaler", "failing", "wrapped", "function", "inference", "recompute")
WORKS = ("mlp", "convolution", "custom", "loader")
BEGIN = "<!-- torch-versions:begin -->"
END = "<!-- torch-versions:end -->"
HEADINGS = (
    *("PyTorch", "Python", "Built for", "Training", "Operators", "As an unknown version", "The script's profilers"),
    *("Compiled, exported, copied", "Inductor", "Two ranks", "Hooks without a target in it"),
)


@dataclass(frozen=True)
class Profiled:
    """A run with the profiler that behaved as the run without it.

    Attributes:
        folder: the folder in which it ran.
        result: the result directory of the run.
        summary: the summary in that directory; None if the run was not analysed.
    """

    folder: Path
    result: Path
    summary: Any


def launched(
    python: str, folder: Path, words: list[str], options: dict[str, Any] | None, limit: float = LIMIT, **extra: str
) -> Any:
    """Run an interpreter in a separate folder, for at most `limit` seconds, with additional variables.

    Raises:
        BrokenError: the program did not end in time.
    """
    folder.mkdir(parents=True)
    variables = {"TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"), "GLOO_SOCKET_IFNAME": "lo"} | extra
    command = [python, *words]
    everything = environment(options, OMP_NUM_THREADS="1", **variables)
    with subprocess.Popen(
        command, env=everything, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            out, err = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            process.terminate()  # a launcher then ends its ranks, which are in sessions of their own
            process.communicate()
            raise BrokenError(
                f"did not end within {limit:g} s {'with' if options else 'without'} the profiler"
            ) from None
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def both(
    python: str,
    folder: Path,
    words: list[str],
    results: int = 1,
    analyse: str = "sync",
    limit: float = LIMIT,
    **extra: str,
) -> list[Profiled]:
    """Run a program without and with the profiler, compare the runs, and return the results of the second.

    Args:
        python: the interpreter of the environment.
        folder: the folder for the files of both runs.
        words: the program and its arguments.
        results: the number of ranks.
        analyse: the value of the option `analyse`.
        limit: seconds for each of the two runs.
        extra: further environment variables of both runs.

    Raises:
        BrokenError: the second run differs; the message names the difference.
    """
    options = {"start": True, "output_path": str(folder / "data"), "analyse": analyse, "exit_timeout": limit}
    bare = launched(python, folder / "bare", words, None, limit, **extra)
    profiled = launched(python, folder / "profiled", words, options, limit, **extra)
    if bare.returncode:
        raise BrokenError(f"the script itself ends with {bare.returncode}: {bare.stderr.strip()[-300:]}")
    if profiled.returncode:
        raise BrokenError(f"exit code {profiled.returncode}: {profiled.stderr.strip()[-300:]}")
    if profiled.stdout != bare.stdout:
        raise BrokenError("another output")
    lines = [line for line in profiled.stderr.splitlines() if line.startswith(PREFIX)]
    if len(lines) != 2 or not lines[0].startswith(f"{PREFIX}recording to "):
        raise BrokenError(f"lines of ours: {lines}")
    before = {VARYING.sub("", line) for line in bare.stderr.splitlines()}
    for line in profiled.stderr.splitlines():
        known = line.startswith(PREFIX) or THEIRS.search(line)
        if not known and VARYING.sub("", line) not in before:
            raise BrokenError(f"new on stderr: {line}")
    found = sorted((folder / "data").glob("*_ascend_ms"))
    if len(found) != results:
        raise BrokenError(f"{len(found)} results, not {results}")
    return [Profiled(folder / "profiled", result, _summary(result, analyse)) for result in found]


def _summary(result: Path, analyse: str) -> Any:
    if analyse == "off":
        return None
    summary = json.loads((result / "summary.json").read_text())
    for error in jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text())).iter_errors(summary):
        raise BrokenError(f"summary.json: {error.json_path}: {error.message}")
    if summary["messages"] or summary["hooks"]["failed"]:
        raise BrokenError(f"messages {summary['messages']}, hooks that failed {summary['hooks']['failed']}")
    return summary


def expect(what: str, seen: Any, expected: Any) -> None:
    """Raise BrokenError unless two things are equal."""
    if seen != expected:
        raise BrokenError(f"{what}: {seen}, not {expected}")


def expect_same_files(folder: Path, pattern: str) -> None:
    """Compare a file that both runs wrote.

    Args:
        folder: the folder that `both` was given.
        pattern: the pattern of the file's name in the folder of each run.

    Raises:
        BrokenError: the files differ, or a run has not exactly one such file.
    """
    texts = []
    for name in ("bare", "profiled"):
        files = list((folder / name).glob(pattern))
        expect(f"files {pattern} of the run {name}", len(files), 1)
        texts.append(files[0].read_text())
    expect(pattern, texts[1], texts[0])


class Version:
    """Run the programs with one version; each public method returns the text of a cell of the table.

    Args:
        python: the interpreter of the version's environment.
        folder: the folder for the files of the runs.
        limit: seconds for each run.
    """

    def __init__(self, python: str, folder: Path, limit: float = LIMIT) -> None:
        self.python = python
        self.folder = folder
        self.limit = limit
        #: hooks whose target does not exist in this version
        self.missing: set[str] = set()

    def _both(
        self, name: str, words: list[str], results: int = 1, analyse: str = "sync", **extra: str
    ) -> list[Profiled]:
        found = both(self.python, self.folder / name, words, results, analyse, self.limit, **extra)
        for each in found:
            if each.summary:
                self.missing |= each.summary["hooks"]["missing"].keys()
        return found

    def built(self) -> str:
        """Return the platform of this build."""
        code = "import torch; print('CUDA ' + torch.version.cuda if torch.version.cuda else 'CPU', torch.ones(2).sum())"
        done = launched(self.python, self.folder / "built", ["-c", code], None, self.limit)
        if done.returncode:
            raise BrokenError(f"cannot be imported: {done.stderr.strip()[-300:]}")
        return str(done.stdout.rpartition(" ")[0])

    def trains(self) -> str:
        """Train with a data loader, a scheduler and an evaluation, and with each other kind of loop."""
        (run,) = self._both("plain", [str(PROGRAMS / "torch_loops.py"), "plain"])
        steps = run.summary["steps"]
        expect("steps", (steps["count"], steps["source"]), (12, "optimizer_cycle"))
        found = events(str(run.result))
        main = [event for event in found if event.process == "job"]
        expect(
            "modules",
            of(main, Category.MODULE),
            dict.fromkeys(("Net", "Net.first", "Net.second", "Net.second.0", "Net.second.1"), 24),
        )
        expect("backward passes", of(main, Category.BACKWARD), {"backward": 12})
        expect("optimizer", of(main, Category.OPTIMIZER), {"AdamW.step": 12, "zero_grad": 12, "learning rate": 13})
        expect("waits for data", of(main, Category.DATA)["wait for TensorDataset"], 25)
        workers = {event.process for event in found if event.name == "fetch batch" and event.process != "job"}
        expect("workers that fetched", bool(workers), True)
        (others,) = self._both("kinds", [str(PROGRAMS / "torch_loops.py"), *KINDS], analyse="off")
        again = of(events(str(others.result)), Category.BACKWARD)
        expect("recomputations", (again.get("recompute Linear"), again.get("recompute Sequential")), (12, 12))
        return f"{steps['count']} of 12 steps"

    def operators(self) -> str:
        """Run each workload once with our recorder and once with Kineto; both record the same operators."""
        program = str(PROGRAMS / "torch_workloads.py")
        (run,) = self._both("operators", [program, ".", *WORKS])
        mine = ours(run.result)
        counts = 0
        for work in WORKS:
            own, kineto = trees(mine, f"ours {work}"), trees(theirs(run.folder / f"{work}.json"), f"theirs {work}")
            if work == "loader":  # Kineto does not record the loader's workers
                own = [counts for counts in own if counts in kineto]
            expect(f"operators of {work} that only one of us saw", _differences(own, kineto), [])
            counts = counts or sum(sum(thread.values()) for thread in own)
        return f"{run.summary['framework'].get('operators', 'none')}: {counts} a step, those of Kineto"

    def instead(self) -> str:
        """Train as if the version were unknown: Kineto records some steps, or the summary says why not."""
        program = self.folder / "unknown.py"
        program.parent.mkdir(exist_ok=True)
        program.write_text(UNKNOWN + (PROGRAMS / "torch_loops.py").read_text())
        (run,) = self._both("unknown", [str(program), "gan"])
        seen = events(str(run.result))
        backward = [event for event in seen if event.category == Category.OP and event.name == "AddmmBackward0"]
        by = run.summary["framework"].get("operators")
        why = [entry["why"] for entry in run.summary["not_collected"] if entry["what"].startswith("operators")]
        expect("reasons", ["does not know the operators of PyTorch" in reason for reason in why], [True])
        if not backward:
            expect("what reports operators", by, None)
            return "none"
        ties = {event.arg >> 1 for event in seen if event.name == "aten::addmm"}
        expect("ties of gradients", {event.arg >> 1 for event in backward} <= ties, True)
        return f"{by}: {len(backward) / 5:g} steps"

    def profilers(self) -> str:
        """Use each profiler of PyTorch in each way; it records the same as without us."""
        self._both("profilers", [str(PROGRAMS / "torch_own_profiler.py")], analyse="off")
        return "see the same"

    def captures(self) -> str:
        """Compile, export, trace, script, copy, pickle, save and load; the output is the same as without us."""
        (run,) = self._both("captures", [str(PROGRAMS / "torch_captures.py"), "."], analyse="off")
        found = events(str(run.result))
        graphs = sum(of(found, Category.GRAPH).values())
        causes = [event for event in found if event.kind == Kind.INSTANT and event.category == Category.COMPILE]
        if not (graphs and causes and of(found, Category.CHECKPOINT)):
            raise BrokenError("no graphs, no causes or no files")
        return f"same; {graphs} runs of graphs"

    def inductor(self) -> str:
        """Compile a network to one graph with Inductor; the processes of the compiler leave no results."""
        if shutil.which("g++") is None:
            return "no compiler here"
        (run,) = self._both("inductor", [str(PROGRAMS / "torch_inductor.py")])
        expect("steps", run.summary["steps"]["count"], 4)
        expect("mode", run.summary["framework"]["mode"], "compiled")
        return "same; 4 of 4 steps"

    def ranks(self) -> str:
        """Exchange data between two ranks, in direct calls and in data-parallel training."""
        words = ["-m", "torch.distributed.run", "--nproc_per_node=2", f"--master_port={free_port()}"]
        # From PyTorch 2.10 on, if not before, Gloo prints a line about each connection in several writes. On a common
        # stdout, the two ranks' lines would cut each other, at different places in each run. So each rank's stdout is a
        # file.
        words += ["--redirects=1", "--log-dir=logs"]
        words += [str(PROGRAMS / "torch_ranks.py"), ".", "collectives", "replicas"]
        exchanges = []
        for run in self._both("ranks", words, results=2, analyse="off"):
            seen = events(str(run.result))
            calls = [event for event in seen if event.category == Category.COMMUNICATION and event.kind == Kind.SPAN]
            expect("the first exchange", [(call.name, call.arg) for call in calls[:1]], [("AllReduce@0", 16)])
            exchanges.append(f"{len(calls)} exchanges, {sum(call.arg for call in calls)} bytes")
        for rank in range(2):
            expect_same_files(self.folder / "ranks", f"rank_{rank}")
            expect_same_files(self.folder / "ranks", f"logs/*/attempt_0/{rank}/stdout.log")
        return " and ".join(exchanges)


def _differences(own: list[Any], kineto: list[Any]) -> list[Any]:
    if len(own) != len(kineto):
        return [f"{len(own)} and {len(kineto)} threads"]
    return [item for mine, other in zip(own, kineto, strict=True) for item in ((mine - other) + (other - mine)).items()]


@dataclass(frozen=True)
class Seen:
    """The results of one version.

    Attributes:
        version: the version of PyTorch.
        cells: the cells of its row, without the first two, which are the version and the Python.
        passed: whether all checks passed.
    """

    version: str
    cells: tuple[str, ...]
    passed: bool


def minors(found: list[str]) -> list[str]:
    """Return the last release of each minor version, newest first; if there is a build for CPUs, this build."""
    last: dict[tuple[int, ...], str] = {}
    for version in found:
        number = versions.order(version)
        if number[:2] < OLDEST:
            continue
        best = last.get(tuple(number[:2]), "")
        if not best or (number[2:3], "cpu" in version) > (versions.order(best)[2:3], "cpu" in best):
            last[tuple(number[:2])] = version
    return sorted(last.values(), key=versions.order, reverse=True)


def examine(python: str, version: str, wheel: Path, keep: bool) -> Seen:
    """Install one version, run all programs with it, and return the results."""
    folder = versions.PLACE / f"torch-{version}"
    cells: list[str] = []
    passed = True
    try:
        inside = versions.install(python, wheel, folder, ["--no-deps", f"torch=={version}"], (*PURE, NUMPY))
        (libraries,) = folder.glob("lib/python*/site-packages/torch/lib")
        cuda_stand_ins.make(libraries)
        seen = Version(inside, folder / "runs")
        checks: tuple[Callable[[], str], ...] = (
            *(seen.built, seen.trains, seen.operators, seen.instead, seen.profilers),
            *(seen.captures, seen.inductor, seen.ranks),
        )
        for check in checks:
            try:
                cells.append(check())
            except BrokenError as reason:
                cells.append(f"failed: {reason}")
                passed = False
        cells.append(versions.listed(sorted(seen.missing), "torch."))
    except BrokenError as reason:
        cells, passed = [f"failed: {reason}"] * (len(HEADINGS) - 2), False
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
    return Seen(version, tuple(cells), passed)


def table(seen: list[Seen]) -> str:
    """Return the results as a Markdown table."""
    name = ".".join(map(str, sys.version_info[:2]))
    return versions.markdown(HEADINGS, [(each.version, name, *each.cells) for each in seen])


def main() -> int:
    """Try the requested versions; return 1 if a check failed, 2 if pip has none of the versions."""
    given, wheel = versions.arguments("PyTorch", str(__doc__), BEGIN, END)
    found = versions.available(sys.executable, "torch")
    chosen = [version for version in found if version in given.versions] if given.versions else minors(found)
    seen = []
    for version in sorted(chosen, key=versions.order, reverse=True):
        seen.append(examine(sys.executable, version, wheel, given.keep))
        print(table(seen[-1:]).splitlines()[-1], flush=True)
    if not seen:
        print("pip finds no such PyTorch for this Python", file=sys.stderr)
        return 2
    print(f"\n{table(seen)}", end="")
    if given.write:
        versions.write(given.write, table(seen), BEGIN, END)
    return 0 if all(each.passed for each in seen) else 1


if __name__ == "__main__":
    sys.exit(main())
