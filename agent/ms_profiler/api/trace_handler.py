"""The function `tensorboard_trace_handler`, as in MindSpore's public profiler documents."""

import os
from typing import Any

from ms_profiler.api.arguments import truth
from ms_profiler.api.forgiving import warn
from ms_profiler.option_types import shown

#: Largest number of characters in a worker's name. It becomes part of a directory's name, which has at most 255, and in
#: which process id and time follow.
WORKER_MOST = 225


class TraceHandler:
    """A callback for a profiler: sets the directory of the results, and analyses each result when its cycle has ended.

    Args:
        dir_name: directory that receives the results; empty for "./data".
        worker_name: prefix of the results' names; empty for the name of the host.
        analyse_flag: whether to analyse each result.
        async_mode: whether the script continues while the analysis runs.
    """

    def __init__(self, dir_name: str, worker_name: str, analyse_flag: bool, async_mode: bool) -> None:
        self.dir_name = dir_name
        self.worker_name = worker_name
        self.analyse_flag = analyse_flag
        self.async_mode = async_mode

    def __call__(self, profiler: Any) -> None:
        """Analyse the last result of `profiler`; the profiler calls this at the end of each cycle."""
        if self.analyse_flag:
            profiler._capture.analyse(async_mode=self.async_mode)


def tensorboard_trace_handler(
    dir_name: str | None = None, worker_name: str | None = None, analyse_flag: bool = True, async_mode: bool = False
) -> TraceHandler:
    """Return a function for the parameter `on_trace_ready` of `profile`.

    Args:
        dir_name: directory that receives the results; by default "./data".
        worker_name: prefix of the results' names; by default the name of the host. "_{pid}" follows the prefix.
        analyse_flag: whether to analyse each result.
        async_mode: whether the script continues while the analysis runs.
    """
    if dir_name is not None and not isinstance(dir_name, (str, os.PathLike)):
        warn(f"dir_name is {shown(dir_name)}, but must be a path; using the default")
        dir_name = None
    worker = worker_name or ""
    if not isinstance(worker, str) or len(worker) > WORKER_MOST or "/" in worker or "\0" in worker:
        warn(f"worker_name {worker!r:.40} cannot be part of a file's name; using the name of the host")
        worker = ""
    return TraceHandler(
        str(dir_name or ""),
        worker,
        truth("analyse_flag", analyse_flag, True),
        truth("async_mode", async_mode, False),
    )
