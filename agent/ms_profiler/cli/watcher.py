"""Watch the command of `ms-profiler run` from a second process, and print why nothing was recorded.

`ms-profiler run` becomes the command, so the command's process id, parent and signals are as without us. The watcher is
not its child, has a session of its own, and holds no descriptor of the command except stderr.
"""

import os
import select
import time
from collections.abc import Mapping, Sequence

from ms_profiler import log, options
from ms_profiler.cli.recorded import Recorded, tell
from ms_profiler.store import layout

#: seconds between two checks for processes that record: ranks of a launcher, workers
_INTERVAL = 1.0
_NULL = (0, 1)  #: descriptors that the command's readers must not wait for


def stay(command: Sequence[str], environ: Mapping[str, str]) -> int:
    """Fork a process that waits for the end of this one; return in this one, which becomes the command.

    There is no watcher where the command is process 1 of a container, because it would adopt the watcher as a child.

    Args:
        command: the command that replaces this process.
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
    recorded = Recorded(os.path.join(directory, os.path.expanduser(output)), begun)
    runs = True
    while runs:
        recorded.look()
        ready = select.select([process, *recorded.running], [], [], _INTERVAL)[0]
        runs = process not in ready
        for descriptor in ready:
            if descriptor != process:
                recorded.ended(descriptor)
    made = recorded.results()
    for result in made:
        tell(process, pid, layout.process_dir(result, pid))
    if not made:
        log.line(_why(command, environ, directory))


def _why(command: Sequence[str], environ: Mapping[str, str], directory: str) -> str:
    from ms_profiler.doctor import command as examination
    from ms_profiler.doctor.finding import State

    found = examination.examine(command, environ, directory)
    for state in (State.CAUSE, State.NOTE):
        for finding in found:
            if finding.state == state:
                return f"nothing was recorded: {finding.text} {finding.remedy}".rstrip()
    return "nothing was recorded: the command ended before it imported MindSpore or PyTorch."
