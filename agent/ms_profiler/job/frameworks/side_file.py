"""Write a JSON file beside the files of a process's records, for example with the nodes of a backward pass."""

import posix
from _io import open
from json import dumps
from typing import TYPE_CHECKING, Any

from ms_profiler import paths
from ms_profiler.store import anonymous, layout
from ms_profiler.store.file_limit import limited

if TYPE_CHECKING:
    from ms_profiler.job.host import Host


def as_json(host: "Host", content: Any) -> str:
    """Return a JSON value as text; if the option `anonymize` is set, replace the names that come from the job.

    Args:
        host: the session, which knows the options.
        content: a JSON value.
    """
    return dumps(anonymous.content(content) if host.asks("anonymize") else content)


def write(host: "Host", path: str, value: Any) -> None:
    """Write a new JSON file, and count its bytes towards the option `max_disk`.

    The file gets its name when it is complete, because the process may be killed at any time.

    Args:
        host: the session, which counts the bytes on disk.
        path: path of the new file; its folder is made if necessary.
        value: the content of the file, a JSON value.

    Raises:
        FileExistsError: the file exists, or another thread writes it.
    """
    content = as_json(host, value).encode()
    paths.makedirs(paths.dirname(path), layout.DIRECTORY_MODE)
    part = f"{path}.part"
    descriptor = posix.open(part, posix.O_WRONLY | posix.O_CREAT | posix.O_EXCL, layout.FILE_MODE)
    try:
        with limited(), open(descriptor, "wb") as stream:
            stream.write(content)
        if paths.exists(path):
            raise FileExistsError(f"{path} exists")
        posix.rename(part, path)
    finally:
        if paths.exists(part):
            posix.unlink(part)
    host.recorder.spend(len(content))
