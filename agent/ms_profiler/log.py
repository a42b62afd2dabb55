"""Print single lines on stderr inside a job, without raising and without waiting.

A line goes directly to descriptor 2, not into the buffer of `sys.stderr`: if the interpreter could not flush that
buffer at exit, the exit code of the job would be 120 instead of 0. If the job puts another file in the place of
descriptor 2, this file belongs to the job, and ms-profiler writes nothing to it. A line is written whole or not at all.
A failed write raises no signal in the job.
"""

import os
import posix
import stat
import sys

PREFIX = "ms-profiler: "

#: largest length of a line, bytes: up to this length (PIPE_BUF of pipe(7)), a pipe accepts a line completely or not at
#: all
_MOST = 4096
#: the flag RWF_NOWAIT of pwritev2(2), with which a write never waits; Python has the name only for reads
_NO_WAIT = 8
#: modules of programs that show the user what is written to `sys.stderr`, but not descriptor 2: Jupyter's kernel
_SCREENS = ("ipykernel",)
_SPACES = "\n\t\xa0\u3000"

_start: "os.stat_result | None" = None


def keep_to(start: "os.stat_result | None") -> None:
    """Set the file to which lines may go: they are written only while descriptor 2 is this file.

    Args:
        start: descriptor 2 at the start of the process, as `os.fstat` describes it; None if it was closed.
    """
    global _start
    _start = start


def _stderr() -> "os.stat_result | None":
    try:
        return posix.fstat(2)
    except OSError:
        return None


# This call is for scripts that use the interface: descriptor 2 has to stay the file that it is at this import. In other
# jobs, `job.bootstrap` calls `keep_to` again, with the file at the start of the process.
keep_to(_stderr() if sys.__stderr__ is not None else None)


def visible(text: str) -> str:
    """Replace control characters in a text by visible characters, because a name may contain commands for a terminal.

    Characters that change the direction of text are replaced, too. Ends of lines, tabs and wide spaces stay.

    Args:
        text: any text.
    """
    if text.isprintable():
        return text
    escaped = (sign if sign.isprintable() or sign in _SPACES else _escape(sign) for sign in text)
    return "".join(escaped)


def _escape(sign: str) -> str:
    return sign.encode("unicode_escape").decode()


def line(message: str) -> None:
    """Write one line to stderr; drop it if the write would have to wait. Newlines in the message become spaces."""
    write(PREFIX + visible(" ".join(message.split("\n"))) + "\n")


def write(text: str) -> None:
    """Write a complete line to stderr; drop it if the write would have to wait.

    Args:
        text: the line, with the profiler's name at its begin and a newline at its end.
    """
    try:
        if type(sys.stderr).__module__.partition(".")[0] in _SCREENS:
            sys.stderr.write(text)
        else:
            _write(text.encode("utf-8", "backslashreplace"))
    except Exception:  # noqa: BLE001 - any object may stand in for stderr
        pass


def is_open() -> bool:
    """Return whether descriptor 2 is open and still the same file as at the start."""
    now = _stderr()
    return now is not None and _start is not None and (now.st_ino, now.st_dev) == (_start.st_ino, _start.st_dev)


def has_reader() -> bool:
    """Return whether stderr is a pipe or a socket, so that a reader may wait until all writers have closed it."""
    if not is_open():
        return False
    mode = posix.fstat(2).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _write(data: bytes) -> None:
    import signal  # takes no time, because every framework imports it

    if not is_open():
        return
    if len(data) > _MOST:
        data = data[: _MOST - 4].decode("utf-8", "ignore").encode() + b"...\n"
    # Signals that a write may raise: the pipe has no reader, the file has reached its size limit, or the terminal now
    # belongs to another job.
    kinds = {signal.SIGPIPE, signal.SIGXFSZ, signal.SIGTTOU}
    # This call changes nothing, it only reads the mask. A signal handler of the job may run here and raise, so the call
    # stands before the `try`, which would restore the mask.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, kinds)
        pending = signal.sigpending()
        try:
            _write_now(data)
        finally:
            for kind in (kinds - pending) & signal.sigpending():
                signal.sigtimedwait((kind,), 0)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _write_now(data: bytes) -> None:
    """Write all bytes, or none if the write would have to wait.

    A pipe accepts a line completely or not at all. It may fill up between a check and the write. So the write itself is
    non-blocking, if the kernel supports that. A file on a full disk would accept only a part of a line. So this
    function first checks the free space.
    """
    mode = posix.fstat(2).st_mode
    if stat.S_ISREG(mode):
        space = posix.fstatvfs(2)
        if space.f_bavail * space.f_frsize >= len(data):
            posix.write(2, data)
        return
    try:
        posix.pwritev(2, (data,), -1, _NO_WAIT)
        return
    except BlockingIOError:
        return
    except OSError as error:
        import errno

        if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS, errno.ESPIPE):
            raise
    import select

    poll = select.poll()
    poll.register(2, select.POLLOUT)
    if any(events & select.POLLOUT for _, events in poll.poll(0)):
        posix.write(2, data)
