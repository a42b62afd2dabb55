"""Keep MindSpore's own profiler from starting beside ours.

`import mindspore` reads MS_PROFILER_OPTIONS itself, in the last line of `mindspore.profiler.envprofiler`, and starts
MindSpore's profiler. With two profilers in one process, both recordings would be lost. Besides, a value like `[1]`
would end the interpreter, and in a child that multiprocessing spawns, MindSpore's profiler would start an endless chain
of processes. So ms-profiler removes the variable from the environment while `envprofiler` executes, and restores it
afterwards. The script and the job's children see the variable unchanged.
"""

import os
import sys
from json import dumps

from ms_profiler import options
from ms_profiler.job import origin, process
from ms_profiler.job.devices import npu
from ms_profiler.job.frameworks import import_hook

MODULE = "mindspore.profiler.envprofiler"
#: Longest time for the test whether an interface can record the NPU, s.
PATIENCE = 30
#: options that have an effect on MindSpore's own profiler, if ms-profiler lets it run, and none on ms-profiler
FORWARDED = (
    *("profiler_level", "aic_metrics", "with_stack", "parallel_strategy", "l2_cache", "hbm_ddr", "pcie", "sys_io"),
    *("sys_interconnection", "host_sys", "mstx"),
)

#: Why ms-profiler lets MindSpore's own profiler run; empty if it does not run.
left_running = ""

_value: str | None = None


def install(profiled: bool) -> None:
    """Hide the variable from the module that starts MindSpore's profiler; called when the import of MindSpore begins.

    Args:
        profiled: whether this process may be profiled; helper processes of a job may not.
    """

    def hide(_name: str) -> None:
        global left_running, _value
        left_running = ""
        # Remove the variable first. If one of the next lines fails, MindSpore's profiler does not start, and the job is
        # harmed least.
        _value = os.environ.pop(origin.VARIABLE, None)
        if _value is None:
            return
        left_running, shown = _decide(options.parse(_value), _value, profiled)
        if left_running:
            os.environ[origin.VARIABLE] = shown

    import_hook.unwatch(MODULE)  # undo an earlier call: an import of MindSpore failed, or this is a reload
    import_hook.watch(MODULE, before=hide, after=_restore, failed=_restore)


def _restore(_name: str, *_: object) -> None:
    global _value
    if _value is not None:
        os.environ[origin.VARIABLE] = _value
        _value = None


def _decide(parsed: options.Parsed, value: str, profiled: bool) -> tuple[str, str]:
    """Return why MindSpore's profiler may run, and its options as text; two empty texts if it must not run."""
    if not parsed.takeover:
        return "takeover is false", value
    chosen = parsed.options
    if chosen is None or not profiled or "--multiprocessing-fork" in sys.orig_argv:
        return "", ""
    identity = process.identity(os.environ)
    if not identity.selected(chosen.ranks):
        return "", ""
    if npu.count() and "NPU" in chosen.activities and (why := unusable(chosen)):
        return f"an NPU is here, and {why}", _for_mindspore(chosen)
    return "", ""


def _for_mindspore(chosen: options.Options) -> str:
    """Return the resolved options as JSON, because MindSpore's profiler rejects some spellings that we accept."""
    values = chosen.as_dict()
    values["with_stack"] = chosen.with_stack is True  # MindSpore's profiler takes no samples
    values["export_type"] = [form for form in chosen.export_type if form != "kineto"] or ["text"]
    return dumps(values)


def unusable(chosen: options.Options) -> str:
    """Return why ms-profiler cannot record the NPU with these options; empty if it can.

    ms-profiler tries each tracing interface (msPTI, aclprof) in a separate process, because a vendor's library may
    crash the process that loads it. This process may be a job that does not even use the NPU, and must not crash.

    Args:
        chosen: the options of the run.
    """
    from ms_profiler.job.devices.devices import INTERFACES  # imported only where there is an NPU
    from ms_profiler.job.devices.survey import find

    for interface in INTERFACES:
        if interface.activity == "NPU" and interface().serves([chosen]):
            why = find(interface(), PATIENCE).why
            return f"{interface.name}, which would record it, is not usable: {why}" if why else ""
    return "only MindSpore's own profiler can record it"
