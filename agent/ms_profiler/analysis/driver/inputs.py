"""Find inputs of an analysis: ms-profiler's own recordings, results of Ascend's profilers, and traces."""

import contextlib
import os
from enum import Enum
from typing import Final

from ms_profiler.errors import StoreError
from ms_profiler.store import layout

#: In a directory, only files with these endings are taken for traces. A trace that the user names may have any name.
_TRACES: Final = (".pt.trace.json", ".pt.trace.json.gz")
_PACKED: Final = ".gz"
_JSON: Final = ".json"
#: suffix of the directory that an analysis makes beside a trace
RESULT: Final = "_analysis"
#: largest number of directories that an error names
_NAMED: Final = 3
_SUFFIXES: Final = (layout.SUFFIX, layout.TORCH_SUFFIX)


class Kind(Enum):
    """Origin of an input."""

    STORE = "our own recording"
    ASCEND = "a result of MindSpore's or PyTorch's profiler on Ascend"
    TRACE = "a trace in the Chrome format"


def kind(path: str) -> Kind | None:
    """Return the kind of input at a path; None if there is nothing at the path that ms-profiler can analyse.

    Results of MindSpore's profiler also have a folder with the name of ms-profiler's store. But that folder has no
    folders of processes.

    Args:
        path: a file or a directory.
    """
    if os.path.isfile(path):
        return Kind.TRACE
    if layout.process_dirs(path) or os.path.exists(layout.run_info_path(path)):
        return Kind.STORE
    if os.path.isdir(layout.output_dir(path)):
        return Kind.ASCEND
    # the directory looks like a recording; the reader will report why it cannot be read
    return Kind.STORE if os.path.isdir(layout.framework_dir(path)) else None


def find(directories: list[str]) -> list[str]:
    """Return the inputs that can be analysed: the given paths, and what is directly inside of the given directories.

    Args:
        directories: files or directories.

    Raises:
        StoreError: one of the directories holds no input.
    """
    found: list[str] = []
    for directory in directories:
        below = [directory] if kind(directory) is not None else _below(directory)
        if not below and (deeper := _deeper(directory)):
            named = " or ".join(deeper[:_NAMED]) + " or another one" * (len(deeper) > _NAMED)
            raise StoreError(f"{directory} holds no recording itself, but {deeper[0]} does.", f"Name {named}.")
        if not below:
            raise StoreError(f"{directory} holds no recording{_raw(directory)}.")
        found += [path for path in below if path not in found]
    return found


def small(paths: list[str], most: int) -> bool:
    """Return whether the files of all inputs together have at most `most` bytes.

    Args:
        paths: paths of inputs, from `find`.
        most: the number of bytes.
    """
    left = most
    for path in paths:
        below = (os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names)
        for file in below if os.path.isdir(path) else (path,):
            with contextlib.suppress(OSError):  # another process may remove a file meanwhile
                left -= os.lstat(file).st_size
            if left < 0:
                return False
    return True


def result(path: str, output: str | None = None) -> str:
    """Return the directory for derived files: the result, a directory beside a trace, or a directory in `output`.

    Args:
        path: the path of a result or trace, from `find`.
        output: a directory that receives a directory for each result, with the name of the result; None to write into
            the result itself.
    """
    place = path
    if kind(path) == Kind.TRACE:
        place = path.removesuffix(_PACKED).removesuffix(_JSON) + RESULT
    return place if output is None else os.path.join(output, os.path.basename(os.path.abspath(place)))


def _below(directory: str) -> list[str]:
    names = _names(directory)
    paths = [os.path.join(directory, name) for name in names if name.endswith(_SUFFIXES)]
    found = [path for path in paths if kind(path) in (Kind.STORE, Kind.ASCEND)]
    return found or [os.path.join(directory, name) for name in names if name.endswith(_TRACES)]


def _deeper(directory: str) -> list[str]:
    """Return the directories in a directory that hold inputs; the user may mean one of them."""
    paths = [os.path.join(directory, name) for name in _names(directory)]
    return [path for path in paths if os.path.isdir(path) and os.access(path, os.R_OK | os.X_OK) and _below(path)]


def _raw(directory: str) -> str:
    """Return words about a directory that has only raw data of aclprof; empty for other directories."""
    names = _names(directory)
    if any(name.startswith("PROF_") for name in names):
        return ": only CANN's own tools read its raw data (PROF_*); ms-profiler reads the files that they export"
    return ""


def _names(directory: str) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except OSError as error:
        raise StoreError(f"{directory}: {error.strerror}.") from error
