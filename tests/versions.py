"""Train with every MindSpore that PyPI has for this machine, with and without the profiler, and report the results.

    python tests/versions.py [VERSION ...] [--wheel DIRECTORY] [--write FILE] [--keep]

For each CPython found, pip is asked which versions it can install. Each gets an environment of its own, into which our
wheel goes too, and runs a training loop in both modes: the profiled run has to print and return the same as the other,
say nothing but its two lines, and record every step. An environment takes 3 GB, so each is removed after its runs.
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
#: Batches of the training loop.
STEPS = 20
#: Seconds for one run: a start of MindSpore takes 2, and the first after an installation compiles its sources.
LIMIT = 300
PLACE = ROOT / ".venv-versions"
SCHEMA = ROOT / "agent" / "ms_profiler" / "analysis" / "report" / "summary.schema.json"
BEGIN = "<!-- versions:begin -->"
END = "<!-- versions:end -->"
#: Parts of a log line that differ from run to run: times, process ids, addresses.
VARYING = re.compile(r"\b(?:0x)?[0-9a-f]*\d[0-9a-f]*\b")
HEADINGS = ("MindSpore", "Python", "Graph mode", "Pynative mode", "Hooks without a target in it")


class BrokenError(Exception):
    """A run failed its conditions; the message says which one."""


@dataclass(frozen=True)
class Job:
    """The outcome of a run of the training loop.

    Attributes:
        code: the exit code.
        out: the output of the run.
        lines: its lines on stderr, without our lines.
        ours: our lines on stderr, without their prefix.
        summary: the summary of the profiled run; None for a bare run.
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
        python: "3.11".
        modes: what each of MODES did, in words.
        missing: hooks whose target this version does not have.
        passed: whether everything was as it has to be.
    """

    version: str
    python: str
    modes: tuple[str, ...]
    missing: tuple[str, ...]
    passed: bool


def interpreters() -> dict[str, str]:
    """Return the CPythons found, "3.11" -> path: on PATH, else those of pyenv."""
    found = {}
    for minor in MINORS:
        pyenv = sorted(Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python"))
        for path in (shutil.which(f"python3.{minor}"), *map(str, pyenv)):
            # a shim of pyenv is there for versions that are not active, and then does not run
            if path and subprocess.run([path, "-c", "import venv, ensurepip"], capture_output=True).returncode == 0:
                found[f"3.{minor}"] = path
                break
    return found


def parsed(listing: str, major: str = "2.") -> list[str]:
    """Return the versions in a listing of `pip index versions` that begin with `major`, newest first."""
    match = re.search(r"^Available versions: (.+)$", listing, re.MULTILINE)
    return [version for version in match[1].split(", ") if version.startswith(major)] if match else []


def available(python: str, package: str = "mindspore", major: str = "2.") -> list[str]:
    """Return the versions of a package that this interpreter can install; none where pip finds none."""
    command = [python, "-m", "pip", "--disable-pip-version-check", "index", "versions", package]
    return parsed(subprocess.run(command, capture_output=True, text=True).stdout, major)


def install(python: str, wheel: Path, folder: Path, *packages: Sequence[str]) -> str:
    """Make an environment with our wheel and a framework, and return its interpreter.

    Args:
        python: that it is made for.
        wheel: ours.
        folder: where it is made.
        packages: what each further call of pip is told to install.

    Raises:
        BrokenError: pip could not.
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
    """Run the training loop, profiled where there is a place for the result.

    Raises:
        BrokenError: it did not end, or left no summary.
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
    """Return the failed conditions, in words."""
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
    """Return the records of a run, for a cell of the table."""
    kernels = _kernels(summary)
    counted = f"{kernels} kernels" if kernels else f"no kernels: {_reason(summary)}"
    return f"{summary['steps']['count']} steps, {counted}"


def examine(name: str, python: str, version: str, wheel: Path, keep: bool) -> Seen:
    """Install one version for one interpreter, run it in both modes, and report the results."""
    folder = PLACE / f"{version}-{name}"
    modes: list[str] = []
    missing: set[str] = set()
    passed = True
    try:
        # numpy<2: with numpy 2 most versions print pages of warnings
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
    """Return a key for sorting versions: 2.10.0 comes after 2.9.0."""
    return [int(number) for number in re.findall(r"\d+", version)]


def table(seen: Iterable[Seen]) -> str:
    """Return the results as a Markdown table, newest version first, equal rows of several Pythons as one."""
    pythons: dict[tuple[str, ...], list[str]] = {}
    for each in sorted(seen, key=lambda each: order(each.python)):
        row = (each.version, *each.modes, listed(each.missing, "mindspore."))
        pythons.setdefault(row, []).append(each.python)
    newest = sorted(pythons.items(), key=lambda item: order(item[0][0]), reverse=True)
    return markdown(HEADINGS, ([row[0], ", ".join(on), *row[1:]] for row, on in newest))


def listed(missing: Iterable[str], prefix: str) -> str:
    """Return names of hooks without a target for a cell of the table, without the prefix that all have."""
    return ", ".join(f"`{name.removeprefix(prefix)}`" for name in missing) or "none"


def markdown(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |\n" for row in lines)


def rewritten(document: str, content: str, begin: str = BEGIN, end: str = END) -> str:
    """Return a Markdown document with the content between its two marks.

    Raises:
        ValueError: the marks are not there.
    """
    start = document.index(begin) + len(begin)
    return f"{document[:start]}\n{content}{document[document.index(end, start) :]}"


def write(document: Path, content: str, begin: str = BEGIN, end: str = END) -> None:
    """Put the content between the two marks of a Markdown document."""
    text = rewritten(document.read_text(), content, begin, end)
    temporary = document.with_name(f"{document.name}.{os.getpid()}.tmp")
    temporary.write_text(text)
    temporary.replace(document)


def asked_for(
    product: str, document: str, begin: str = BEGIN, end: str = END
) -> tuple[argparse.ArgumentParser, argparse.Namespace]:
    """Return the versions that the command line names; exit with 2 if they cannot be tried.

    Args:
        product: whose versions are tried.
        document: what the program is, on its first line.
        begin: the mark before the table in a document.
        end: the mark behind it.
    """
    parser = argparse.ArgumentParser(description=document.splitlines()[0])
    parser.add_argument("versions", nargs="*", metavar="VERSION", help=f"only these versions of {product}")
    parser.add_argument("--wheel", type=Path, default=ROOT / "wheelhouse", help="directory that holds our wheel")
    parser.add_argument("--write", type=Path, metavar="FILE", help=f"write the table between {begin} and {end}")
    parser.add_argument("--keep", action="store_true", help=f"leave the environments in {PLACE.name}")
    asked = parser.parse_args()
    if asked.write and asked.versions:
        parser.error("the table of a document holds every version: leave out either the versions or --write")
    return parser, asked


def arguments(product: str, document: str, begin: str = BEGIN, end: str = END) -> tuple[argparse.Namespace, Path]:
    """Return the versions that the command line names, as `asked_for` does, and our wheel."""
    parser, asked = asked_for(product, document, begin, end)
    wheels = list(asked.wheel.resolve().glob("ms_profiler-*.whl"))
    if len(wheels) != 1:
        parser.error(f"{len(wheels)} wheels of ours in {asked.wheel}: run make wheel")
    return asked, wheels[0]


def main() -> int:
    """Run the requested versions; return 1 if something was wrong, 2 if nothing could be run."""
    asked, wheel = arguments("MindSpore", str(__doc__))
    seen = []
    for name, python in interpreters().items():
        for version in available(python):
            if not asked.versions or version in asked.versions:
                seen.append(examine(name, python, version, wheel, asked.keep))
                print(table(seen[-1:]).splitlines()[-1], flush=True)
    if not seen:
        print("pip finds no such MindSpore for any CPython here", file=sys.stderr)
        return 2
    if not asked.keep:
        shutil.rmtree(PLACE, ignore_errors=True)
    print(f"\n{table(seen)}", end="")
    if asked.write:
        write(asked.write, table(seen))
    return 0 if all(each.passed for each in seen) else 1


if __name__ == "__main__":
    sys.exit(main())
