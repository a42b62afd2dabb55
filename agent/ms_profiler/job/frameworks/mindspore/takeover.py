"""Keep MindSpore's own profiler from starting beside ours.

`import mindspore` reads MS_PROFILER_OPTIONS itself, in the last line of `mindspore.profiler.envprofiler`, and starts
MindSpore's profiler. Two profilers in one process would lose both recordings. Besides, a value like `[1]` would end the
interpreter, and in a spawn child MindSpore's profiler would start an endless chain of processes. So ms-profiler removes
the variable from the environment while that module executes, and restores it afterwards. The script and the job's
children see the variable unchanged.
"""

import json
import os
import sys

from ms_profiler import options
from ms_profiler.job import origin, process
from ms_profiler.job.devices import npu
from ms_profiler.job.frameworks import import_hook

MODULE = "mindspore.profiler.envprofiler"
#: Seconds that the test of an NPU interface may take.
PATIENCE = 30
#: options that only MindSpore's own profiler uses, if it is left running
FORWARDED = (
    *("profiler_level", "aic_metrics", "with_stack", "parallel_strategy", "l2_cache", "hbm_ddr", "pcie", "sys_io"),
    *("sys_interconnection", "host_sys", "mstx"),
)

#: Why ms-profiler lets MindSpore's own profiler run; empty if it does not run.
left_running = ""

_value: str | None = None


def install(profiled: bool) -> None:
    """Watch for the module that starts MindSpore's profiler; called when the import of MindSpore begins.

    Args:
        profiled: whether this process may be profiled; helper processes of a job may not.
    """

    def hide(_name: str) -> None:
        global left_running, _value
        left_running = ""
        # removed first: then neither profiler starts if one of the next lines fails, and the job is harmed least
        _value = os.environ.pop(origin.VARIABLE, None)
        if _value is None:
            return
        left_running, shown = _decide(options.parse(_value), _value, profiled)
        if left_running:
            os.environ[origin.VARIABLE] = shown

    import_hook.unwatch(MODULE)  # end an earlier watch: an import of MindSpore may have failed, or this is a reload
    import_hook.watch(MODULE, before=hide, after=_restore, failed=_restore)


def _restore(_name: str, *_: object) -> None:
    global _value
    if _value is not None:
        os.environ[origin.VARIABLE] = _value
        _value = None


def _decide(parsed: options.Parsed, value: str, profiled: bool) -> tuple[str, str]:
    """Return why MindSpore's profiler is left running, and the options for it; two empty texts if it must not run."""
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
    return json.dumps(values)


def unusable(chosen: options.Options) -> str:
    """Return why none of our interfaces can record the NPU with these options; empty if one can.

    Each interface is tried in a separate process: a vendor's library may crash the process that loads it. This process
    may be a job that uses no NPU, and must not crash.

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
