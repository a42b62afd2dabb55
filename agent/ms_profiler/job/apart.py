"""Start programs that are not children of the job: a job may wait for any child, count its children, or ignore SIGCHLD.

The programs inherit no descriptor of the job. Otherwise the reader of a job's pipe would wait until the programs end.
"""

import fcntl
import os
import posix
from collections.abc import Mapping, Sequence

from ms_profiler.job.detached import Detached

SHELL = "/bin/sh"
#: Starts a command in the background, prints its process id and exits, so that the command is no child of the job.
_SCRIPT = 'exec "$@" 3>&- & echo $! >&3'


def start(command: Sequence[str], environment: Mapping[str, str], output: int, errors: int) -> int:
    """Start a program in a new process session and return its process id.

    Args:
        command: the path of the program, and its arguments.
        environment: its environment variables.
        output: descriptor that becomes its stdout.
        errors: descriptor that becomes its stderr.

    Raises:
        OSError: the program cannot be started.
    """
    try:
        from ms_profiler.job.recorder.native import start_apart
    except ImportError:
        return _by_shell(command, environment, output, errors)
    return start_apart(command, environment, output, errors)


def start_with_pipe(command: Sequence[str], environment: Mapping[str, str], errors: int) -> Detached:
    """Start a program as `start` does, with a pipe as its stdout; the pipe closes when the program ends."""
    reader, writer = pipe()
    try:
        return Detached(start(command, environment, writer, errors), reader)
    except BaseException:
        posix.close(reader)
        raise
    finally:
        posix.close(writer)


def above(descriptor: int) -> int:
    """Duplicate a descriptor to a number above 2 and close the original.

    The numbers 0, 1 and 2 are unsafe: a job may have closed such a descriptor and still write to its number.
    """
    try:
        return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)
    finally:
        posix.close(descriptor)


def pipe() -> tuple[int, int]:
    """Return the read end and the write end of a new pipe, both with numbers above 2."""
    reader, writer = posix.pipe()
    try:
        reader = above(reader)
    except BaseException:
        posix.close(writer)
        raise
    return reader, above(writer)


def _by_shell(command: Sequence[str], environment: Mapping[str, str], output: int, errors: int) -> int:
    """Start a program through a shell, which exits at once; return the process id of the program."""
    reader, writer = pipe()
    inherited = [
        number for number in map(int, posix.listdir("/proc/self/fd")) if number > 2 and _is_inheritable(number)
    ]
    actions: list[tuple[int, ...]] = [
        (posix.POSIX_SPAWN_OPEN, 0, os.devnull, posix.O_RDONLY, 0),  # type: ignore[list-item]
        (posix.POSIX_SPAWN_DUP2, output, 1),
        (posix.POSIX_SPAWN_DUP2, errors, 2),
        *((posix.POSIX_SPAWN_CLOSE, number) for number in inherited),
        (posix.POSIX_SPAWN_DUP2, writer, 3),
    ]
    line = [SHELL, "-c", _SCRIPT, SHELL, *command]
    try:
        try:
            shell = posix.posix_spawn(SHELL, line, environment, file_actions=actions, setsid=True)
        except NotImplementedError:  # Python was built with a C library before glibc 2.26
            shell = posix.posix_spawn(SHELL, line, environment, file_actions=actions)
    except BaseException:
        posix.close(reader)
        raise
    finally:
        posix.close(writer)
    try:
        text = posix.read(reader, 32)
    finally:
        posix.close(reader)
    try:
        posix.waitpid(shell, 0)
    except ChildProcessError:
        pass  # the job ignores SIGCHLD, or its own handler has collected the shell
    return int(text)


def _is_inheritable(descriptor: int) -> bool:
    try:
        return posix.get_inheritable(descriptor)
    except OSError:
        return False  # posix.listdir used this descriptor to read the folder, and has closed it
