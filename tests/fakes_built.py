"""The made-up device libraries of `fakes/`, built once for a run of the tests."""

import subprocess
from pathlib import Path

import pytest

FAKES = Path(__file__).parent / "fakes"
#: the vendor's name of a library -> sources
LIBRARIES = {
    "libcuda.so.1": ("cuda.c",),
    "libcupti.so.12": ("cupti.c", "launches.c"),
    "libascendcl.so": ("acl.c",),
    "libmsprofiler.so": ("aclprof.c",),
}


def build(folder):
    """Compile every fake into a folder, under the name that a loader looks for."""
    for name, sources in LIBRARIES.items():
        build_one(folder, name, sources)
    return folder


def build_one(folder, name, sources, *flags):
    """Compile a fake into a folder, and return its path."""
    command = ["cc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", f"-Wl,-soname,{name}"]
    files = [FAKES / source for source in sources]
    subprocess.run([*command, *flags, *files, "-o", folder / name, "-ldl", "-pthread"], check=True)
    return folder / name


@pytest.fixture(scope="session")
def fakes(tmp_path_factory):
    """Return the folder with the libraries."""
    return build(tmp_path_factory.mktemp("fakes"))
