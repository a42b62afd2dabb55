"""The made-up device libraries of `fakes/`, built once for a run of the tests."""

import subprocess
from pathlib import Path

import pytest

FAKES = Path(__file__).parent / "fakes"
#: source -> the vendor's name of the library
LIBRARIES = {"cuda.c": "libcuda.so.1", "cupti.c": "libcupti.so.12"}


def build(folder):
    """Compile every fake into a folder, under the name that a loader looks for."""
    for source, name in LIBRARIES.items():
        command = ["cc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", f"-Wl,-soname,{name}"]
        subprocess.run([*command, FAKES / source, "-o", folder / name, "-ldl", "-pthread"], check=True)
    return folder


@pytest.fixture(scope="session")
def fakes(tmp_path_factory):
    """Return the folder with the libraries."""
    return build(tmp_path_factory.mktemp("fakes"))
