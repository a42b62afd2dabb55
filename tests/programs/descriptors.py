"""Train, and close all descriptors above 2 in the middle, as daemons do. usage: descriptors.py FRAMEWORK FOLDER

The job then opens files, which get the numbers of the closed descriptors. It writes to these files and closes them
after all other exit functions.
"""

import atexit
import os
import re
import sys
import time
from pathlib import Path

FILES = 30
KIND, FOLDER = sys.argv[1], Path(sys.argv[2])
streams = []


def finish():
    """Write the end of each file and close it, after every exit function of a framework or the profiler."""
    for stream in streams:
        stream.write("end")
        stream.close()
    print([path.read_text() for path in sorted(FOLDER.glob("*.txt"))])


atexit.register(finish)


def step_of_torch():
    import torch

    model = torch.nn.Linear(8, 8)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def step():
        loss = model(torch.ones(4, 8)).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def step_of_mindspore():
    import mindspore as ms
    import numpy as np
    from mindspore import nn

    ms.set_device("CPU")
    net = nn.Dense(8, 8)
    optimizer = nn.SGD(net.trainable_params(), 0.1)
    gradients = ms.value_and_grad(lambda data: net(data).sum(), None, optimizer.parameters)
    data = ms.Tensor(np.ones((4, 8), np.float32))
    return lambda: optimizer(gradients(data)[1])


def opened():
    """Return the targets of the open descriptors, sorted; a pipe or a socket appears without its number."""
    with os.scandir("/proc/self/fd") as entries:
        return sorted(os.readlink(entry.path).partition(":")[0] for entry in entries)


step = step_of_torch() if KIND == "torch" else step_of_mindspore()
for number in range(60):
    step()
    time.sleep(0.001)
    if number == 30:
        print([re.sub(r"\d+", "N", name) for name in opened()])
        os.closerange(3, 1024)
        streams.extend((FOLDER / f"{file}.txt").open("w") for file in range(FILES))
        for stream in streams:
            stream.write("begin, ")
