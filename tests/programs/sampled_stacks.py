"""Train in steps of three parts: Python code, C code that holds the GIL, and C code that releases the GIL.

Meanwhile a thread waits for an event, a forked child runs Python code, and the script runs a program that does not
import ms-profiler. With the argument "kill", the process ends by SIGKILL.
"""

import hashlib
import os
import signal
import subprocess
import sys
import threading
import time

import torch

STEPS = 12
#: seconds of each of the three parts of a step
PART = 0.03


def runs_python():
    end, count = time.perf_counter() + PART, 0
    while time.perf_counter() < end:
        for number in range(2000):
            count += number * number % 7
    return count


def holds_the_gil(numbers):
    end = time.perf_counter() + PART
    while time.perf_counter() < end:
        sum(numbers)


def lets_go_of_the_gil(blob):
    end = time.perf_counter() + PART
    while time.perf_counter() < end:
        hashlib.sha256(blob).digest()


def waits(done):
    done.wait()


def spends(part, *args):
    begin = time.perf_counter()
    part(*args)
    SPENT[part.__name__] = SPENT.get(part.__name__, 0.0) + time.perf_counter() - begin


SPENT = {}
done = threading.Event()
threading.Thread(target=waits, args=(done,), name="waiter", daemon=True).start()
numbers, blob = list(range(200_000)), bytes(2_000_000)
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
steps = int(sys.argv[2]) if len(sys.argv) > 2 else STEPS
for step in range(steps):
    optimizer.zero_grad()
    model(torch.ones(2, 8)).sum().backward()
    spends(runs_python)
    spends(holds_the_gil, numbers)
    spends(lets_go_of_the_gil, blob)
    optimizer.step()
    if step == 2:
        child = os.fork()
        if child == 0:
            runs_python()
            os._exit(0)
        print(os.waitpid(child, 0)[1], subprocess.call([sys.executable, "-c", "import json"]))
print({name: round(time, 6) for name, time in SPENT.items()}, flush=True)
if sys.argv[1] == "kill":
    os.kill(os.getpid(), signal.SIGKILL)
done.set()
