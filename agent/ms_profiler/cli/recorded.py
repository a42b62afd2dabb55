"""Find the processes of a command that record, and note how each of them ends.

The parent of a process knows how it ended, but may not report this.
"""

import contextlib
import fcntl
import os
import sys

from ms_profiler.store import alive, exit_status, layout, run_info

#: constants of linux/pidfd.h: `PIDFD_GET_INFO`, `PIDFD_INFO_EXIT` and `PIDFD_INFO_SIZE_VER0`
_GET_INFO, _INFO_EXIT, _INFO_SIZE = 0xC040FF0B, 1 << 3, 64
#: largest number of processes that are watched at the same time, because `select` takes at most 1,024 descriptors
_MOST = 500


class Recorded:
    """Finds the processes of a command that record, by their result directories.

    Args:
        output: the directory in which the command's result directories appear.
        begun: the start of the command, in seconds since the epoch; older results do not belong to it.
    """

    def __init__(self, output: str, begun: float) -> None:
        self._output = output
        self._begun = begun
        self._seen: set[str] = set()
        #: paths of results from before the command. There may be thousands of them, so each is examined only once.
        self._older: set[str] = set()
        #: descriptor of a running process -> (its process id, the folder into which it records)
        self.running: dict[int, tuple[int, str]] = {}

    def results(self) -> list[str]:
        """Return the result directories that are newer than the start of the command.

        They are in `output` or, if a job cannot write there, in the directory for temporary files.
        """
        found = []
        for folder in (self._output, os.environ.get("TMPDIR") or "/tmp"):
            with contextlib.suppress(OSError), os.scandir(folder) as entries:
                for entry in entries:
                    if not entry.name.endswith(layout.SUFFIX) or entry.path in self._older:
                        continue
                    # some file systems round times down, so allow for one second
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
            return  # the process has not written its `process_info.json` yet, or has ended already
        if alive.is_alive(process.pid, process.process_start):
            self.running[descriptor] = process.pid, folder
        else:
            os.close(descriptor)

    def ended(self, descriptor: int) -> None:
        """Write into the result how a process ended, if the process did not write this itself.

        Args:
            descriptor: a key of `running`; it has become readable, which means that the process has ended.
        """
        pid, folder = self.running.pop(descriptor)
        write_end(descriptor, pid, folder)
        os.close(descriptor)


def write_end(descriptor: int, pid: int, folder: str) -> None:
    """Write a process's exit status into its folder, if the kernel reports it and the process did not write it.

    Args:
        descriptor: the descriptor of the process (pidfd).
        pid: the process id.
        folder: the folder into which the process recorded.
    """
    status = _status(descriptor, pid)
    if status is not None:
        with contextlib.suppress(OSError):  # the folder does not exist, or holds the status already
            exit_status.write(folder, status)


def _status(descriptor: int, pid: int) -> int | None:
    """Return the exit status of an ended process; None if the kernel does not report it.

    If signal N ended the process, the result is -N.

    Until the parent calls wait(), /proc shows the status. This may take long, for example because the parent first
    reads stderr to its end. After wait(), Linux 6.15 and newer report the status to anyone who has a descriptor of the
    process.
    """
    # /proc shows the status 0 to a reader that may not trace the process. So if it shows 0, ask the kernel.
    status = alive.wait_status(pid) or _asked(descriptor)
    return None if status is None else os.waitstatus_to_exitcode(status)


def _asked(descriptor: int) -> int | None:
    """Return the exit status of a process whose parent has called wait(); None if the kernel does not report it.

    The kernel fills a `struct pidfd_info` (uapi/linux/pidfd.h). Its first 8 bytes are a mask that says which fields are
    valid. The status, in the form of `wait()`, is at byte 60.
    """
    information = bytearray(_INFO_SIZE)
    information[:8] = _INFO_EXIT.to_bytes(8, sys.byteorder)
    try:
        fcntl.ioctl(descriptor, _GET_INFO, information)
    except OSError:
        return None
    known = int.from_bytes(information[:8], sys.byteorder) & _INFO_EXIT
    return int.from_bytes(information[60:64], sys.byteorder) if known else None
