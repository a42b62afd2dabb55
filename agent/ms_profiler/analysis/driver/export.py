"""Export the data of aclprof: CANN's own `msprof` turns a folder `PROF_*` into tables and a trace.

`msprof` runs on copies of the folders, so that it cannot change the result. The copies consist of hard links. The
output of `msprof` is stored beside the raw data, or in the output directory, and the next analysis reads it from there.
Raw data is never removed. On a machine without `msprof`, the user can copy the result to a machine that has it.
"""

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from ms_profiler import cann
from ms_profiler.store import layout

#: folder of msprof's tables and traces, in the folder of the raw data
OUTPUT: Final = "mindstudio_profiler_output"
#: prefixes of msprof's output files that hold the device's data
NEEDED: Final = ("msprof_", "op_summary_")
#: longest time that msprof may take, in seconds; it needs minutes for a recording of some minutes
PATIENCE_S: Final = 3600
_PREFIX: Final = "PROF_"
#: Shell script that runs a command, and kills the command with all its children when standard input closes. The
#: analysis holds the other end of standard input. So if the analysis is killed, msprof does not run on for minutes.
_TIED: Final = (
    'exec 3<&0; (cat <&3; kill -9 0) >/dev/null 2>&1 & watch=$!; "$@" </dev/null 3<&-; status=$?; '
    "kill $watch 2>/dev/null; exit $status"
)
#: name of a temporary copy, with the process id of the analysis that made it
_SCRATCH: Final = re.compile(rf"\.{cann.TOOL}\.(\d+)\.tmp")
#: number of characters of msprof's last line that a message shows
_TOLD: Final = 200


@dataclass(frozen=True)
class Export:
    """One folder of raw data.

    Attributes:
        folder: the folder of the raw data.
        output: folder of msprof's output; empty if there is none.
        why: why there is no output, and what the user can do, in one line.
    """

    folder: str
    output: str = ""
    why: str = ""

    @property
    def name(self) -> str:
        """Return the name of the folder."""
        return os.path.basename(self.folder)


def look(directory: str, target: str = "") -> list[Export]:
    """Return the folders of raw data in a result directory, with the exports that exist already; do not run msprof.

    Args:
        directory: the result.
        target: the directory that receives derived files, if it is not the result.
    """
    return [_look(folder, directory, target) for folder in _folders(directory)]


def export(directory: str, target: str = "", patience: float = PATIENCE_S) -> list[Export]:
    """Let msprof export those folders of raw data that have no export yet, and return all exports.

    Args:
        directory: the result.
        target: the directory that receives derived files, if it is not the result.
        patience: seconds that msprof may take for a folder.
    """
    return [
        found if found.output else _export(found.folder, directory, target or directory, patience)
        for found in look(directory, target)
    ]


def _folders(directory: str) -> list[str]:
    try:
        found = sorted(entry.path for entry in os.scandir(directory) if entry.is_dir(follow_symlinks=False))
    except OSError:
        return []
    return [path for path in found if os.path.basename(path).startswith(_PREFIX)]


def _look(folder: str, directory: str, target: str) -> Export:
    for place in (target, directory):
        output = os.path.join(place, os.path.basename(folder), OUTPUT) if place else ""
        if output and _complete(output):
            return Export(folder, output)
    return Export(folder, why=f"msprof has not read it yet; run: ms-profiler analyse {directory}")


def _complete(output: str) -> bool:
    """Return whether msprof has finished: then a trace of the device, or a table of its kernels, exists."""
    try:
        return any(name.startswith(NEEDED) for name in os.listdir(output))
    except OSError:
        return False


def _export(folder: str, directory: str, target: str, patience: float) -> Export:
    advice = f"on a machine with CANN, run: msprof --export=on --output={folder}, then: ms-profiler analyse {directory}"
    found = cann.msprof()
    if not found:
        return Export(folder, why=f"msprof is not found; {advice}")
    try:
        with _copied(folder, target) as copy:
            why = _run(found, copy, patience)
            made = os.path.join(copy, OUTPUT)
            if not why and not _complete(made):
                why = "msprof wrote no trace and no table of kernels"
            if why:
                return Export(folder, why=f"{why}; the raw data are kept; {advice}")
            output = os.path.join(target, os.path.basename(folder), OUTPUT)
            shutil.rmtree(output, ignore_errors=True)
            os.makedirs(os.path.dirname(output), layout.DIRECTORY_MODE, exist_ok=True)
            _make_ours(made)
            os.rename(made, output)
    except OSError as error:
        return Export(folder, why=f"msprof cannot be given a copy of it ({error}); {advice}")
    return Export(folder, output)


@contextmanager
def _copied(folder: str, target: str) -> Iterator[str]:
    """Yield a temporary copy of a folder. The copy is inside `target`, and consists of hard links if possible."""
    os.makedirs(target, layout.DIRECTORY_MODE, exist_ok=True)
    for name in os.listdir(target):
        if (match := _SCRATCH.fullmatch(name)) and not os.path.exists(f"/proc/{match[1]}"):
            shutil.rmtree(os.path.join(target, name), ignore_errors=True)  # left over from an analysis that was killed
    place = os.path.join(target, f".{cann.TOOL}.{os.getpid()}.tmp")
    os.mkdir(place, layout.DIRECTORY_MODE)
    copy = os.path.join(place, os.path.basename(folder))
    try:
        shutil.copytree(folder, copy, copy_function=_link, ignore=shutil.ignore_patterns(OUTPUT))
        yield copy
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _make_ours(folder: str) -> None:
    """Give msprof's files and folders the permissions that files and folders of a result have."""
    for place, _, names in os.walk(folder):
        os.chmod(place, layout.DIRECTORY_MODE)
        for name in names:
            if not os.path.islink(path := os.path.join(place, name)):
                os.chmod(path, layout.FILE_MODE)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:  # the copy is on another file system, or the file system has no hard links
        shutil.copy2(source, target, follow_symlinks=False)


def _run(tool: str, folder: str, patience: float) -> str:
    """Run msprof, and return the reason of a failure in one line; an empty text on success.

    The children of msprof end when msprof ends, or when this process ends.
    """
    words = ["/bin/sh", "-c", _TIED, "sh", tool, "--export=on", f"--output={folder}"]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("MS_PROFILER_")}
    theirs, ours = os.pipe()
    try:
        with subprocess.Popen(
            words,
            env=environ,
            stdin=theirs,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as process:
            try:
                said, _ = process.communicate(timeout=patience)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                return f"msprof did not end within {patience:g} s"
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)
                raise
    finally:
        os.close(theirs)
        os.close(ours)
    if not process.returncode:
        return ""
    lines = said.decode("utf-8", "replace").strip().splitlines()
    return f"msprof ended with {process.returncode} ({lines[-1][:_TOLD] if lines else 'it said nothing'})"
