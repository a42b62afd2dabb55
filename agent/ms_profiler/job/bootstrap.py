"""Activate ms-profiler while the interpreter starts: wait for the import of a framework.

Before that import, ms-profiler writes and prints nothing. The installed `.pth` file and `sitecustomize` may both call
`activate`; the second call does nothing. This module imports only small modules of this package, and modules that a
starting interpreter has loaded. So a process that never imports a framework loses only 2 ms.
"""

import _signal  # type: ignore[import-not-found]
import os
import posix
import sys

from ms_profiler.job import helper, origin
from ms_profiler.job.frameworks import PLUGINS, import_hook

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

_active = False
_companion = ""
_pid = 0
_stderr: "os.stat_result | None" = None  # result of `os.fstat(2)` when Python started


def activate() -> None:
    """Wait for the import of a framework, if MS_PROFILER_OPTIONS is set and this process is no tool; never raise."""
    global _active
    if _active or not os.environ.get(origin.VARIABLE):
        return
    _active = True
    try:
        _activate()
    except BaseException:
        # an exception at the start of the interpreter would end the job
        if os.environ.get(import_hook.RAISE) == "1":
            raise


def _activate() -> None:
    global _companion, _pid, _stderr
    if not _is_main() or helper.is_tool(sys.orig_argv):
        return
    _companion = helper.is_companion(sys.orig_argv, os.environ)
    _pid = posix.getpid()
    try:
        origin.directory = posix.getcwd()
    except OSError:
        origin.directory = ""  # the current directory was deleted
    try:
        # `sys.stderr` is None if descriptor 2 was closed when Python started. Another file may have the number 2 by
        # now, for example the `.pth` file that calls this function.
        _stderr = posix.fstat(2) if sys.stderr is not None else None
    except OSError:
        pass
    for name in PLUGINS:
        import_hook.watch(name, before=_begins, after=_imported)
    if _companion == helper.FORK_SERVER:
        posix.register_at_fork(after_in_child=_left_fork_server)


def _is_main() -> bool:
    """Return whether this is the main interpreter of the process, which starts on the main thread.

    The C extension has one state for the whole process, so ms-profiler does nothing in a subinterpreter. To tell them
    apart, this function calls `set_wakeup_fd`. In a subinterpreter, the call raises a ValueError. In the main
    interpreter, it refuses the invalid descriptor and changes nothing.
    """
    try:
        _signal.set_wakeup_fd(-2)
    except ValueError:
        return False
    except OSError:
        pass
    return True


def may_be_profiled() -> bool:
    """Return whether this process may be profiled: it is not a helper process, or it is a child of a fork server."""
    return not _companion or (_companion == helper.FORK_SERVER and posix.getpid() != _pid)


def _begins(name: str) -> None:
    from ms_profiler import log

    log.keep_to(_stderr)
    if name == "mindspore":
        from ms_profiler.job.frameworks.mindspore import takeover

        takeover.install(may_be_profiled())


def _imported(name: str, module: "ModuleType", start_ns: int, end_ns: int) -> None:
    if may_be_profiled():
        from ms_profiler.job import collection

        collection.framework_imported(name, module, start_ns, end_ns)


def _left_fork_server() -> None:
    """Begin to profile in a child of multiprocessing's fork server, if the fork server has imported a framework."""
    for name in PLUGINS:
        if name in sys.modules:
            import_hook.call(_imported, name, sys.modules[name], 0, 0)
