"""Find the recording processes below a command, and how each ends: their own parents may not report it."""

import contextlib
import fcntl
import os
import sys

from ms_profiler.store import alive, exit_status, layout, run_info

#: `PIDFD_GET_INFO`, `PIDFD_INFO_EXIT` and `PIDFD_INFO_SIZE_VER0` of linux/pidfd.h
_GET_INFO, _INFO_EXIT, _INFO_SIZE = 0xC040FF0B, 1 << 3, 64
#: processes watched at once: `select` takes 1,024 descriptors
_MOST = 500


class Recorded:
    """The processes whose records are in some results.

    Args:
        output: the directory of the results.
        begun: seconds since the epoch; older results do not count.
    """

    def __init__(self, output: str, begun: float) -> None:
        self._output = output
        self._begun = begun
        self._seen: set[str] = set()
        #: results of other jobs, of which there may be thousands
        self._older: set[str] = set()
        #: descriptor of a process that runs -> process id, and its folder in the store
        self.running: dict[int, tuple[int, str]] = {}

    def results(self) -> list[str]:
        """Return the results that were made in the directory, or in the temporary directory that replaces it."""
        found = []
        for folder in (self._output, os.environ.get("TMPDIR") or "/tmp"):
            with contextlib.suppress(OSError), os.scandir(folder) as entries:
                for entry in entries:
                    if not entry.name.endswith(layout.SUFFIX) or entry.path in self._older:
                        continue
                    # one second for file systems that round times down
                    if entry.stat().st_ctime >= self._begun - 1:
                        found.append(entry.path)
                    else:
                        self._older.add(entry.path)
        return found

    def look(self) -> None:
        """Find the processes that have begun to record since the last call."""
        for result in self.results():
            for folder in layout.process_dirs(result):
                if folder not in self._seen and len(self.running) < _MOST:
                    self._take(folder)

    def _take(self, folder: str) -> None:
        try:
            process = run_info.read_process(os.path.join(folder, layout.PROCESS_INFO))
            self._seen.add(folder)
            descriptor = os.pidfd_open(process.pid)
        except (OSError, ValueError, TypeError):
            return  # it has not written its record yet, or has ended
        if alive.is_alive(process.pid, process.process_start):
            self.running[descriptor] = process.pid, folder
        else:
            os.close(descriptor)

    def ended(self, descriptor: int) -> None:
        """Write how a process has ended, unless the process wrote it itself.

        Args:
            descriptor: one of `running`, which says that the process has ended.
        """
        pid, folder = self.running.pop(descriptor)
        tell(descriptor, pid, folder)
        os.close(descriptor)


def tell(descriptor: int, pid: int, folder: str) -> None:
    """Write how a process has ended into its folder, unless the process wrote it itself or the kernel does not tell.

    Args:
        descriptor: the process descriptor, which becomes readable when the process has ended.
        pid: its process id.
        folder: its folder in the store.
    """
    status = _status(descriptor, pid)
    if status is not None:
        with contextlib.suppress(OSError):  # there is no such folder, or it holds the status
            exit_status.write(folder, status)


def _status(descriptor: int, pid: int) -> int | None:
    """Return the exit status of a process that has ended, -N for signal N; None where the kernel does not tell.

    The parent may not have called wait() yet, for example because it waits for the end of stderr. Until then the
    process keeps its pid. Afterwards Linux 6.15 and newer report the status to anyone with a descriptor of the process.
    """
    # to a reader without the right to trace the process, the first one is always 0
    status = alive.wait_status(pid) or _asked(descriptor)
    return None if status is None else os.waitstatus_to_exitcode(status)


def _asked(descriptor: int) -> int | None:
    """Return the status of a process after its parent has called wait(), None where the kernel does not report it.

    Source: `struct pidfd_info` of Linux's uapi/linux/pidfd.h: the mask in 8 bytes, the status of `wait()` at 60.
    """
    told = bytearray(_INFO_SIZE)
    told[:8] = _INFO_EXIT.to_bytes(8, sys.byteorder)
    try:
        fcntl.ioctl(descriptor, _GET_INFO, told)
    except OSError:
        return None
    known = int.from_bytes(told[:8], sys.byteorder) & _INFO_EXIT
    return int.from_bytes(told[60:64], sys.byteorder) if known else None
