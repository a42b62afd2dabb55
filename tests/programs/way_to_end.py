"""The ways in which a launched rank ends; before its end, all ranks wait for each other."""

import ctypes
import os
import signal
import sys
import threading

#: number of steps that each rank takes before one of them ends
STEPS = 4


def ready(rank):
    """Write this process's id to the file `ready_RANK`, and wait for the file `go`."""
    with open(f"told_{rank}", "w") as stream:
        stream.write(str(os.getpid()))
    os.rename(f"told_{rank}", f"ready_{rank}")
    pause = threading.Event()
    while not os.path.exists("go"):
        pause.wait(0.01)


def end(way):
    """End this process in the given way; with another way, never return."""
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
    while True:  # the rank hangs
        signal.pause()
