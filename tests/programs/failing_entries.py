"""Train in one child after another, each of which has one entry of the extension, or one file of ours, fail.

The framework is imported once, unprofiled; each child begins its own session, as if it had just imported it.
usage: failing_entries.py OUTPUT FAULT..., prints a line of JSON for each; a FAULT is raises:NAME, refuses:NAME=VALUE or
file:PATTERN, and "bare" a child without a session.
"""

import atexit
import errno
import json
import os
import re
import sys
import traceback

import torch

torch.set_num_threads(1)


def work():
    """Train, and return the loss."""
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
    """The functions that cffi offers, one of which may fail."""

    def __init__(self, real):
        self._real = real

    def __getattr__(self, name):
        return getattr(self._real, name)


def plant(fault, reached):
    """Make one thing of ours fail, and note in `reached` that it was asked for."""
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
        reached.append(1)
        if kind == "raises":
            raise MemoryError("planted")
        return answer

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


def child(fault, output, report):
    """Train with one fault, and write to a pipe what came of it."""
    reached, loss, error = [], "", ""
    # registered first, called last: what our own exit asks for is told, too
    atexit.register(lambda: os.write(report, json.dumps([loss, error, len(reached)]).encode()))
    if fault != "bare":
        os.environ["MS_PROFILER_OPTIONS"] = json.dumps(
            {
                "start": True,
                "output_path": output,
                "analyse": "off",
                "with_stack": "sample",
                "profile_memory": True,
                "record_shapes": True,
                "parallel_strategy": True,
                "host_rate": 100,
            }
        )
        plant(fault, reached)
        from ms_profiler.job import bootstrap

        bootstrap.activate()  # the framework is there already
    try:
        loss = work()
    except BaseException:  # noqa: BLE001 - whatever harms the job
        error = traceback.format_exc()
    sys.exit(7)


def main():
    """Run all faults."""
    for fault in sys.argv[2:]:
        reader, writer = os.pipe()
        error_reader, error_writer = os.pipe()
        sys.stdout.flush()
        pid = os.fork()
        if not pid:
            os.close(reader)
            os.dup2(error_writer, 2)
            os.close(error_writer)
            os.close(error_reader)
            child(fault, os.path.join(sys.argv[1], str(os.getpid())), writer)
        os.close(writer)
        os.close(error_writer)
        with os.fdopen(error_reader, "rb") as stream:
            err = stream.read().decode()
        with os.fdopen(reader, "rb") as stream:
            told = stream.read()
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        loss, error, reached = json.loads(told or b'["", "no report", 0]')
        told = {"pid": pid, "code": code, "loss": loss, "error": error, "reached": reached, "err": err}
        print(json.dumps({"fault": fault} | told))


main()
