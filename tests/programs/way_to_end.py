"""The ways in which a rank of a launcher ends, and the meeting of all ranks before that."""

import ctypes
import os
import signal
import sys
import threading

#: steps that each rank takes before one of them ends
STEPS = 4


def ready(rank):
    """Say that a rank has taken its steps, and wait until the others have, too."""
    with open(f"told_{rank}", "w") as stream:
        stream.write(str(os.getpid()))
    os.rename(f"told_{rank}", f"ready_{rank}")
    pause = threading.Event()
    while not os.path.exists("go"):
        pause.wait(0.01)


def end(way):
    """End this process, or never return."""
    if way == "exception":
        raise RuntimeError("planted")
    if way == "exit code":
        sys.exit(3)
    if way == "abrupt exit":
        os._exit(3)
    if way == "SIGKILL":
        os.kill(os.getpid(), signal.SIGKILL)
    if way == "crash":
        ctypes.string_at(0)
    while True:  # it hangs
        signal.pause()
