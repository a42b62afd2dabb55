"""Try every minor version of CUPTI on PyPI, from 11.8 on, on a machine without a driver, and print the results.

    python tests/cupti_versions.py [VERSION ...] [--write FILE] [--keep]

For each version, our layouts and numbers are compared with its headers. Then a job of PyTorch on the processor runs
twice with the option to record a GPU with this version's library: once without a driver, and once with a made-up one.
The made-up driver reports a device and does nothing else; because of the device, ms-profiler calls the library. The
program downloads and unpacks NVIDIA's packages, and deletes them after the test. The project does not store or
distribute them.
"""

import ctypes
import re
import shutil
import signal
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

import cupti_layouts
import fakes_built
import versions
from conftest import PROGRAMS, environment
from torch_versions import PREFIX, expect, launched
from versions import BrokenError

#: package of PyPI -> begin of the versions that the program takes from it
PACKAGES = {"nvidia-cuda-cupti": "13.", "nvidia-cuda-cupti-cu12": "12.", "nvidia-cuda-cupti-cu11": "11.8"}
#: packages with the headers that CUPTI's headers include; any version that is at least as new will do
INCLUDED = ("nvidia-cuda-runtime", "nvidia-cuda-crt")
DRIVER = "libcuda.so.1"
BEGIN = "<!-- cupti-versions:begin -->"
END = "<!-- cupti-versions:end -->"
HEADINGS = (
    *("CUPTI", "Compared with its headers", "Called without a driver", "A job without a driver"),
    "A job, and `doctor`, beside a driver with nothing behind it",
)
LINE = "kernels of the GPU are not recorded: "
#: pattern of the first and of the last line of ms-profiler in a run
USUAL = re.compile(r"^recording to | (?:More|then|result): ms-profiler summary ")
#: program that asks a library for its version, and prints the returned error code and the version
ASK = """
import ctypes, sys
version = ctypes.c_uint32()
print(ctypes.CDLL(sys.argv[1]).cuptiGetVersion(ctypes.byref(version)), version.value)
"""


@dataclass(frozen=True)
class Job:
    """The outcome of a training job.

    Attributes:
        code: the exit code.
        out: the job's stdout.
        messages: ms-profiler's lines on stderr without prefix, except for the two that every run has.
        mapped: the paths of CUPTI's files that the job's process had mapped at its end.
    """

    code: int
    out: str
    messages: list[str]
    mapped: str


def minors(found: list[str]) -> list[str]:
    """Return the last version of each minor version, newest first."""
    last: dict[tuple[int, ...], str] = {}
    for version in sorted(found, key=versions.order):
        last[tuple(versions.order(version)[:2])] = version
    return sorted(last.values(), key=versions.order, reverse=True)


