"""Copy the results of one machine to a place that all machines share, after the job or while it ends.

While a file is copied, it has a temporary name. So a copied result appears only when it is complete. Files that have
not changed are not copied again. So the command may run on every machine, and again later.
"""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field

from ms_profiler.analysis.cluster import storage
from ms_profiler.analysis.driver import liveness
from ms_profiler.errors import StoreError, UsageError
from ms_profiler.store import layout, run_info

#: end of the name of a copy that is not complete
PART = ".part"


@dataclass
class Copied:
    """The outcome of copying.

    Attributes:
        results: the names of the results that are complete at the target.
        files: the number of files that were copied.
        bytes: the number of bytes in these files.
        remarks: a sentence for each result that was left out.
    """

    results: list[str] = field(default_factory=list)
    files: int = 0
    bytes: int = 0
    remarks: list[str] = field(default_factory=list)


def copy(paths: list[str], target: str) -> Copied:
    """Copy results to a directory or an address in an object store.

    Args:
        paths: the paths of results on this machine, from `storage.find`.
        target: the directory or the address, such as `s3://BUCKET/JOB`. A missing directory is made.

    Raises:
        StoreError: the target cannot be written.
        UsageError: a result is not on this machine.
    """
    done = Copied()
    for path in paths:
        if storage.remote(path):
            raise UsageError(f"{path} is no directory of this machine.", "Name the directory that the job wrote.")
        name = os.path.basename(os.path.abspath(path))
        if _runs(path):
            done.remarks.append(f"{name} is still being recorded; it is left out.")
            continue
        try:
            _send(path, name, target, done)
        except OSError as error:
            raise StoreError(
                f"{name} cannot be copied to {target} ({error.strerror or error}).", "Is there room, and may you write?"
            ) from error
        done.results.append(name)
    return done


def _runs(path: str) -> bool:
    """Return whether a process is still writing a result."""
    for folder in layout.process_dirs(path):
        try:
            info = run_info.read_run(layout.run_info_path(path))
            process = run_info.read_process(os.path.join(folder, layout.PROCESS_INFO))
        except (OSError, ValueError, TypeError):
            continue
        if liveness.state_of(process, info, folder) == liveness.RUNNING:
            return True
    return False


def _send(path: str, name: str, target: str, done: Copied) -> None:
    if storage.remote(target):
        there = storage.sizes(f"{target.rstrip('/')}/{name}")
        files = [(full, part) for full, part in _files(path) if there.get(part) != os.path.getsize(full)]
        storage.send({part: full for full, part in files}, f"{target.rstrip('/')}/{name}")
    else:
        place = os.path.join(target, name)
        files = [
            (full, part) for full, part in _files(path) if not _same(full, os.path.join(place, part) if part else place)
        ]
        whole = os.path.isdir(path) and not os.path.exists(place)
        into = place + PART if whole else place
        for full, part in files:
            copied = os.path.join(into, part) if part else into
            os.makedirs(os.path.dirname(copied), layout.DIRECTORY_MODE, exist_ok=True)
            shutil.copy2(full, copied + PART, follow_symlinks=False)
            os.replace(copied + PART, copied)
        if whole and files:
            os.rename(into, place)
    done.files += len(files)
    done.bytes += sum(os.path.getsize(full) for full, _ in files)


def _files(path: str) -> Iterator[tuple[str, str]]:
    """Yield each plain file of a result: its path, and its path within the result (empty for a single trace)."""
    if os.path.isfile(path):
        yield path, ""
        return
    for below, _, names in os.walk(path):
        for name in sorted(names):
            full = os.path.join(below, name)
            if os.path.isfile(full) and not os.path.islink(full):
                yield full, os.path.relpath(full, path)


def _same(full: str, copied: str) -> bool:
    """Return whether a copy has the same size and time as its original, so that it need not be copied again."""
    try:
        mine, theirs = os.stat(full), os.stat(copied)
    except OSError:
        return False
    return (mine.st_size, int(mine.st_mtime)) == (theirs.st_size, int(theirs.st_mtime))
