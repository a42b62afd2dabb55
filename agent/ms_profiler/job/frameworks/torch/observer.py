"""Connect the recorder to PyTorch's callbacks for operators, whose C++ interface we know for some versions of PyTorch.

PyTorch calls these callbacks at the begin and at the end of each operator, see `native/observer.h`. The names of the
functions contain the types of their arguments, so a changed function is not found. The names say nothing about the
fields of an operator, whose offsets depend on the version.
"""

import os
import re
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ms_profiler.job.recorder import Recorder

#: The first and the last version of PyTorch whose headers (ATen/record_function.h) have the fields at these offsets.
FIRST, LAST = (2, 4), (2, 15)
#: Whether PyTorch was built with the newer strings of C++, which are larger -> offsets of `thread_id_`, `scope_`,
#: `sequence_nr_`, `fwd_thread_id_` and `is_async_` in a `RecordFunction`, in bytes; the same on x86-64 and aarch64.
OFFSETS = {True: (88, 96, 200, 304, 320), False: (88, 96, 176, 280, 296)}


def version() -> tuple[int, int]:
    """Return the major and the minor version of PyTorch; (0, 0) if the text of the version has another form."""
    found = re.match(r"(\d+)\.(\d+)", sys.modules["torch"].__version__)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def connect(to: "Recorder") -> str:
    """Connect the recorder to PyTorch; return the reason if that is impossible, empty on success.

    Args:
        to: the recorder that receives the operators.
    """
    torch = sys.modules["torch"]
    if not FIRST <= version() <= LAST:
        return f"ms-profiler does not know the operators of PyTorch {torch.__version__}"
    library = os.path.join(torch.__path__[0], "lib", "libtorch_cpu.so")
    newer = bool(getattr(torch._C, "_GLIBCXX_USE_CXX11_ABI", True))
    return to.connect_operators(os.fsencode(library), *OFFSETS[newer])
