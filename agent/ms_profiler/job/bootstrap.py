"""Activation, called while the interpreter starts: wait for the import of a framework.

Before that import, nothing is written or printed. The installed `.pth` file and `sitecustomize` may both call it; the
second call does nothing. It imports only modules of this package that import nothing themselves: 2 ms in a process that
never imports a framework.
"""

import os
import sys

from ms_profiler.job import helper, origin
from ms_profiler.job.frameworks import PLUGINS, import_hook

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

_active = False
_companion = ""
_pid = 0
_stderr: "os.stat_result | None" = None  # file behind descriptor 2 at the start


def activate() -> None:
    """Wait for a framework if the variable is set and this process is not a helper; never raise."""
    global _active
    if _active or not os.environ.get(origin.VARIABLE):
        return
    _active = True
    try:
        _activate()
    except BaseException:
        # An exception here, at the start of the interpreter, would end the job.
        if os.environ.get(import_hook.RAISE) == "1":
            raise


def _activate() -> None:
    global _companion, _pid, _stderr
    if helper.is_tool(sys.orig_argv):
        return
    _companion = helper.is_companion(sys.orig_argv, os.environ)
    _pid = os.getpid()
    try:
        origin.directory = os.getcwd()
    except OSError:
        origin.directory = ""  # it is gone; a relative output_path then falls back
    try:
        # Python checked at its start whether the descriptor is open; since then a file may have got its number, such as
        # the `.pth` file that calls us
        _stderr = os.fstat(2) if sys.stderr is not None else None
    except OSError:
        pass
    for name in PLUGINS:
        import_hook.watch(name, before=_begins, after=_imported, failed=_ends)
    if _companion == helper.FORK_SERVER:
        os.register_at_fork(after_in_child=_left_fork_server)


def counts() -> bool:
    """Return whether this process may be profiled: it is no helper, or a child that its fork server made."""
    return not _companion or (_companion == helper.FORK_SERVER and os.getpid() != _pid)


def _begins(name: str) -> None:
    from ms_profiler import log

    log.keep_to(_stderr)
    if name == "mindspore":
        from ms_profiler.job.frameworks.mindspore import takeover

        takeover.install(counts())
    elif name == "torch":
        from ms_profiler.job.frameworks.torch import itt

        itt.install(counts())


def _imported(name: str, module: "ModuleType", start_ns: int, end_ns: int) -> None:
    try:
        if counts():
            from ms_profiler.job import collection

            collection.framework_imported(name, module, start_ns, end_ns)
    finally:
        _ends(name)


def _ends(name: str) -> None:
    if name == "torch":
        from ms_profiler.job.frameworks.torch import itt

        itt.restore()


def _left_fork_server() -> None:
    """Begin in a child of a fork server that had imported the framework for it."""
    for name in PLUGINS:
        if name in sys.modules:
            import_hook.call(_imported, name, sys.modules[name], 0, 0)
