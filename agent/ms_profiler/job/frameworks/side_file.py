"""Write a file beside the segments of a process, such as the tape of a backward pass."""

import os
from typing import TYPE_CHECKING

from ms_profiler.store import layout

if TYPE_CHECKING:
    from ms_profiler.job.host import Host


def write(host: "Host", path: str, content: bytes) -> None:
    """Write a new file, and count it as disk space of the recording.

    Args:
        host: the session.
        path: the path of the file, which does not exist; its folder is made.
        content: the whole file.
    """
    os.makedirs(os.path.dirname(path), layout.DIRECTORY_MODE, exist_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, layout.FILE_MODE), "wb") as stream:
        stream.write(content)
    host.recorder.spend(len(content))
