"""The made-up device libraries of `fakes/`, built once for a run of the tests."""

import subprocess
from pathlib import Path

import pytest

FAKES = Path(__file__).parent / "fakes"
#: the vendor's name of a library -> sources
LIBRARIES = {"libcuda.so.1": ("cuda.c",), "libcupti.so.12": ("cupti.c", "launches.c")}


def build(folder, names=LIBRARIES):
    """Compile fakes into a folder, every one or some, under the names that a loader looks for."""
    for name in names:
        command = ["cc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", f"-Wl,-soname,{name}"]
        subprocess.run(
            [*command, *(FAKES / source for source in LIBRARIES[name]), "-o", folder / name, "-ldl", "-pthread"],
            check=True,
        )
    return folder


@pytest.fixture(scope="session")
def fakes(tmp_path_factory):
    """Return the folder with the libraries."""
    return build(tmp_path_factory.mktemp("fakes"))
