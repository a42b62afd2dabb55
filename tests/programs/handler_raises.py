"""A signal handler raises at any moment of short loops, and each exception has to reach the loop.

The loops are those in which Python calls functions of ms-profiler whose exceptions it would print: of the garbage
collector, and of weak references to modules and optimizers. A further loop is interrupted by another thread.
"""

import _thread
import gc
import signal
import sys
import threading
import time

import torch


class StopError(Exception):
    """The exception of the handler."""


def stop(*_):
    raise StopError


def forget():
    torch.nn.Identity()(None)


def drop():
    torch.optim.SGD([torch.ones(1, requires_grad=True)], 0.1)


def lost(work, times):
    """Return how many of the exceptions did not arrive."""
    count = 0
    for number in range(times):
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.0003 + number % 50 * 1e-5)
            end = time.monotonic() + 0.5
            while time.monotonic() < end:
                work()
            count += 1
        except StopError:
            pass
    return count


signal.signal(signal.SIGALRM, stop)
print([lost(work, 150) for work in (lambda: gc.collect(0), forget, drop)])

signal.signal(signal.SIGINT, signal.default_int_handler)
arrived = 0
for _ in range(20):
    timer = threading.Timer(0.002, _thread.interrupt_main)
    try:
        timer.start()
        end = time.monotonic() + 5
        while time.monotonic() < end:
            gc.collect(0)
    except KeyboardInterrupt:
        arrived += 1
    timer.join()
print(arrived, sys.gettrace())
