"""Find the owner of a device's tracing interface when it is another profiler: the interface itself does not name it."""

import os
import re
from collections.abc import Mapping

from ms_profiler.job.devices import search

#: the owner, when nothing identifies it
UNKNOWN = "another profiler or debugger of this process"


def name(tools: Mapping[str, str], injection: str = "") -> str:
    """Return the name of the other profiler, as far as it can be recognised in this process; empty if there is no sign
    of one.

    Args:
        tools: pattern of a library that a tool puts into a process -> the tool.
        injection: variable that names a library which the driver loads by itself.
    """
    for pattern, tool in tools.items():
        if search.mapped(re.compile(pattern)):
            return tool
    injected = os.environ.get(injection)
    return f"{os.path.basename(injected)} ({injection})" if injected else ""
