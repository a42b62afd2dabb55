"""Start programs outside of the process tree: a job may wait for any child, count its children, or ignore SIGCHLD.

They inherit no descriptor, because the reader of a pipe waits until the last holder has closed it.
"""

import fcntl
import os
from collections.abc import Mapping, Sequence

from ms_profiler.job.detached import Detached

SHELL = "/bin/sh"
#: Starts a command in the background, prints its process id and exits, so that the command has no parent in the job.
_SCRIPT = 'exec "$@" 3>&- & echo $! >&3'


def start(command: Sequence[str], environment: Mapping[str, str], output: int, errors: int) -> int:
    """Start a program in a session of its own and return its process id.

    Args:
        command: the path of the program, and its arguments.
        environment: its variables.
        output: descriptor that becomes its stdout.
        errors: descriptor that becomes its stderr.

    Raises:
        OSError: it cannot be started.
    """
    try:
        from ms_profiler.job.recorder.native import start_apart
    except ImportError:
        return _by_shell(command, environment, output, errors)
    return start_apart(command, environment, output, errors)


def start_with_pipe(command: Sequence[str], environment: Mapping[str, str], errors: int) -> Detached:
    """Start a program as `start` does, with a pipe as its stdout; the pipe ends with the program."""
    reader, writer = pipe()
    try:
        return Detached(start(command, environment, writer, errors), reader)
    except BaseException:
        os.close(reader)
        raise
    finally:
        os.close(writer)


def above(descriptor: int) -> int:
    """Return a descriptor in place of 0, 1 or 2, because a job may have closed these and still write to them."""
    try:
        return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)
    finally:
        os.close(descriptor)


def pipe() -> tuple[int, int]:
    """Return both ends of a pipe, see `above`."""
    reader, writer = os.pipe()
    try:
        reader = above(reader)
    except BaseException:
        os.close(writer)
        raise
    return reader, above(writer)


def _by_shell(command: Sequence[str], environment: Mapping[str, str], output: int, errors: int) -> int:
    """Start a program as the extension does, by a shell that is the job's child for a millisecond."""
    reader, writer = pipe()
    inherited = [number for number in map(int, os.listdir("/proc/self/fd")) if number > 2 and _is_inheritable(number)]
    actions: list[tuple[int, ...]] = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),  # type: ignore[list-item]
        (os.POSIX_SPAWN_DUP2, output, 1),
        (os.POSIX_SPAWN_DUP2, errors, 2),
        *((os.POSIX_SPAWN_CLOSE, number) for number in inherited),
        (os.POSIX_SPAWN_DUP2, writer, 3),
    ]
    line = [SHELL, "-c", _SCRIPT, SHELL, *command]
    try:
        try:
            shell = os.posix_spawn(SHELL, line, environment, file_actions=actions, setsid=True)
        except NotImplementedError:  # Python was built with a C library before glibc 2.26
            shell = os.posix_spawn(SHELL, line, environment, file_actions=actions)
    except BaseException:
        os.close(reader)
        raise
    finally:
        os.close(writer)
    try:
        text = os.read(reader, 32)
    finally:
        os.close(reader)
    try:
        os.waitpid(shell, 0)
    except ChildProcessError:
        pass  # the job ignores SIGCHLD, or its own handler was faster
    return int(text)


def _is_inheritable(descriptor: int) -> bool:
    try:
        return os.get_inheritable(descriptor)
    except OSError:
        return False  # the descriptor that listed them
