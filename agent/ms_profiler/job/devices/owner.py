"""Find the name of another profiler that uses a device's tracing interface; the interface itself does not tell it."""

import os
import re
from collections.abc import Mapping

from ms_profiler import paths
from ms_profiler.job.devices import search

#: description of the other profiler if nothing identifies it
UNKNOWN = "another profiler or debugger of this process"


def name(tools: Mapping[str, str], injection: str = "") -> str:
    """Return the name of the other profiler; empty if none is recognised in this process.

    Args:
        tools: pattern -> name of a tool; the pattern matches the path of a library that the tool loads into a process.
        injection: name of an environment variable that holds the path of a tool's library. The device's driver loads
            this library.
    """
    for pattern, tool in tools.items():
        if search.mapped(re.compile(pattern)):
            return tool
    injected = os.environ.get(injection)
    return f"{paths.basename(injected)} ({injection})" if injected else ""
