"""Access results in a file system of this machine, or in an object store that fsspec reads, such as S3.

Small files are read in place. If an analysis needs files on a disk, they are fetched into a temporary directory. If the
files `_SMALL` are enough for the figures (the account) of a rank, only these are fetched; otherwise all its files.
"""

import importlib
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, cast

from ms_profiler.analysis.driver import engine
from ms_profiler.errors import DependencyError, MsProfilerError, StoreError, UsageError
from ms_profiler.store import layout

_SIGN: Final = "://"
_LOCAL: Final = "file://"
_RESULTS: Final = (layout.SUFFIX, layout.TORCH_SUFFIX)
_TRACES: Final = (".pt.trace.json", ".pt.trace.json.gz")
#: files from which the figures (the account) of a rank are read
_SMALL: Final = re.compile(
    r"FRAMEWORK/run_info\.json|profiler_info_\d+\.json|profiler_metadata\.json|rank\.json"
    r"|ASCEND_PROFILER_OUTPUT/(communication\.json|step_trace_time\.csv)"
)


class _MissingError(StoreError):
    """There is nothing at an address."""


def remote(path: str) -> bool:
    """Return whether a path is an address for fsspec, and not a local path."""
    return _SIGN in path and not path.startswith(_LOCAL)


def find(paths: list[str]) -> list[str]:
    """Return the results and traces among paths and one level below them, as `engine.find` does for local paths.

    Args:
        paths: the paths of directories and files, or their addresses in an object store.

    Raises:
        StoreError: one of the paths holds neither a result nor a trace.
        DependencyError: the package that reads an address is not installed.
    """
    found: list[str] = []
    for path in paths:
        below = _below(path) if remote(path) else engine.find([path.removeprefix(_LOCAL)])
        found += [each for each in below if each not in found]
    return found


def content(path: str) -> bytes:
    """Return the bytes of a file.

    Raises:
        OSError: the file cannot be read.
    """
    if remote(path):
        files, place = _files(path)
        try:
            with _translated(path):
                return cast(bytes, files.cat_file(place))
        except _MissingError as error:
            raise FileNotFoundError(2, "No such file", path) from error
    with open(path, "rb") as stream:
        return stream.read()


class Listing:
    """The files and directories below a directory."""

    def __init__(self, directory: str) -> None:
        """List an address completely now. A local directory is listed later, when `walk` or `names` reads it.

        Args:
            directory: the directory or its address.
        """
        self.base = directory.rstrip("/") if remote(directory) else os.path.abspath(directory.removeprefix(_LOCAL))
        self._known: dict[str, tuple[list[str], list[str]]] | None = None
        if remote(directory):
            self._known = _tree(self.base)

    def walk(self) -> Iterator[tuple[str, list[str], list[str]]]:
        """Yield directories as `os.walk` does. If the caller removes a directory from the list, it is skipped."""
        if self._known is None:
            yield from os.walk(self.base)
            return
        waiting = [self.base]
        while waiting:
            below = waiting.pop()
            names, files = (list(each) for each in self._known.get(below, ([], [])))
            yield below, names, files
            waiting += [f"{below}/{name}" for name in reversed(names)]

    def names(self, path: str) -> list[str]:
        """Return the names in a directory.

        Raises:
            OSError: there is no such directory.
        """
        if self._known is None:
            return os.listdir(path)
        if path not in self._known:
            raise FileNotFoundError(2, "No such file or directory", path)
        return [name for names in self._known[path] for name in names]


@contextmanager
def local(path: str, everything: bool = False) -> Iterator[str]:
    """Return a context manager that gives a local copy of a result. The copy exists until the block ends.

    Args:
        path: the path of the result, or its address in an object store.
        everything: whether to fetch all files; if false, only the files for the figures (account) of the rank.

    Raises:
        StoreError: the result cannot be fetched.
    """
    if not remote(path):
        yield path
        return
    files, place = _files(path)
    with tempfile.TemporaryDirectory(prefix="ms-profiler-") as folder:
        target = os.path.join(folder, os.path.basename(path.rstrip("/")))
        with _translated(path):
            if path.endswith(_TRACES):
                files.get_file(place, target)
            else:
                below = [name.removeprefix(place).lstrip("/") for name in sorted(files.find(place))]
                for name in below if everything else _needed(below):
                    os.makedirs(os.path.dirname(os.path.join(target, name)), exist_ok=True)
                    files.get_file(f"{place}/{name}", os.path.join(target, name))
        yield target


