"""Print single lines on stderr inside a job: never on stdout, without raising and without waiting.

A line goes to descriptor 2 and not into the buffer of `sys.stderr`. If the interpreter could not flush that buffer at
its end, the exit code would be 120 instead of 0. The line is written only while descriptor 2 is the same file as at the
start; any other file belongs to the job. It is written whole or not at all, and the job gets no signal for it.
"""

import os
import stat
import sys

PREFIX = "ms-profiler: "

#: bytes that a pipe takes whole or not at all: PIPE_BUF of pipe(7)
_MOST = 4096
#: RWF_NOWAIT of preadv2(2), for which Python has no name where it writes
_NO_WAIT = 8
#: modules of programs that show `sys.stderr` and not descriptor 2: Jupyter's kernel
_SCREENS = ("ipykernel",)
_SPACES = "\n\t\xa0\u3000"

_start: "os.stat_result | None" = None


def keep_to(start: "os.stat_result | None") -> None:
    """Write to descriptor 2 only while it is the same file as at the start.

    Args:
        start: that file; None where it was closed.
    """
    global _start
    _start = start


def _look() -> "os.stat_result | None":
    try:
        return os.fstat(2)
    except OSError:
        return None


keep_to(_look() if sys.__stderr__ is not None else None)  # for a script that calls us; bootstrap looks earlier


def visible(text: str) -> str:
    """Return a text with visible control characters: a name may contain commands for the terminal that shows it.

    Characters that change the direction of the text count as control characters. Ends of lines, tabs and wide spaces
    stay.

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
    """Write one line to stderr, or drop it where that cannot be done at once; newlines inside become spaces."""
    write(PREFIX + visible(" ".join(message.split("\n"))) + "\n")


def write(text: str) -> None:
    """Write a whole line, as `line` does.

    Args:
        text: begins with our name and ends with a newline.
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
    now = _look()
    return now is not None and _start is not None and os.path.samestat(now, _start)


def has_reader() -> bool:
    """Return whether stderr is a pipe or a socket, whose reader may wait for its end."""
    if not is_open():
        return False
    mode = os.fstat(2).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _write(data: bytes) -> None:
    import signal  # every framework imports it

    if not is_open():
        return
    if len(data) > _MOST:
        data = data[: _MOST - 4].decode("utf-8", "ignore").encode() + b"...\n"
    # signals for a reader that is gone, a file at its size limit, and a terminal that now belongs to another job
    kinds = {signal.SIGPIPE, signal.SIGXFSZ, signal.SIGTTOU}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())  # on a line of its own, because a signal handler of the job
    # may raise here
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
    """Write all bytes, or none where the write would have to wait.

    A pipe accepts a line as a whole. A check before the write could be outdated at the write, so the write itself is
    non-blocking where the kernel supports that. A file on a full disk would take a part.
    """
    mode = os.fstat(2).st_mode
    if stat.S_ISREG(mode):
        space = os.fstatvfs(2)
        if space.f_bavail * space.f_frsize >= len(data):
            os.write(2, data)
        return
    try:
        os.pwritev(2, (data,), -1, _NO_WAIT)
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
        os.write(2, data)