def download(folder: Path, *requirements: str) -> None:
    """Download packages and put their contents into a folder.

    Raises:
        BrokenError: pip failed.
    """
    wheels = folder / "wheels"
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "-q", "--no-deps"]
    done = subprocess.run(
        [*command, "--no-cache-dir", "-d", str(wheels), *requirements], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise BrokenError(f"cannot be downloaded: {(done.stderr.splitlines() or ['pip failed'])[-1]}")
    for wheel in wheels.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
    shutil.rmtree(wheels)


def only(folder: Path, pattern: str) -> Path:
    """Return the only file below a folder that matches a pattern.

    Raises:
        BrokenError: no file or several files match.
    """
    found = sorted(folder.rglob(pattern))
    if len(found) != 1:
        raise BrokenError(f"{len(found)} files {pattern}")
    return found[0]


def train(folder: Path, variables: dict[str, str], options: dict[str, Any] | None) -> Job:
    """Train in a new folder and return the outcome of the job.

    Raises:
        BrokenError: the job ended without an error, but its stderr has a line that is not ours, or lacks a line of
            ours.
    """
    mapped = folder / "mapped"
    done = launched(sys.executable, folder, [str(PROGRAMS / "driver_job.py"), str(mapped)], options, **variables)
    lines = done.stderr.splitlines()
    strange = [line for line in lines if not line.startswith(PREFIX)]
    if strange and not done.returncode:
        raise BrokenError(f"on stderr: {strange[0]}")
    messages = [line.removeprefix(PREFIX) for line in lines]
    usual = [line for line in messages if USUAL.search(line)]
    if options and not done.returncode:
        expect("the two lines of every run", len(usual), 2)
    messages = [line for line in messages if line not in usual]
    return Job(done.returncode, done.stdout, messages, mapped.read_text() if mapped.exists() else "")


class Version:
    """Test one version of CUPTI's library; each test returns the text of its cell in the table.

    Args:
        folder: folder with the unpacked package; the runs write into it, too.
        included: folder with the further headers that the library's headers include.
        driver: folder of the made-up driver.
    """

    def __init__(self, folder: Path, included: Path, driver: Path) -> None:
        self.folder = folder
        self.included = included
        self.driver = driver
        self.library = only(folder, "libcupti.so.*")

    def compared(self) -> str:
        """Compare our layouts, numbers and texts with the headers."""
        include = only(self.folder, cupti_layouts.HEADER).parent
        behind = only(self.included, "cuda.h").parent
        count, wrong = cupti_layouts.differences(include, self.folder, [behind])
        expect("differences", wrong, "")
        return f"{count} places and numbers are the same"

    def called(self) -> str:
        """Call the library without a driver in a separate process; ms-profiler never makes this call."""
        done = subprocess.run(
            [sys.executable, "-c", ASK, str(self.library)], env=environment(), capture_output=True, check=False
        )
        if done.returncode < 0:
            return f"crashes ({signal.Signals(-done.returncode).name})"
        result, version = done.stdout.split()
        return f"says {int(version)}" if int(result) == 0 else f"answers {int(result)}"

    def without(self) -> str:
        """Train without a driver, and check that no part of the library is loaded."""
        job, reason = self._trained("without", {})
        expect("why", reason.partition(" (")[0], "there is no driver")
        expect("what was loaded", job.mapped, "")
        expect("doctor", self._doctor({}).partition(" (")[0], "there is no driver")
        return "the same; not loaded"

    def beside(self) -> str:
        """Train with the made-up driver; check that the job loads the library and that its failure costs one line."""
        variables = {"LD_LIBRARY_PATH": str(self.driver)}
        job, reason = self._trained("beside", variables)
        expect("what was loaded", job.mapped, str(self.library.resolve()))
        reason = reason.removeprefix("CUPTI cannot be used: ")
        expect("doctor", self._doctor(variables), reason)
        return f"the same; {reason}"

    def _trained(self, name: str, variables: dict[str, str]) -> tuple[Job, str]:
        """Train with the profiler and without; return the profiled job, and the reason why it recorded no kernels."""
        variables = {**variables, "MS_PROFILER_LIBCUPTI": str(self.library)}
        bare = train(self.folder / f"{name}-bare", variables, None)
        expect("the script itself ends", bare.code, 0)
        output = self.folder / f"{name}-data"
        options = {"start": True, "output_path": str(output), "activities": ["CPU", "GPU"]}
        job = train(self.folder / name, variables, options)
        expect("exit code", job.code, bare.code)
        expect("output", job.out, bare.out)
        if len(job.messages) != 1 or not job.messages[0].startswith(LINE):
            raise BrokenError(f"lines of ours: {job.messages}")
        expect("results", len(list(output.glob("*_ascend_ms/summary.json"))), 1)
        return job, job.messages[0].removeprefix(LINE)

    def _doctor(self, variables: dict[str, str]) -> str:
        everything = environment(**variables, MS_PROFILER_LIBCUPTI=str(self.library))
        command = [sys.executable, "-m", "ms_profiler", "doctor"]
        done = subprocess.run(command, env=everything, capture_output=True, text=True, check=False)
        expect("doctor", (done.returncode, done.stderr), (0, ""))
        following = done.stdout.partition("CUPTI (GPUs of NVIDIA): ")[2].splitlines()
        paragraph = [following[0], *takewhile(lambda line: line.startswith(" "), following[1:])]
        expect("doctor", paragraph[0], "not usable")
        expect("doctor", paragraph[1].partition(", version")[0], f"    library {self.library}")
        return paragraph[-1].strip()


@dataclass(frozen=True)
class Seen:
    """The results of one version.

    Attributes:
        version: the version of CUPTI's package.
        cells: the cells of the table, without the version.
        passed: whether all checks passed.
    """

    version: str
    cells: tuple[str, ...]
    passed: bool


def examine(package: str, version: str, included: Path, driver: Path, keep: bool) -> Seen:
    """Unpack one version, run all trials with it, and return the results."""
    folder = versions.PLACE / f"cupti-{version}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    cells: list[str] = []
    passed = True
    try:
        download(folder, f"{package}=={version}")
        tried = Version(folder, included, driver)
        for check in (tried.compared, tried.called, tried.without, tried.beside):
            try:
                cells.append(check())
            except BrokenError as reason:
                cells.append(f"failed: {reason}")
                passed = False
    except BrokenError as reason:
        cells, passed = [f"failed: {reason}"] * (len(HEADINGS) - 1), False
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
    return Seen(version, tuple(cells), passed)


def table(seen: list[Seen]) -> str:
    """Return the results as a table in Markdown."""
    return versions.markdown(HEADINGS, [(each.version, *each.cells) for each in seen])


def has_driver() -> bool:
    """Return whether this machine has NVIDIA's driver."""
    try:
        ctypes.CDLL(DRIVER)
    except OSError:
        return False
    return True


def main() -> int:
    """Test the requested versions; return 1 if a check failed, 2 if no version could be tested."""
    _, given = versions.arguments_of("CUPTI", str(__doc__), BEGIN, END)
    if has_driver():
        print("this machine has a driver of NVIDIA's: what is tried here is what happens without one", file=sys.stderr)
        return 2
    places = {
        version: package
        for package, major in PACKAGES.items()
        for version in versions.available(sys.executable, package, major)
    }
    chosen = [version for version in places if version in given.versions] if given.versions else minors(list(places))
    if not chosen:
        print("pip finds no such CUPTI", file=sys.stderr)
        return 2
    common = versions.PLACE / "cupti"
    shutil.rmtree(common, ignore_errors=True)
    common.mkdir(parents=True)
    seen = []
    try:
        download(common, *INCLUDED)
        driver = common / "driver"
        driver.mkdir()
        fakes_built.build(driver, {DRIVER: fakes_built.LIBRARIES[DRIVER]})
        for version in chosen:
            seen.append(examine(places[version], version, common, driver, given.keep))
            print(table(seen[-1:]).splitlines()[-1], flush=True)
    finally:
        if not given.keep:
            shutil.rmtree(common)
    print(f"\n{table(seen)}", end="")
    if given.write:
        versions.write(given.write, table(seen), BEGIN, END)
    return 0 if all(each.passed for each in seen) else 1


if __name__ == "__main__":
    sys.exit(main())
