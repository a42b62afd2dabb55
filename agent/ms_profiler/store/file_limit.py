"""RLIMIT_FSIZE: growing a file past it raises SIGXFSZ in the thread that does.

Python ignores that signal, and a job may set the default action again, which ends the process.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def limited() -> Iterator[None]:
    """Let a file that may not grow be an error, `EFBIG`, in this block, and no signal."""
    own = {signal.SIGXFSZ}
    waited = own & signal.sigpending()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, own)
    try:
        yield
    finally:
        if not waited and own & signal.sigpending():
            signal.sigtimedwait(own, 0)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
