"""RLIMIT_FSIZE: a thread that grows a file past this limit gets SIGXFSZ.

Python ignores that signal, and a job may set the default action again, which ends the process.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def limited() -> Iterator[None]:
    """In this block, let growth past the limit be the error `EFBIG` and not a signal."""
    own = {signal.SIGXFSZ}
    waited = own & signal.sigpending()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, own)
    try:
        yield
    finally:
        if not waited and own & signal.sigpending():
            signal.sigtimedwait(own, 0)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
