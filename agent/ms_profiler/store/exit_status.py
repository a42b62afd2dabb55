"""The exit status of a process, which it writes as its last act.

The file `exit_status` in the folder of the process holds the number that its parent gets, 0 to 255, in decimal digits
and a line feed. There is none of a process that a signal or `os._exit` has ended, that still runs, or that the recorder
in Python has recorded.
"""

import os

from ms_profiler.store import layout

#: more than a number of three digits and a line feed
_MOST = 16


def read(folder: str) -> int | None:
    """Return the exit status of the process that wrote `folder`; None where none was written.

    Args:
        folder: a `process_{pid}` directory.
    """
    try:
        with open(os.path.join(folder, layout.EXIT_STATUS), "rb") as stream:
            return int(stream.read(_MOST))
    except (OSError, ValueError):
        return None
