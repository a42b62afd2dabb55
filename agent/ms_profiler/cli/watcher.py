"""Watch the command of `ms-profiler run` from a second process, and print why nothing was recorded.

`ms-profiler run` becomes the command, so the command's process id, parent and signals are as without us. The watcher is
not its child, has a session of its own, and holds no descriptor of the command except stderr.
"""

import contextlib
import fcntl
import os
import select
import sys
import time
from collections.abc import Mapping, Sequence

from ms_profiler import log, options
from ms_profiler.store import alive, exit_status, layout

#: `PIDFD_GET_INFO`, `PIDFD_INFO_EXIT` and `PIDFD_INFO_SIZE_VER0` of linux/pidfd.h
_GET_INFO, _INFO_EXIT, _INFO_SIZE = 0xC040FF0B, 1 << 3, 64
_NULL = (0, 1)  #: descriptors that the command's readers must not wait for


def stay(command: Sequence[str], environ: Mapping[str, str]) -> int:
    """Fork a process that waits for the end of this one; return in this one, which becomes the command.

    There is no watcher where the command is process 1 of a container, because it would adopt the watcher as a child.

    Args:
        command: what this process becomes.
        environ: its environment.

    Returns:
        A descriptor that the command does not inherit: a byte in it says that the command could not be executed; -1
        without a watcher.
    """
    chosen = options.parse(environ.get("MS_PROFILER_OPTIONS")).options
    if chosen is None or chosen.quiet or os.getpid() == 1 or not hasattr(os, "pidfd_open"):
        return -1
    begun, pid = time.time(), os.getpid()
    try:
        directory = os.getcwd()
        process = os.pidfd_open(pid)
        reader, writer = os.pipe()
        child = os.fork()
    except OSError:
        return -1  # Linux before 5.3 has no such descriptors; a full process table has no room
    if child:
        os.close(process)
        os.close(reader)
        os.waitpid(child, 0)  # it ends at once
        return writer
    code = 1
    try:
        os.setsid()
        os.close(writer)
        if not os.fork() and not os.read(reader, 1):
            _watch(process, pid, command, environ, directory, chosen.output_path, begun)
        code = 0
    finally:
        os._exit(code)


def _watch(
    process: int,
    pid: int,
    command: Sequence[str],
    environ: Mapping[str, str],
    directory: str,
    output: str,
    begun: float,
) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in _NULL:
        os.dup2(null, descriptor)
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in (*_NULL, 2, process):
            try:
                os.close(int(name))
            except OSError:
                pass  # that of the listing itself
    select.select([process], [], [])
    made = results(os.path.join(directory, os.path.expanduser(output)), begun)
    number = _signal(process, pid)
    for result in made if number else []:
        with contextlib.suppress(OSError):  # it is another process's, or was told
            exit_status.write_signal(layout.process_dir(result, pid), number)
    if not made:
        log.line(_why(command, environ, directory))


def _signal(process: int, pid: int) -> int:
    """Return the signal that has ended a process, 0 where none has or the kernel does not tell.

    The parent may wait for the end of our stderr before it asks how the process ended. Until then the process has its
    place and number; afterwards Linux 6.15 and newer tell it to anyone with a descriptor of the process.

    Args:
        process: a descriptor of it, which says that it has ended.
        pid: its process id.
    """
    status = alive.wait_status(pid)
    if status is None:
        status = _asked(process)
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0


def _asked(process: int) -> int:
    """Return the status of a process that its parent has asked for, 0 where the kernel does not tell.

    Source: `struct pidfd_info` of Linux's uapi/linux/pidfd.h: the mask in 8 bytes, the status of `wait()` at 60.
    """
    told = bytearray(_INFO_SIZE)
    told[:8] = _INFO_EXIT.to_bytes(8, sys.byteorder)
    try:
        fcntl.ioctl(process, _GET_INFO, told)
    except OSError:
        return 0
    known = int.from_bytes(told[:8], sys.byteorder) & _INFO_EXIT
    return int.from_bytes(told[60:64], sys.byteorder) if known else 0


def results(output: str, begun: float) -> list[str]:
    """Return the results that were made in a directory, or in the temporary directory that replaces it.

    Args:
        output: the option `output_path`.
        begun: seconds since the epoch; older results do not count.
    """
    found = []
    for folder in (output, os.environ.get("TMPDIR") or "/tmp"):
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            # the result was made after `begun`; one second for file systems that round times down
            found += [
                entry.path
                for entry in entries
                if entry.name.endswith(layout.SUFFIX) and entry.stat().st_ctime >= begun - 1
            ]
    return found


def _why(command: Sequence[str], environ: Mapping[str, str], directory: str) -> str:
    from ms_profiler.doctor import command as examination
    from ms_profiler.doctor.finding import State

    found = examination.examine(command, environ, directory)
    for state in (State.CAUSE, State.NOTE):
        for finding in found:
            if finding.state == state:
                return f"nothing was recorded: {finding.text} {finding.remedy}".rstrip()
    return "nothing was recorded: the command ended before it imported MindSpore or PyTorch."
