"""Train in one child after another; in each child, one function of the extension or one file of ms-profiler fails.

The program imports the framework once, unprofiled. Each child then begins its own session, as if it had just imported
the framework. The program prints a line of JSON for each FAULT: raises:NAME, refuses:NAME=VALUE, file:PATTERN, or
"bare" for a child without a session. usage: failing_entries.py OUTPUT FAULT...
"""

import errno
import json
import os
import re
import sys
from types import FunctionType

import torch
import torch._dynamo  # the first optimizer would import it in each child, which takes 2 s of a processor
from faulty_children import each

torch.set_num_threads(1)
OPTIONS = {
    "analyse": "off",
    "with_stack": "sample",
    "profile_memory": True,
    "record_shapes": True,
    "parallel_strategy": True,
    "host_rate": 100,
}


def work():
    """Train, and return the last loss as a hexadecimal number."""
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(12):
        optimizer.zero_grad()
        with torch.profiler.record_function("region"):
            loss = model(torch.ones(2, 4)).square().mean()
        loss.backward()
        optimizer.step()
    return loss.item().hex()


class Library:
    """Offer the functions of the cffi library; an attribute replaces the function that fails."""

    def __init__(self, real):
        self._real = real

    def __getattr__(self, name):
        return getattr(self._real, name)


def plant(fault, reached):
    """Make one function or the writing of one file fail, and append to `reached` when that happens."""
    kind, _, name = fault.partition(":")
    if kind == "file":

        def hook(event, arguments):
            flags = arguments[2] if event == "open" and isinstance(arguments[2], int) else 0
            writes = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            made = event in ("os.mkdir", "os.rename")
            if (writes or made) and re.search(name, os.fsdecode(arguments[0]) if isinstance(arguments[0], str) else ""):
                reached.append(1)
                raise OSError(errno.EIO, os.strerror(errno.EIO), arguments[0])

        sys.addaudithook(hook)
        return
    from ms_profiler import _native
    from ms_profiler.job.recorder.native import NativeRecorder

    name, _, value = name.partition("=")
    answer = json.loads(value) if kind == "refuses" else None

    def fails(*_, **__):
        if not reached:
            reached.append(1)
        if kind == "raises":
            raise MemoryError("planted")
        return answer

    # a function of the extension, not of the script: some get a frame, as only trace functions of the script do
    fails = FunctionType(fails.__code__, globals() | {"__name__": _native.__name__}, closure=fails.__closure__)
    library = Library(_native.lib)
    if hasattr(_native, name):
        real = getattr(_native, name)
        setattr(_native, name, fails)
        for attribute, entry in list(vars(NativeRecorder).items()):
            if isinstance(entry, staticmethod) and entry.__func__ is real:
                setattr(NativeRecorder, attribute, staticmethod(fails))
    else:
        setattr(library, name, fails)
    _native.lib = library


each(sys.argv[2:], sys.argv[1], OPTIONS, plant, work)
