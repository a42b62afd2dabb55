"""Train with every MindSpore that PyPI has for this machine, with and without the profiler, and report the results.

    python tests/versions.py [VERSION ...] [--wheel DIRECTORY] [--write FILE] [--keep]

For each CPython found, pip lists the versions that it can install. Each version is installed in an environment of its
own, together with our wheel, and runs a training loop in both modes. The profiled run has to print and return the same
as the run without the profiler, apart from two lines of ours, and to record every step. An environment takes 3 GB, so
each is deleted after its runs.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
from conftest import PROGRAMS, ROOT, environment

MINORS = (10, 11, 12, 13, 14, 15)
MODES = ("graph", "pynative")
#: Number of batches in the training loop.
STEPS = 20
#: Limit of seconds for one run: MindSpore needs 2 s to start, and its first start in an environment compiles its
#: sources.
LIMIT = 300
PLACE = ROOT / ".venv-versions"
SCHEMA = ROOT / "agent" / "ms_profiler" / "analysis" / "report" / "summary.schema.json"
BEGIN = "<!-- versions:begin -->"
END = "<!-- versions:end -->"
#: The parts of a log line that differ from run to run: times, process ids, addresses.
VARYING = re.compile(r"\b(?:0x)?[0-9a-f]*\d[0-9a-f]*\b")
HEADINGS = ("MindSpore", "Python", "Graph mode", "Pynative mode", "Hooks without a target in it")


class BrokenError(Exception):
    """A run failed a check; the message says which one."""


@dataclass(frozen=True)
class Job:
    """The outcome of a run of the training loop.

    Attributes:
        code: the exit code.
        out: its stdout.
        lines: its lines on stderr, without our lines.
        ours: our lines on stderr, without their prefix.
        summary: the summary of the profiled run; None without the profiler.
    """

    code: int
    out: str
    lines: tuple[str, ...] = ()
    ours: tuple[str, ...] = ()
    summary: Any = None


@dataclass(frozen=True)
class Seen:
    """The results of one version on one Python.

    Attributes:
        version: the version of MindSpore.
        python: the version of Python, such as "3.11".
        modes: a text about the result in each of MODES.
        missing: hooks whose target does not exist in this version.
        passed: whether all checks passed.
    """

    version: str
    python: str
    modes: tuple[str, ...]
    missing: tuple[str, ...]
    passed: bool


def interpreters() -> dict[str, str]:
    """Return the CPythons that were found, such as {"3.11": path}; those on PATH come before those of pyenv."""
    found = {}
    for minor in MINORS:
        pyenv = sorted(Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python"))
        for path in (shutil.which(f"python3.{minor}"), *map(str, pyenv)):
            # pyenv also has shims for versions that are not active; these do not run
            if path and subprocess.run([path, "-c", "import venv, ensurepip"], capture_output=True).returncode == 0:
                found[f"3.{minor}"] = path
                break
    return found


def parsed(listing: str, major: str = "2.") -> list[str]:
    """Return the versions that begin with `major` in an output of `pip index versions`, newest first."""
    match = re.search(r"^Available versions: (.+)$", listing, re.MULTILINE)
    return [version for version in match[1].split(", ") if version.startswith(major)] if match else []


def available(python: str, package: str = "mindspore", major: str = "2.") -> list[str]:
    """Return the versions of a package that this interpreter can install, or none if pip finds none."""
    command = [python, "-m", "pip", "--disable-pip-version-check", "index", "versions", package]
    return parsed(subprocess.run(command, capture_output=True, text=True).stdout, major)


def install(python: str, wheel: Path, folder: Path, *packages: Sequence[str]) -> str:
    """Make an environment with our wheel and a framework, and return its interpreter.

    Args:
        python: the interpreter that the environment is made with.
        wheel: our wheel.
        folder: the folder of the environment.
        packages: the packages to install, a sequence for each further call of pip.

    Raises:
        BrokenError: pip failed.
    """
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([python, "-m", "venv", folder], check=True)
    inside = str(folder / "bin" / "python")
    # no cache: a framework's wheels take 750 MB each
    pip = [inside, "-m", "pip", "--disable-pip-version-check", "install", "-q", "--no-cache-dir", "--no-compile"]
    for what in ([f"{wheel}[analysis]"], *packages):
        done = subprocess.run([*pip, *what], capture_output=True, text=True)
        if done.returncode:
            raise BrokenError(f"cannot be installed: {(done.stderr.splitlines() or ['pip failed'])[-1]}")
    return inside


def run(python: str, mode: str, output: Path | None) -> Job:
    """Run the training loop, with the profiler if there is a directory for the result.

    Raises:
        BrokenError: the run did not end in time, or left no summary.
    """
    options = {"start": True, "output_path": str(output)} if output else None
    command = [python, str(PROGRAMS / "model_loop.py"), mode]
    try:
        done = subprocess.run(command, env=environment(options), capture_output=True, text=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        raise BrokenError(f"did not end within {LIMIT} s {'with' if output else 'without'} the profiler") from None
    prefix = "ms-profiler: "
    lines = done.stderr.splitlines()
    summary = None
    if output:
        results = sorted(output.glob("*_ascend_ms/summary.json"))
        if len(results) != 1:
            raise BrokenError(f"{len(results)} summaries; stderr: {done.stderr.strip()[-500:]}")
        summary = json.loads(results[0].read_text())
    return Job(
        done.returncode,
        done.stdout,
        tuple(line for line in lines if not line.startswith(prefix)),
        tuple(line[len(prefix) :] for line in lines if line.startswith(prefix)),
        summary,
    )


def problems(version: str, mode: str, bare: Job, profiled: Job) -> list[str]:
    """Return a text for each check that the profiled run failed."""
    summary = profiled.summary
    found = []
    if bare.code:
        found.append(f"the script itself ends with {bare.code}: {(bare.lines or ('',))[-1]}")
    if profiled.code != bare.code:
        found.append(f"exit code {profiled.code}, not {bare.code}")
    if profiled.out != bare.out:
        found.append("another output")
    before = {VARYING.sub("", line) for line in bare.lines}
    if more := [line for line in profiled.lines if VARYING.sub("", line) not in before]:
        found.append(f"new on stderr: {more[0]}")
    if len(profiled.ours) != 2 or not profiled.ours[0].startswith("recording to "):
        found.append(f"lines of ours: {' / '.join(profiled.ours) or 'none'}")
    if summary["messages"] or summary["hooks"]["failed"]:
        found.append(f"messages {summary['messages']}, hooks that failed {summary['hooks']['failed']}")
    framework = summary["framework"]
    if (framework.get("version"), framework.get("mode")) != (version, mode):
        found.append(f"recorded as {framework.get('version')} in {framework.get('mode')} mode")
    if summary["steps"]["count"] != STEPS:
        found.append(f"{summary['steps']['count']} steps, not {STEPS}")
    if not _kernels(summary) and not _reason(summary):
        found.append("no kernels, and no reason given")
    errors = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text())).iter_errors(summary)
    return found + [f"summary.json: {error.json_path}: {error.message}" for error in errors]


def _kernels(summary: Any) -> int:
    return int((summary["kernels"] or {}).get("count", 0))


def _reason(summary: Any) -> str:
    return next((each["why"] for each in summary["not_collected"] if each["what"].startswith("kernels")), "")


def described(summary: Any) -> str:
    """Return the numbers of recorded steps and kernels as a text for a cell of the table."""
    kernels = _kernels(summary)
    counted = f"{kernels} kernels" if kernels else f"no kernels: {_reason(summary)}"
    return f"{summary['steps']['count']} steps, {counted}"


def examine(name: str, python: str, version: str, wheel: Path, keep: bool) -> Seen:
    """Install one version for one interpreter, run it in both modes, and return the results."""
    folder = PLACE / f"{version}-{name}"
    modes: list[str] = []
    missing: set[str] = set()
    passed = True
    try:
        # with NumPy 2, most versions print pages of warnings
        inside = install(python, wheel, folder, [f"mindspore=={version}", "numpy<2"])
        for mode in MODES:
            try:
                bare, profiled = run(inside, mode, None), run(inside, mode, folder / "data" / mode)
                wrong = problems(version, mode, bare, profiled)
                missing.update(profiled.summary["hooks"]["missing"])
                modes.append(f"failed: {'; '.join(wrong)}" if wrong else described(profiled.summary))
            except BrokenError as reason:
                wrong = [str(reason)]
                modes.append(f"failed: {reason}")
            passed &= not wrong
    except BrokenError as reason:
        modes, passed = [f"failed: {reason}"] * len(MODES), False
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
    return Seen(version, name, tuple(modes), tuple(sorted(missing)), passed)


def order(version: str) -> list[int]:
    """Return a key for sorting versions, so that 2.10.0 comes after 2.9.0."""
    return [int(number) for number in re.findall(r"\d+", version)]


def table(seen: Iterable[Seen]) -> str:
    """Return the results as a Markdown table, newest version first; Pythons with equal results share a row."""
    pythons: dict[tuple[str, ...], list[str]] = {}
    for each in sorted(seen, key=lambda each: order(each.python)):
        row = (each.version, *each.modes, listed(each.missing, "mindspore."))
        pythons.setdefault(row, []).append(each.python)
    newest = sorted(pythons.items(), key=lambda item: order(item[0][0]), reverse=True)
    return markdown(HEADINGS, ([row[0], ", ".join(on), *row[1:]] for row, on in newest))


def listed(missing: Iterable[str], prefix: str) -> str:
    """Return the names of hooks as a text for a cell of the table, without their common prefix."""
    return ", ".join(f"`{name.removeprefix(prefix)}`" for name in missing) or "none"


def markdown(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |\n" for row in lines)


def rewritten(document: str, content: str, begin: str = BEGIN, end: str = END) -> str:
    """Return a Markdown document with the content between its two marks.

    Raises:
        ValueError: a mark is missing.
    """
    start = document.index(begin) + len(begin)
    return f"{document[:start]}\n{content}{document[document.index(end, start) :]}"


def write(document: Path, content: str, begin: str = BEGIN, end: str = END) -> None:
    """Put the content between the two marks of a Markdown document."""
    text = rewritten(document.read_text(), content, begin, end)
    temporary = document.with_name(f"{document.name}.{os.getpid()}.tmp")
    temporary.write_text(text)
    temporary.replace(document)


def arguments_of(
    product: str, document: str, begin: str = BEGIN, end: str = END
) -> tuple[argparse.ArgumentParser, argparse.Namespace]:
    """Return the command line's parser and its arguments; exit with 2 if the arguments contradict each other.

    Args:
        product: the name of the framework.
        document: the program's docstring; its first line describes the program.
        begin: the mark before the table in a document.
        end: the mark after the table.
    """
    parser = argparse.ArgumentParser(description=document.splitlines()[0])
    parser.add_argument("versions", nargs="*", metavar="VERSION", help=f"only these versions of {product}")
    parser.add_argument("--wheel", type=Path, default=ROOT / "wheelhouse", help="directory that holds our wheel")
    parser.add_argument("--write", type=Path, metavar="FILE", help=f"write the table between {begin} and {end}")
    parser.add_argument("--keep", action="store_true", help=f"leave the environments in {PLACE.name}")
    given = parser.parse_args()
    if given.write and given.versions:
        parser.error("the table of a document holds every version: leave out either the versions or --write")
    return parser, given


def arguments(product: str, document: str, begin: str = BEGIN, end: str = END) -> tuple[argparse.Namespace, Path]:
    """Return the command line's arguments and the path of our wheel; exit with 2 if there is not exactly one wheel."""
    parser, given = arguments_of(product, document, begin, end)
    wheels = list(given.wheel.resolve().glob("ms_profiler-*.whl"))
    if len(wheels) != 1:
        parser.error(f"{len(wheels)} wheels of ours in {given.wheel}: run make wheel")
    return given, wheels[0]


def main() -> int:
    """Try the requested versions; return 1 if a check failed, 2 if pip has none of the versions."""
    given, wheel = arguments("MindSpore", str(__doc__))
    seen = []
    for name, python in interpreters().items():
        for version in available(python):
            if not given.versions or version in given.versions:
                seen.append(examine(name, python, version, wheel, given.keep))
                print(table(seen[-1:]).splitlines()[-1], flush=True)
    if not seen:
        print("pip finds no such MindSpore for any CPython here", file=sys.stderr)
        return 2
    if not given.keep:
        shutil.rmtree(PLACE, ignore_errors=True)
    print(f"\n{table(seen)}", end="")
    if given.write:
        write(given.write, table(seen))
    return 0 if all(each.passed for each in seen) else 1


if __name__ == "__main__":
    sys.exit(main())
