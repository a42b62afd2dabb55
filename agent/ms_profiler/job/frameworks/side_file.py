"""Write a JSON file beside the segments of a process, for example the nodes of a backward pass."""

import json
import os
from typing import TYPE_CHECKING, Any

from ms_profiler.store import anonymous, layout

if TYPE_CHECKING:
    from ms_profiler.job.host import Host


def as_json(host: "Host", content: Any) -> str:
    """Return a JSON value as text, with names of the job replaced if the option `anonymize` is set.

    Args:
        host: the session.
        content: a JSON value.
    """
    return json.dumps(anonymous.content(content) if host.asks("anonymize") else content)


def write(host: "Host", path: str, value: Any) -> None:
    """Write a new file, and count its bytes towards `max_disk`.

    Args:
        host: the session.
        path: the path of the file, which does not exist; its folder is made.
        value: the content of the file, a JSON value.
    """
    content = as_json(host, value).encode()
    os.makedirs(os.path.dirname(path), layout.DIRECTORY_MODE, exist_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, layout.FILE_MODE), "wb") as stream:
        stream.write(content)
    host.recorder.spend(len(content))