@contextmanager
def written(path: str) -> Iterator[str]:
    """Return a context manager that gives a writable directory for files that shall be stored at a path.

    If the path is an address, the directory is temporary, and its files are uploaded when the block ends.

    Args:
        path: the path of a directory, or its address.

    Raises:
        MsProfilerError: the files cannot be written there.
    """
    if not remote(path):
        yield path.removeprefix(_LOCAL)
        return
    files, place = _files(path)
    with tempfile.TemporaryDirectory(prefix="ms-profiler-") as folder:
        yield folder
        with _translated(path, "written"):
            for below, _, names in os.walk(folder):
                for name in sorted(names):
                    full = os.path.join(below, name)
                    files.put_file(full, f"{place}/{os.path.relpath(full, folder)}")


def sizes(path: str) -> dict[str, int]:
    """Return the size in bytes of each file below an address, by relative path; empty if nothing is there."""
    files, place = _files(path)
    try:
        with _translated(path):
            found = files.find(place, detail=True)
    except _MissingError:
        return {}
    return {full.removeprefix(place).lstrip("/"): int(each.get("size") or 0) for full, each in found.items()}


def send(names: dict[str, str], path: str) -> None:
    """Upload files to an object store.

    Args:
        names: path relative to the address -> path of the file on this machine. An empty relative path stands for the
            address itself.
        path: the address.

    Raises:
        StoreError: the files cannot be written there.
    """
    files, place = _files(path)
    with _translated(path, "written"):
        for name, full in names.items():
            files.put_file(full, f"{place}/{name}".rstrip("/"))


def _below(path: str) -> list[str]:
    base = path.rstrip("/")
    if base.endswith((*_RESULTS, *_TRACES)):
        return [base]
    names, files = _tree(base).get(base, ([], []))
    found = [f"{base}/{name}" for name in names if name.endswith(_RESULTS)]
    found = found or [f"{base}/{name}" for name in files if name.endswith(_TRACES)]
    if not found:
        raise StoreError(f"{path} holds no recording.")
    return found


def _tree(base: str) -> dict[str, tuple[list[str], list[str]]]:
    """Return for each directory at or below an address the sorted names of its directories and of its files.

    Everything is listed at once, because this is faster than a listing for each directory.
    """
    files, place = _files(base)
    known: dict[str, tuple[list[str], list[str]]] = {}
    with _translated(base):
        names = sorted(files.find(place))
    for full in names:
        parts = full.removeprefix(place).strip("/").split("/")
        for depth, name in enumerate(parts):
            where = known.setdefault("/".join([base, *parts[:depth]]), ([], []))
            kind = where[depth == len(parts) - 1]
            if name not in kind[-1:]:
                kind.append(name)
    return known


def _needed(names: list[str]) -> list[str]:
    """Return those files of a result from which the figures (the account) of its rank are read."""
    ours = any(name.startswith(f"{layout.FRAMEWORK}/") for name in names)
    enough = layout.RANK in names if ours else f"{layout.OUTPUT}/{layout.COMMUNICATION}" in names
    if not enough:
        return names
    # `rank.json` is fetched last, because it is ignored if it is older than `run_info.json`
    return sorted((name for name in names if _SMALL.fullmatch(name)), key=lambda name: name == layout.RANK)


def _files(path: str) -> tuple[Any, str]:
    """Return fsspec's file system for an address, and the path in this file system."""
    protocol = path.partition(_SIGN)[0]
    remedy = f"Install fsspec with its packages for {protocol}: pip install 'ms-profiler[s3]' for s3."
    try:
        fsspec: Any = importlib.import_module("fsspec")
        with _translated(path):
            files, place = fsspec.core.url_to_fs(path)
    except ImportError as error:
        raise DependencyError(f"{path} needs a package that is not installed ({error}).", remedy) from error
    except ValueError as error:
        raise UsageError(f"{path}: {error}.", "Name a directory, or an address such as s3://BUCKET/JOB.") from error
    return files, str(place).rstrip("/")


@contextmanager
def _translated(path: str, done: str = "read") -> Iterator[None]:
    """Raise the errors of an object store as `StoreError`, because each store's package has its own error types."""
    try:
        yield
    except (MsProfilerError, ImportError, ValueError):
        raise
    except FileNotFoundError as error:
        raise _MissingError(f"{path} does not exist.", "Is the address right?") from error
    except Exception as error:
        words = " ".join(str(error).split())
        raise StoreError(
            f"{path} cannot be {done} ({type(error).__name__}: {words}).", "Are address and keys right?"
        ) from error
