"""Write a JSON file beside the files of a process's records, for example with the nodes of a backward pass."""

import json
import os
import posix
from _io import open
from typing import TYPE_CHECKING, Any

from ms_profiler.store import anonymous, layout

if TYPE_CHECKING:
    from ms_profiler.job.host import Host


def as_json(host: "Host", content: Any) -> str:
    """Return a JSON value as text; if the option `anonymize` is set, replace the names that come from the job.

    Args:
        host: the session, which knows the options.
        content: a JSON value.
    """
    return json.dumps(anonymous.content(content) if host.asks("anonymize") else content)


def write(host: "Host", path: str, value: Any) -> None:
    """Write a new JSON file, and count its bytes towards the option `max_disk`.

    Args:
        host: the session, which counts the bytes on disk.
        path: path of the new file. The file must not exist; its folder is made if necessary.
        value: the content of the file, a JSON value.
    """
    content = as_json(host, value).encode()
    os.makedirs(os.path.dirname(path), layout.DIRECTORY_MODE, exist_ok=True)
    with open(posix.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, layout.FILE_MODE), "wb") as stream:
        stream.write(content)
    host.recorder.spend(len(content))
