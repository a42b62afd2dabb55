"""Register callbacks for operators with PyTorch, in the versions of PyTorch whose C++ interface for this we know.

PyTorch calls the callbacks at the begin and at the end of each operator (`native/observer.h`). ms-profiler finds
PyTorch's functions by their mangled C++ names. These names contain the types of the arguments, so ms-profiler does not
find a function whose arguments have changed. The names say nothing about the fields of PyTorch's object for an
operator. The offsets of these fields depend on the version.
"""

import os
import re
import sys
from typing import TYPE_CHECKING

from ms_profiler import paths

if TYPE_CHECKING:
    from ms_profiler.job.recorder import Recorder

#: The first and the last version of PyTorch whose headers (ATen/record_function.h) give the offsets in `OFFSETS`.
FIRST, LAST = (2, 4), (2, 15)
#: Offsets of the fields `thread_id_`, `scope_`, `sequence_nr_`, `fwd_thread_id_` and `is_async_` in a `RecordFunction`,
#: in bytes. They are the same on x86-64 and aarch64. The key says whether PyTorch was built with C++'s newer strings,
#: which are larger.
OFFSETS = {True: (88, 96, 200, 304, 320), False: (88, 96, 176, 280, 296)}


def version() -> tuple[int, int]:
    """Return the major and the minor version of PyTorch; (0, 0) if `torch.__version__` has an unknown form."""
    found = re.match(r"(\d+)\.(\d+)", sys.modules["torch"].__version__)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def connect(to: "Recorder") -> str:
    """Register the callbacks for operators with PyTorch; return why this is impossible, or an empty text on success.

    Args:
        to: the recorder, which receives the operators.
    """
    torch = sys.modules["torch"]
    if not FIRST <= version() <= LAST:
        return f"ms-profiler does not know the operators of PyTorch {torch.__version__}"
    library = paths.join(torch.__path__[0], "lib", "libtorch_cpu.so")
    newer = bool(getattr(torch._C, "_GLIBCXX_USE_CXX11_ABI", True))
    return to.connect_operators(os.fsencode(library), *OFFSETS[newer])
