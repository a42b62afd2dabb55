"""Where the library of a device's tracing interface is: in the process already, or in one of the usual places.

A second copy of such a library in one process would be a second owner of the device, so one that is there already comes
first. Nothing here loads anything.
"""

import glob
import os
import re
import sys
from collections.abc import Iterable, Iterator

MAPS = "/proc/self/maps"
#: Set, it names the library to use.
VARIABLE = "MS_PROFILER_LIBCUPTI"
#: Where NVIDIA's packages of PyPI put it, below a folder of packages: of CUDA 13, and before.
PACKAGES = ("nvidia/cu[0-9]*/lib", "nvidia/cuda_cupti/lib")
#: Where its own installers do, below CUDA's folder.
INSTALLED = ("extras/CUPTI/lib64", "lib64", "targets/*/lib", "lib")
#: CUDA's folder
HOMES = ("CUDA_HOME", "CUDA_PATH")
USUAL = "/usr/local/cuda*"
#: What brings it where it is missing.
PACKAGE = "pip install nvidia-cuda-cupti-cu12 (or nvidia-cuda-cupti for CUDA 13)"
#: what the loader looks up by itself, newest first
NAMES = ("libcupti.so.13", "libcupti.so.12", "libcupti.so.11.8")

CUPTI = re.compile(r"/libcupti\.so(\.\d+)*$")
_RUNTIME = re.compile(r"/libcudart\.so\.(\d+)[^/]*$")
_MAJOR = re.compile(r"\.so\.(\d+)")


def mapped(pattern: "re.Pattern[str]", maps: str = MAPS) -> list[str]:
    """Return the files that this process has mapped and whose path fits, each once.

    Args:
        pattern: searched for in the path.
        maps: as the kernel lists them.
    """
    try:
        with open(maps, encoding="utf-8", errors="surrogateescape") as stream:
            paths = [line.rstrip("\n").split(maxsplit=5)[5] for line in stream if "/" in line]
    except OSError:
        return []
    return list(dict.fromkeys(path for path in paths if pattern.search(path)))


def libraries() -> list[str]:
    """Return where CUPTI can be loaded from, what is to be tried first at the front; the last may be names alone.

    Of several that are installed, one for the CUDA runtime that the process has loaded comes first: a library that is
    newer than the driver cannot be used.
    """
    chosen = os.environ.get(VARIABLE)
    if chosen:
        return [chosen]
    there = mapped(CUPTI)
    if there:
        return there
    runtimes = [_RUNTIME.search(path) for path in mapped(_RUNTIME)]
    majors = {runtime[1] for runtime in runtimes if runtime}
    found = [*_installed(), *NAMES]
    return sorted(dict.fromkeys(found), key=lambda path: not majors & set(_MAJOR.findall(path)))


def _installed() -> Iterator[str]:
    for folder in [*sys.path, os.path.join(sys.prefix, "lib")]:
        yield from _below(folder, PACKAGES)
    for home in [*filter(None, map(os.environ.get, HOMES)), *sorted(glob.glob(USUAL), reverse=True)]:
        yield from _below(home, INSTALLED)


def _below(folder: str, places: Iterable[str]) -> Iterator[str]:
    """Yield the libraries in some places below a folder; of one place the file of its major version alone."""
    for place in places if folder else ():
        for directory in sorted(glob.glob(os.path.join(glob.escape(folder), place)), reverse=True):
            found = sorted(glob.glob(os.path.join(glob.escape(directory), "libcupti.so.*")), key=len)
            yield from found[:1]
