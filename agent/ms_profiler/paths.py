"""Functions for paths of files that see no replacement of `os` and `os.path`, as tests of a job may install.

Python loads this module when it starts, so it imports only modules that Python has loaded before.
"""

import posix
from posixpath import basename, dirname, expanduser, isabs, join, normpath, realpath, relpath
from stat import S_ISDIR, S_ISLNK, S_ISREG

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "abspath",
    "basename",
    "dirname",
    "exists",
    "expanduser",
    "files",
    "getsize",
    "isabs",
    "isdir",
    "isfile",
    "islink",
    "join",
    "makedirs",
    "realpath",
    "relpath",
]


def abspath(path: str) -> str:
    """Return the absolute form of a path."""
    return normpath(path if isabs(path) else join(posix.getcwd(), path))


def exists(path: str) -> bool:
    """Return whether a path leads to something."""
    return _mode(path) != 0


def isdir(path: str) -> bool:
    """Return whether a path leads to a directory."""
    return S_ISDIR(_mode(path))


def isfile(path: str) -> bool:
    """Return whether a path leads to a regular file."""
    return S_ISREG(_mode(path))


def islink(path: str) -> bool:
    """Return whether a path is a symbolic link."""
    try:
        return S_ISLNK(posix.lstat(path).st_mode)
    except (OSError, ValueError):
        return False


def getsize(path: str) -> int:
    """Return the size of a file in bytes."""
    return posix.stat(path).st_size


def makedirs(path: str, mode: int) -> None:
    """Make a directory, and the directories above it, unless they exist.

    Args:
        path: the directory.
        mode: its mode, from which the system takes away the bits of the umask; the other directories get the usual one.
    """
    try:
        posix.mkdir(path, mode)
    except FileNotFoundError:
        above = dirname(path.rstrip("/"))
        if not above or isdir(above):  # in /proc, a directory that exists refuses others so
            raise
        makedirs(above, 0o777)
        makedirs(path, mode)
    except OSError:
        if not isdir(path):
            raise


def files(folder: str) -> "Iterator[tuple[str, list[str]]]":
    """Return a folder and each folder below it, with the names of its files; leave out folders that cannot be read."""
    try:
        with posix.scandir(folder) as found:
            entries = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in found]
    except OSError:
        return
    yield folder, [name for name, is_folder in entries if not is_folder]
    for name, is_folder in entries:
        if is_folder:
            yield from files(join(folder, name))


def _mode(path: str) -> int:
    """Return the type and the mode of a file; 0 if there is none."""
    try:
        return posix.stat(path).st_mode
    except (OSError, ValueError):
        return 0
