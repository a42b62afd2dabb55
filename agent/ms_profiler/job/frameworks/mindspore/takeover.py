"""Keep MindSpore's own profiler from starting beside ours.

`import mindspore` reads MS_PROFILER_OPTIONS itself, in the last line of `mindspore.profiler.envprofiler`, and starts
its profiler; two collectors lose both recordings, a value like `[1]` ends the interpreter, and in a spawn child it
starts an endless chain of processes. So the variable is away while that module executes, and back afterwards: the
script and the job's children see it as it was.
"""

import importlib
import json
import os
import sys

from ms_profiler import options
from ms_profiler.job import process
from ms_profiler.job.frameworks import import_hook

MODULE = "mindspore.profiler.envprofiler"
#: Modules of ours that can record an NPU, each with `usable() -> bool`.
BACKENDS: tuple[str, ...] = ()

#: Why MindSpore's own profiler was left to itself; empty when it was not.
kept = ""

_value: str | None = None


def install(counts: bool, devices: str = "/dev") -> None:
    """Watch for the module that starts MindSpore's profiler; called when the import of MindSpore begins.

    Args:
        counts: whether this process is to be profiled, and not a helper of a job that is.
        devices: where device files are.
    """

    def hide(_name: str) -> None:
        global kept, _value
        kept = ""
        # away first: if what follows fails, the job is better off without either profiler
        _value = os.environ.pop(process.VARIABLE, None)
        if _value is None:
            return
        kept, shown = _decide(options.parse(_value), _value, counts, devices)
        if kept:
            os.environ[process.VARIABLE] = shown

    import_hook.unwatch(MODULE)  # of an earlier import that failed, or before a reload
    import_hook.watch(MODULE, before=hide, after=_restore, failed=_restore)


def _restore(_name: str, *_: object) -> None:
    global _value
    if _value is not None:
        os.environ[process.VARIABLE] = _value
        _value = None


def _decide(parsed: options.Parsed, value: str, counts: bool, devices: str) -> tuple[str, str]:
    """Return why MindSpore's profiler is left to itself, and the value of the variable it is to see."""
    if not parsed.takeover:
        return "takeover is false", value
    chosen = parsed.options
    if chosen is None or not counts or "--multiprocessing-fork" in sys.orig_argv:
        return "", ""
    identity = process.identity(os.environ)
    if not identity.selected(chosen.ranks):
        return "", ""
    if has_npu(devices) and not usable_backend():
        return "an NPU is here, and only MindSpore's own profiler can record it", _in_its_words(chosen)
    return "", ""


def _in_its_words(chosen: options.Options) -> str:
    """Return the options as MindSpore's profiler takes them: resolved, since it stumbles over what we forgive."""
    values = chosen.as_dict()
    values["export_type"] = [form for form in chosen.export_type if form != "kineto"] or ["text"]
    return json.dumps(values)


def has_npu(devices: str = "/dev") -> bool:
    """Return whether an Ascend NPU is attached: its driver makes one file per device, davinci0 and on."""
    try:
        names = os.listdir(devices)
    except OSError:
        return False
    return any(name.startswith("davinci") and name[7:].isdigit() for name in names)


def usable_backend() -> bool:
    """Return whether a device back end of ours can record the NPU of this machine."""
    return any(importlib.import_module(name).usable() for name in BACKENDS)
