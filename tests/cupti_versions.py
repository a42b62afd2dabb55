"""Try every minor version of CUPTI on PyPI, from 11.8 on, on a machine without a driver, and print the results.

    python tests/cupti_versions.py [VERSION ...] [--write FILE] [--keep]

For each version, our layouts and numbers are compared with its headers. Then a job of PyTorch on the processor is told
to record
a GPU with this version's library: once on the machine as it is, and once with a made-up driver. The driver reports a
device
and does nothing else, so that the library is called. NVIDIA's packages are downloaded, unpacked and removed again. The
project does not keep or distribute them.
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

#: packages of PyPI, and how the versions begin that they are taken for
PACKAGES = {"nvidia-cuda-cupti": "13.", "nvidia-cuda-cupti-cu12": "12.", "nvidia-cuda-cupti-cu11": "11.8"}
#: packages with the headers that CUPTI's headers include, of any version that is as new
INCLUDED = ("nvidia-cuda-runtime", "nvidia-cuda-crt")
DRIVER = "libcuda.so.1"
BEGIN = "<!-- cupti-versions:begin -->"
END = "<!-- cupti-versions:end -->"
HEADINGS = (
    *("CUPTI", "Compared with its headers", "Called without a driver", "A job without a driver"),
    "A job, and `doctor`, beside a driver with nothing behind it",
)
LINE = "kernels of the GPU are not recorded: "
#: the first and the last line of a run
USUAL = re.compile(r"^recording to | (?:More|then): ms-profiler summary ")
#: asks a library of its version, and prints the answer and the version
ASK = """
import ctypes, sys
version = ctypes.c_uint32()
print(ctypes.CDLL(sys.argv[1]).cuptiGetVersion(ctypes.byref(version)), version.value)
"""


@dataclass(frozen=True)
class Job:
    """A run of the program.

    Attributes:
        code: the exit code.
        out: the output of the program.
        told: our lines, except for the two that every run has.
        mapped: the files of CUPTI that the process had mapped at its end.
    """

    code: int
    out: str
    told: list[str]
    mapped: str


def minors(found: list[str]) -> list[str]:
    """Return the last of each minor version, newest first."""
    last: dict[tuple[int, ...], str] = {}
    for version in sorted(found, key=versions.order):
        last[tuple(versions.order(version)[:2])] = version
    return sorted(last.values(), key=versions.order, reverse=True)


def download(folder: Path, *requirements: str) -> None:
    """Put the contents of packages into a folder.

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
    """Return the one file of a pattern below a folder.

    Raises:
        BrokenError: no file or several files match.
    """
    found = sorted(folder.rglob(pattern))
    if len(found) != 1:
        raise BrokenError(f"{len(found)} files {pattern}")
    return found[0]


def train(folder: Path, variables: dict[str, str], options: dict[str, Any] | None) -> Job:
    """Train in a folder of its own.

    Raises:
        BrokenError: the job did not end, or printed a line that is not ours.
    """
    mapped = folder / "mapped"
    done = launched(sys.executable, folder, [str(PROGRAMS / "driver_job.py"), str(mapped)], options, **variables)
    lines = done.stderr.splitlines()
    strange = [line for line in lines if not line.startswith(PREFIX)]
    if strange and not done.returncode:
        raise BrokenError(f"on stderr: {strange[0]}")
    told = [line.removeprefix(PREFIX) for line in lines]
    usual = [line for line in told if USUAL.search(line)]
    if options and not done.returncode:
        expect("the two lines of every run", len(usual), 2)
    told = [line for line in told if line not in usual]
    return Job(done.returncode, done.stdout, told, mapped.read_text() if mapped.exists() else "")


class Version:
    """Try a library; each method returns its observation, for a cell of the table.

    Args:
        folder: with what was unpacked, and for what the runs write.
        included: folder with what the headers include.
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
        """Call the library without a driver, which our code never does, in a separate process."""
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
        """Train with the made-up driver, and check that the library is loaded and that any failure of it costs one
        line."""
        variables = {"LD_LIBRARY_PATH": str(self.driver)}
        job, reason = self._trained("beside", variables)
        expect("what was loaded", job.mapped, str(self.library.resolve()))
        reason = reason.removeprefix("CUPTI cannot be used: ")
        expect("doctor", self._doctor(variables), reason)
        return f"the same; {reason}"

    def _trained(self, name: str, variables: dict[str, str]) -> tuple[Job, str]:
        """Train with the profiler and without; return the former, and why nothing was recorded."""
        variables = {**variables, "MS_PROFILER_LIBCUPTI": str(self.library)}
        bare = train(self.folder / f"{name}-bare", variables, None)
        expect("the script itself ends", bare.code, 0)
        output = self.folder / f"{name}-data"
        options = {"start": True, "output_path": str(output), "activities": ["CPU", "GPU"]}
        job = train(self.folder / name, variables, options)
        expect("exit code", job.code, bare.code)
        expect("output", job.out, bare.out)
        if len(job.told) != 1 or not job.told[0].startswith(LINE):
            raise BrokenError(f"lines of ours: {job.told}")
        expect("results", len(list(output.glob("*_ascend_ms/summary.json"))), 1)
        return job, job.told[0].removeprefix(LINE)

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
    """Return the results as a Markdown table."""
    return versions.markdown(HEADINGS, [(each.version, *each.cells) for each in seen])


def has_driver() -> bool:
    """Return whether this machine has NVIDIA's driver."""
    try:
        ctypes.CDLL(DRIVER)
    except OSError:
        return False
    return True


def main() -> int:
    """Try the requested versions; return 1 if something was wrong, 2 if nothing could be tried."""
    _, asked = versions.asked_for("CUPTI", str(__doc__), BEGIN, END)
    if has_driver():
        print("this machine has a driver of NVIDIA's: what is tried here is what happens without one", file=sys.stderr)
        return 2
    places = {
        version: package
        for package, major in PACKAGES.items()
        for version in versions.available(sys.executable, package, major)
    }
    chosen = [version for version in places if version in asked.versions] if asked.versions else minors(list(places))
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
            seen.append(examine(places[version], version, common, driver, asked.keep))
            print(table(seen[-1:]).splitlines()[-1], flush=True)
    finally:
        if not asked.keep:
            shutil.rmtree(common)
    print(f"\n{table(seen)}", end="")
    if asked.write:
        versions.write(asked.write, table(seen), BEGIN, END)
    return 0 if all(each.passed for each in seen) else 1


if __name__ == "__main__":
    sys.exit(main())
