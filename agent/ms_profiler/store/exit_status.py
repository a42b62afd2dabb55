"""The exit status of a process, which the process writes to a file when it ends.

The file `exit_status` in the folder of the process holds the exit status, 0 to 255, in decimal digits, and a line feed.
`ms-profiler run` has a second process that watches the command. If a recorded process did not write the file, the
watcher writes it: the exit status, or -N if signal N ended the process.

Without the watcher, the file is missing in three cases: a signal or `os._exit` ended the process, the process still
runs, or the process used the recorder that is written in Python.
"""

import posix
from _io import open

from ms_profiler import paths
from ms_profiler.store import layout

#: largest number of bytes that `read` reads; the content of a valid file is shorter
_MOST = 16


def read(folder: str) -> int | None:
    """Return the exit status of the process that recorded into `folder`; None if there is no file `exit_status`.

    If signal N ended the process, the result is -N.

    Args:
        folder: a `process_{pid}` directory.
    """
    try:
        with open(paths.join(folder, layout.EXIT_STATUS), "rb") as stream:
            return int(stream.read(_MOST))
    except (OSError, ValueError):
        return None


def write(folder: str, status: int) -> None:
    """Write the exit status of the process that recorded into `folder`, if the process did not write it itself.

    Args:
        folder: a `process_{pid}` directory.
        status: the exit status; -N if signal N ended the process.

    Raises:
        OSError: the process wrote the file itself, or the file cannot be written.
    """
    path, flags = (
        paths.join(folder, layout.EXIT_STATUS),
        posix.O_WRONLY | posix.O_CREAT | posix.O_EXCL | posix.O_NOFOLLOW,
    )
    descriptor = posix.open(path, flags | posix.O_CLOEXEC, layout.FILE_MODE)
    try:
        posix.write(descriptor, b"%d\n" % status)
    finally:
        posix.close(descriptor)
