"""Read the memory of the process as Linux counts it, from `/proc/self/statm`, see proc_pid_statm(5).

The file has the number of pages in memory, and the number of those pages that belong to files. The difference is the
process's own memory, without libraries and without the mapped files into which ms-profiler records.
"""

import posix
from typing import Final

PATH: Final = "/proc/self/statm"


def held() -> int:
    """Return the bytes of the process's own memory; the call takes 6 us.

    Each call opens the file, which takes 5 of the 6 us. To keep the descriptor open would be unsafe. A job may close
    all descriptors that it does not know, and open a file of its own under the same number. ms-profiler would then read
    and close the job's file.

    Raises:
        OSError: the file cannot be read.
    """
    descriptor = posix.open(PATH, posix.O_RDONLY | posix.O_CLOEXEC)
    try:
        fields = posix.pread(descriptor, 128, 0).split()
    finally:
        posix.close(descriptor)
    return (int(fields[1]) - int(fields[2])) * posix.sysconf("SC_PAGE_SIZE")
