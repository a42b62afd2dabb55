"""Connect PyTorch to our collector of the ITT interface, while PyTorch is imported.

On x86 PyTorch holds a copy of Intel's ITT library. It looks for a collector once: the static constructors of
libtorch_cpu check whether INTEL_LIBITTNOTIFY64 names one, and the first call of ITT loads it. So the variable names our
extension while `import torch` executes, and is removed before any line of the script runs. If another tool, for example
VTune, has set it, it stays unchanged.
"""

import os
import sys
from typing import TYPE_CHECKING

from ms_profiler.job import recorder

if TYPE_CHECKING:
    from ms_profiler.job.recorder import Recorder

VARIABLE = "INTEL_LIBITTNOTIFY64"

_path = ""  # value that we give the variable
_reason = ""  # why the variable was not set


def install(counts: bool) -> None:
    """Name our extension as the collector while PyTorch is imported; called when that import begins.

    Args:
        counts: whether this process is to be profiled, and not a helper of a job that is.
    """
    global _path, _reason
    _path = recorder.collector() if counts else ""
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
    """Leave the variable as it was; called when that import has ended, well or not."""
    global _path
    if _path and os.environ.get(VARIABLE) == _path:
        del os.environ[VARIABLE]
    _path = ""


def connect(to: "Recorder") -> str:
    """Have PyTorch load the collector; return why it does not, empty when it did.

    Args:
        to: the recorder that collects.
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
