"""Build the made-up device libraries of `fakes/`, once for each run of the tests."""

import subprocess
from pathlib import Path

import pytest

FAKES = Path(__file__).parent / "fakes"
#: the vendor's name of a library -> sources, and flags
LIBRARIES = {"libcuda.so.1": ("cuda.c",), "libcupti.so.12": ("cupti.c", "launches.c")}
#: libraries of another vendor; a machine has the libraries of one vendor
ASCEND = {
    "libascendalog.so": ("ascend.c", "-DALOG"),
    "libprofapi.so": ("ascend.c", "-DPROFAPI"),
    "libascend_hal.so": ("ascend.c", "-DHAL"),
    "libascendcl.so": ("ascend.c", "-DACL"),
    "libmspti.so": ("mspti.c", "ascend_launches.c"),
}
#: libraries of that vendor that need variables for reading the data after the job
COUNTERS = {"libascendcl.so": ("ascend.c", "-DACL"), "libmsprofiler.so": ("aclprof.c",)}


#: program that every Python process of a job runs first: it moves the place of the driver's files
STAND_IN = """
import os
try:
    from ms_profiler.job.devices import npu
except ImportError:
    pass
else:
    npu.FOLDER = os.environ["FAKE_DEVICES"]
"""


def attached(folder):
    """Return the environment of a job on a machine with the files of an NPU's driver, which are put into a folder."""
    (folder / "dev").mkdir()
    (folder / "dev" / "davinci0").touch()
    (folder / "path").mkdir()
    (folder / "path" / "sitecustomize.py").write_text(STAND_IN)
    return {"FAKE_DEVICES": str(folder / "dev"), "PYTHONPATH": str(folder / "path")}


def build(folder, libraries=None):
    """Compile some fakes, those for CUDA by default, into a folder, under the names that a loader looks for."""
    for name, inputs in (libraries or LIBRARIES).items():
        build_one(folder, name, inputs)
    return folder


def build_one(folder, name, inputs):
    """Compile a fake from sources, with flags among them, into a folder, and return its path."""
    command = ["cc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", f"-Wl,-soname,{name}"]
    inputs = [item if item.startswith("-") else FAKES / item for item in inputs]
    subprocess.run([*command, *inputs, "-o", folder / name, "-ldl", "-pthread"], check=True)
    return folder / name


@pytest.fixture(scope="session")
def fakes(tmp_path_factory):
    """Return the folder with the libraries of CUDA."""
    return build(tmp_path_factory.mktemp("fakes"))


@pytest.fixture(scope="session")
def ascend_fakes(tmp_path_factory):
    """Return the folder with the libraries of CANN."""
    return build(tmp_path_factory.mktemp("ascend_fakes"), ASCEND)


@pytest.fixture(scope="session")
def counter_fakes(tmp_path_factory):
    """Return the folder with the libraries that aclprof is in."""
    return build(tmp_path_factory.mktemp("counter_fakes"), COUNTERS)


def runner(job, program, folder, vendor, library, log):
    """Return a function that runs a program in a mode beside fakes; its result has `log`, the calls of the fakes.

    Args:
        job: the fixture.
        program: takes the mode as its first word.
        folder: the folder of the fakes.
        vendor: the vendor of the interface, as variables have it.
        library: the made-up library.
        log: the file to which the library writes its calls.
    """

    def run(mode, *arguments, words="", folder=folder, **extra):
        log.unlink(missing_ok=True)
        env = {
            "LD_LIBRARY_PATH": str(folder),
            f"MS_PROFILER_LIB{vendor}": str(folder / library),
            f"FAKE_{vendor}": words,
            f"FAKE_{vendor}_LOG": str(log),
            "MS_PROFILER_RAISE": "1",
        }
        finished = job(program, mode, *map(str, arguments), env=env | extra.pop("env", {}), **extra)
        finished.calls = [tuple(line.split()[1:]) for line in log.read_text().splitlines()] if log.exists() else []
        finished.log = [name for name, _ in finished.calls]
        return finished

    return run
