"""Examine a running process: whether ms-profiler records in it and, if not, with which environment it started."""

import os
import re
from collections.abc import Mapping

from ms_profiler.doctor import interpreter, variable
from ms_profiler.doctor.finding import Finding, cause, note, ok
from ms_profiler.errors import UsageError
from ms_profiler.job import helper
from ms_profiler.job.frameworks import PLUGINS
from ms_profiler.store import layout

#: framework -> name of a library; if a process has mapped the library, it has imported the framework
_LIBRARIES = {"mindspore": "libmindspore", "torch": "libtorch"}


def examine(pid: int) -> list[Finding]:
    """Return findings about whether a process records, and if not, the reason.

    Args:
        pid: the process id.

    Raises:
        UsageError: there is no such process, or it belongs to another user.
    """
    try:
        environ = _environ(pid)
        words = _read(pid, "cmdline").decode("utf-8", "surrogateescape").split("\0")[:-1]
        maps = _read(pid, "maps").decode("utf-8", "surrogateescape")
        python = os.readlink(f"/proc/{pid}/exe")
        directory = os.readlink(f"/proc/{pid}/cwd")
    except FileNotFoundError:
        raise UsageError(f"There is no process {pid}.", "`ps -ef` lists the running processes.") from None
    except PermissionError:
        raise UsageError(f"Process {pid} belongs to another user.", "Run doctor as that user, or as root.") from None
    result = _result(maps, pid)
    if result:
        return [ok("process", f"Process {pid} records into {result}.")]
    found = variable.examine(environ, directory)
    why = helper.is_helper(words, environ)
    if why:
        return [
            *found,
            cause("process", f"Process {pid} is not recorded: it is {why}.", "Name the process that trains."),
        ]
    if not re.search(r"python[\d.]*$", os.path.basename(python)):
        return [*found, note("process", f"Process {pid} runs {python}, which is not a known Python interpreter.")]
    flags = words[1 : helper.arguments(words)]
    # Use the name with which the process was started, which may be a link. The interpreter finds its virtual
    # environment by this name.
    started = words[0] if os.path.isabs(words[0]) and os.path.exists(words[0]) else python
    found += interpreter.examine(started, flags, environ, directory)
    imported = [name for name in PLUGINS if _LIBRARIES[name] in maps]
    if not imported:
        text = f"Process {pid} has imported neither {' nor '.join(PLUGINS)} so far; recording begins when it does."
        found.append(note("process", text))
    else:
        text = f"Process {pid} has imported {' and '.join(imported)} and does not record."
        found.append(note("process", text, "Its first lines on stderr may say why."))
    return found


def _environ(pid: int) -> Mapping[str, str]:
    """Return the environment with which a process started; the system does not show later changes."""
    content = _read(pid, "environ").decode("utf-8", "surrogateescape")
    return dict(entry.split("=", 1) for entry in content.split("\0") if "=" in entry)


def _read(pid: int, name: str) -> bytes:
    with open(f"/proc/{pid}/{name}", "rb") as stream:
        return stream.read()


def _result(maps: str, pid: int) -> str:
    """Return the result directory into which a process records: it has mapped files of it. Empty if there is none."""
    end = layout.process_dir("", pid)
    found = re.search(rf"(/\S.*{re.escape(layout.SUFFIX)})/{re.escape(end)}", maps)
    return found[1] if found else ""
