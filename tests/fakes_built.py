"""Build the fake device libraries of `fakes/`, once for each run of the tests."""

import subprocess
from pathlib import Path

import pytest

FAKES = Path(__file__).parent / "fakes"
#: name of a library of CUDA -> its source files and compiler flags
LIBRARIES = {"libcuda.so.1": ("cuda.c",), "libcupti.so.12": ("cupti.c", "launches.c")}
#: name of a library of CANN -> its source files and flags; separate from CUDA's, because a machine has one vendor's
#: libraries
ASCEND = {
    "libascendalog.so": ("ascend.c", "-DALOG"),
    "libprofapi.so": ("ascend.c", "-DPROFAPI"),
    "libascend_hal.so": ("ascend.c", "-DHAL"),
    "libascendcl.so": ("ascend.c", "-DACL"),
    "libmspti.so": ("mspti.c", "ascend_launches.c"),
}
#: libraries of CANN that a job with aclprof needs, and whose data the analysis reads after the job
COUNTERS = {"libascendcl.so": ("ascend.c", "-DACL"), "libmsprofiler.so": ("aclprof.c",)}


#: program that each Python process of a job runs first; it makes ms-profiler look for an NPU in another folder than
#: `/dev`
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
    """Write a folder like `/dev` of a machine with an NPU, and return the environment of a job that uses it."""
    (folder / "dev").mkdir()
    (folder / "dev" / "davinci0").touch()
    (folder / "path").mkdir()
    (folder / "path" / "sitecustomize.py").write_text(STAND_IN)
    return {"FAKE_DEVICES": str(folder / "dev"), "PYTHONPATH": str(folder / "path")}


def build(folder, libraries=None):
    """Compile fakes into a folder under the names that a loader looks for, and return the folder; by default CUDA's."""
    for name, inputs in (libraries or LIBRARIES).items():
        build_one(folder, name, inputs)
    return folder


def build_one(folder, name, inputs):
    """Compile a fake library into a folder and return its path; `inputs` are source files and compiler flags."""
    command = ["cc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", f"-Wl,-soname,{name}"]
    inputs = [item if item.startswith("-") else FAKES / item for item in inputs]
    subprocess.run([*command, *inputs, "-o", folder / name, "-ldl", "-pthread"], check=True)
    return folder / name


@pytest.fixture(scope="session")
def fakes(tmp_path_factory):
    """Return the folder with the fake libraries of CUDA."""
    return build(tmp_path_factory.mktemp("fakes"))


@pytest.fixture(scope="session")
def ascend_fakes(tmp_path_factory):
    """Return the folder with the fake libraries of CANN."""
    return build(tmp_path_factory.mktemp("ascend_fakes"), ASCEND)


@pytest.fixture(scope="session")
def counter_fakes(tmp_path_factory):
    """Return the folder with the fake libraries that contain aclprof."""
    return build(tmp_path_factory.mktemp("counter_fakes"), COUNTERS)


def loading(folder, vendor, library):
    """Return the environment of a job that loads the fakes of a folder.

    Args:
        folder: the folder of the fakes.
        vendor: the name of the vendor's interface, as the names of environment variables contain it.
        library: the file name of the fake library of the interface.
    """
    return {"LD_LIBRARY_PATH": str(folder), f"MS_PROFILER_LIB{vendor}": str(folder / library)}


def runner(job, program, folder, vendor, library, log):
    """Return a function that runs a program beside fakes.

    The function takes the program's mode and further arguments. It returns the run with two more attributes: `calls`
    holds the calls of the fake library, `log` the names of these calls.

    Args:
        job: the fixture `job`.
        program: the program; its first argument is the mode.
        folder: the folder of the fakes.
        vendor: the name of the vendor's interface, as the names of environment variables contain it.
        library: the file name of the fake library of the interface.
        log: the file to which the library writes its calls.
    """

    def run(mode, *arguments, words="", folder=folder, **extra):
        log.unlink(missing_ok=True)
        env = {
            **loading(folder, vendor, library),
            f"FAKE_{vendor}": words,
            f"FAKE_{vendor}_LOG": str(log),
            "MS_PROFILER_RAISE": "1",
        }
        finished = job(program, mode, *map(str, arguments), env=env | extra.pop("env", {}), **extra)
        finished.calls = [tuple(line.split()[1:]) for line in log.read_text().splitlines()] if log.exists() else []
        finished.log = [name for name, _ in finished.calls]
        return finished

    return run
