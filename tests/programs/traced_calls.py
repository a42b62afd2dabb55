"""Make a known number of calls of Python functions in a job, and end the job in a given way.

usage: traced_calls.py exit|kill|profiled|forked|leaves|raises
"""

import os
import signal
import sys
import threading
import time

import torch

CALLS = 200


def leaf(value):
    return value + 1


def inner(value):
    if value == 0:
        time.sleep(0.02)  # the stack is long enough for the files, also if the whole run takes minutes
    return leaf(value) + leaf(value)


def step(value):
    return sum(map(inner, range(value)))


def in_thread():
    for _ in range(CALLS):
        leaf(1)


def trains():
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(5):
        optimizer.zero_grad()
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        step(CALLS)


def main(end):
    thread = threading.Thread(target=in_thread, name="beside")
    thread.start()
    thread.join()
    if end == "profiled":
        import cProfile

        profile = cProfile.Profile()
        profile.enable()
        step(CALLS)
        profile.disable()
    trains()
    if end == "forked":
        child = os.fork()
        if child == 0:
            step(CALLS)
            os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    print("done", sys.getprofile() is None, flush=True)
    if end == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if end == "leaves":
        os._exit(5)
    if end == "raises":
        raise ValueError(end)
    sys.exit(3)


if __name__ == "__main__":
    main(sys.argv[1])
