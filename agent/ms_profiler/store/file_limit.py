"""Protect writes from RLIMIT_FSIZE: a thread that grows a file past this limit gets SIGXFSZ.

Python ignores SIGXFSZ, but a job may restore the default action of the signal. Then the signal ends the process.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def limited() -> Iterator[None]:
    """Block SIGXFSZ in a `with` block and discard it: a file that grows past the limit causes only the error EFBIG."""
    own = {signal.SIGXFSZ}
    waited = own & signal.sigpending()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, own)
    try:
        yield
    finally:
        if not waited and own & signal.sigpending():
            signal.sigtimedwait(own, 0)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
