"""Connect PyTorch to our collector of the ITT interface, while PyTorch is imported.

On x86, PyTorch contains a copy of Intel's ITT library, which looks for a collector once. The static constructors of
libtorch_cpu check whether the environment variable INTEL_LIBITTNOTIFY64 names a collector. The first call of ITT loads
this collector. So the variable names our extension while `import torch` executes. The variable is removed before any
line of the script runs. If another tool, for example VTune, has set the variable, it stays unchanged.
"""

import os
import sys
from typing import TYPE_CHECKING

from ms_profiler.job import recorder

if TYPE_CHECKING:
    from ms_profiler.job.recorder import Recorder

VARIABLE = "INTEL_LIBITTNOTIFY64"

_path = ""  # value to which `install` sets the variable
_reason = ""  # why the variable was not set


def install(profiled: bool) -> None:
    """Name our extension as the collector while PyTorch is imported; called when that import begins.

    Args:
        profiled: whether this process may be profiled; helper processes of a job may not.
    """
    global _path, _reason
    _path = recorder.collector() if profiled else ""
    _reason = ""
    if VARIABLE in os.environ:
        _reason = f"{VARIABLE} names another collector"
    elif not _path:
        _reason = "the extension, which collects them, does not load"
    if _reason:
        _path = ""
    else:
        os.environ[VARIABLE] = _path


def restore() -> None:
    """Remove the variable if `install` has set it; called when the import has ended, with or without an error."""
    global _path
    if _path and os.environ.get(VARIABLE) == _path:
        del os.environ[VARIABLE]
    _path = ""


def connect(to: "Recorder") -> str:
    """Make PyTorch load our collector; return the reason if it does not, empty on success.

    Args:
        to: the recorder that receives the operators.
    """
    if to.take_ops():
        return ""
    if not _path:
        return _reason or "PyTorch had been imported before"
    itt = getattr(sys.modules["torch._C"], "_itt", None)
    if itt is None:
        return "this build of PyTorch has no ITT"
    itt.rangePush("ms_profiler")
    itt.rangePop()
    return "" if to.take_ops() else "this build of PyTorch has no ITT"
