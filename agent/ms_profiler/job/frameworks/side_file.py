"""Write a file beside the segments of a process, such as the tape of a backward pass."""

import json
import os
from typing import TYPE_CHECKING, Any

from ms_profiler.store import anonymous, layout

if TYPE_CHECKING:
    from ms_profiler.job.host import Host


def as_json(host: "Host", content: Any) -> str:
    """Return the text of a file, without names of the job where the option `anonymize` asks for that.

    Args:
        host: the session.
        content: a JSON value.
    """
    return json.dumps(anonymous.content(content) if host.asks("anonymize") else content)


def write(host: "Host", path: str, told: Any) -> None:
    """Write a new file, and count it as disk space of the recording.

    Args:
        host: the session.
        path: the path of the file, which does not exist; its folder is made.
        told: the whole file, as a JSON value.
    """
    content = as_json(host, told).encode()
    os.makedirs(os.path.dirname(path), layout.DIRECTORY_MODE, exist_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, layout.FILE_MODE), "wb") as stream:
        stream.write(content)
    host.recorder.spend(len(content))
