"""Watch the command of `ms-profiler run` from a second process, and print why nothing was recorded.

`ms-profiler run` becomes the command, so that the command has the same process id, parent and signals as without
ms-profiler. So another process, the watcher, has to look after the command. It must not disturb the command: it is not
a child of the command, has a process session of its own, and holds no descriptor of the command except stderr.
"""

import os
import select
import time
from collections.abc import Mapping, Sequence

from ms_profiler import log, options
from ms_profiler.cli.recorded import Recorded, write_end
from ms_profiler.store import layout

#: time between two checks whether further processes of the command record, such as the ranks of a launcher, s
_INTERVAL = 1.0
_NULL = (0, 1)  #: stdin and stdout; the watcher closes them, so that nobody waits for it at their other ends


def stay(command: Sequence[str], environ: Mapping[str, str]) -> int:
    """Fork the watcher, which waits for the end of this process; return in this process, which becomes the command.

    If the command is process 1 of a container, this function forks no watcher, because process 1 would adopt the
    watcher as a child.

    Args:
        command: the command that replaces this process.
        environ: the environment of the command.

    Returns:
        A descriptor that the command does not inherit, or -1 if there is no watcher. If the command cannot be executed,
        the caller writes a byte to the descriptor; the watcher then ends.
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
        return -1  # no watcher: Linux before 5.3 lacks pidfd_open, or the process table is full
    if child:
        os.close(process)
        os.close(reader)
        os.waitpid(child, 0)  # the child forks the watcher and ends at once, so this wait is short
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
                pass  # the descriptor with which `listdir` read the directory, which is closed already
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
        write_end(process, pid, layout.process_dir(result, pid))
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
