"""Read Linux's counters of the process and its machine, at a fixed rate, while the session records.

A helper thread of the C extension reads the files with the counters. A Python thread would have to take the GIL for
each file, and so delay the job.
"""

import posix
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from ms_profiler import paths
from ms_profiler.job.samplers import control_groups
from ms_profiler.store import host_metrics as names

if TYPE_CHECKING:
    from ms_profiler.job.host import Host

#: directory that contains `proc` and `sys`
root: str = "/"
#: largest number of processors, disks, and network cards that are recorded one by one
DEVICES: Final = 64
#: value of the option `host_sys` that requests system calls, which ms-profiler does not record
SYSTEM_CALLS: Final = "osrt"
#: largest share of one processor that the reading may take. A sample takes 0.2 to 0.5 ms. With 0.005, a job that had
#: only one processor took 0.5 % longer, which is no part of the budget
SHARE: Final = 0.002
#: The reading takes at most this part of `overhead_budget`: the job may need all processors itself.
PART: Final = 0.25


class Row(NamedTuple):
    """The place of a counter in a file of Linux.

    Attributes:
        name: name of the counter in the records.
        path: path of the file; or "usage" for getrusage, "threads" for the file `schedstat` of each thread.
        key: begin of the line that has the counter.
        number: which number of the line is the counter, from 0; -1: the last one.
        own: whether this is a counter of the process, not of the machine; fork children read it, too.
        seldom: whether the counter takes long to read, so that it is read every two seconds at most.
    """

    name: str
    path: str
    key: str = ""
    number: int = 0
    own: bool = False
    seldom: bool = False


def rows(asked: frozenset[str]) -> list[Row]:
    """Return the places of all counters to read; those in one file follow each other.

    Args:
        asked: the chosen values of the option `host_sys`.
    """
    found = [*_process(), *_machine("cpu" in asked), *_groups()]
    if "cpu" in asked:
        found += [*_threads(), *_processors()]
    if "mem" in asked:
        found.append(Row(names.PROPORTIONAL.name, f"{root}proc/self/smaps_rollup", "Pss:", own=True, seldom=True))
    if "disk" in asked:
        found += _disks()
    if "network" in asked:
        found += _cards()
    return sorted(found, key=lambda row: row.path)


def _process() -> Iterator[Row]:
    used = names.USER, names.SYSTEM, names.MINOR, names.MAJOR, names.VOLUNTARY, names.INVOLUNTARY
    for number, metric in enumerate(used):
        yield Row(metric.name, "usage", "", number, own=True)
    for metric, key in (
        (names.RESIDENT, "VmRSS:"),
        (names.ANONYMOUS, "RssAnon:"),
        (names.PEAK, "VmHWM:"),
        (names.SWAPPED, "VmSwap:"),
        (names.THREADS, "Threads:"),
    ):
        yield Row(metric.name, f"{root}proc/self/status", key, own=True)
    for metric, key in (
        (names.READ, "read_bytes:"),
        (names.WRITTEN, "write_bytes:"),
        (names.READ_CALLS, "rchar:"),
        (names.WRITTEN_CALLS, "wchar:"),
    ):
        yield Row(metric.name, f"{root}proc/self/io", key, own=True)


def _machine(switches: bool) -> Iterator[Row]:
    stat = f"{root}proc/stat"
    columns = *names.BUSY, names.IDLE, names.DISK_WAIT, *names.INTERRUPTS, names.STOLEN
    for number, metric in enumerate(columns):
        yield Row(metric.name, stat, "cpu ", number)
    if switches:
        yield Row(names.SWITCHES.name, stat, "ctxt ")
    for kind, pair in names.PRESSURE.items():
        for metric, key in zip(pair, ("some", "full"), strict=True):
            yield Row(metric.name, f"{root}proc/pressure/{kind}", key, -1)
    for metric, key in (
        (names.SWAP_IN, "pswpin "),
        (names.SWAP_OUT, "pswpout "),
        (names.MACHINE_MAJOR, "pgmajfault "),
    ):
        yield Row(metric.name, f"{root}proc/vmstat", key)
    for metric, key in (
        (names.AVAILABLE, "MemAvailable:"),
        (names.FREE, "MemFree:"),
        (names.CACHED, "Cached:"),
        (names.SWAP_FREE, "SwapFree:"),
    ):
        yield Row(metric.name, f"{root}proc/meminfo", key)


def _groups() -> Iterator[Row]:
    """Yield the counters of the control groups with the tightest limits for processors and memory.

    If no group limits the processors, the group of this process is taken in place of one with a limit.
    """
    around = list(control_groups.groups("cpu", root))
    tight = sorted((limit, at) for at, group in enumerate(around) if (limit := control_groups.quota(group)))
    if around:
        group = around[tight[0][1] if tight else 0]
        path = f"{group.folder}/cpu.stat"
        yield Row(names.PERIODS.name, path, "nr_periods ")
        yield Row(names.THROTTLED.name, path, "nr_throttled ")
        if group.unified:
            yield Row(names.WITHHELD.name, path, "throttled_usec ")
        else:
            yield Row(names.WITHHELD_1.name, path, "throttled_time ")
        if tight:
            files = ("cpu.max",) * 2 if group.unified else ("cpu.cfs_quota_us", "cpu.cfs_period_us")
            yield Row(names.QUOTA.name, f"{group.folder}/{files[0]}")
            yield Row(names.PERIOD.name, f"{group.folder}/{files[1]}", "", int(group.unified))
    around = list(control_groups.groups("memory", root))
    tight = sorted((limit, at) for at, group in enumerate(around) if (limit := control_groups.memory_limit(group)))
    if tight:
        group = around[tight[0][1]]
        used, most = (
            ("memory.current", "memory.max") if group.unified else ("memory.usage_in_bytes", "memory.limit_in_bytes")
        )
        yield Row(names.GROUP_MEMORY.name, f"{group.folder}/{used}")
        yield Row(names.GROUP_LIMIT.name, f"{group.folder}/{most}")


def _threads() -> Iterator[Row]:
    yield Row(names.THREAD_RAN.name, "threads", "", 0, own=True)
    yield Row(names.THREAD_WAITED.name, "threads", "", 1, own=True)


def _processors() -> Iterator[Row]:
    for number in range(min(posix.cpu_count() or 1, DEVICES)):
        folder = f"{root}sys/devices/system/cpu/cpu{number}"
        yield Row(f"{names.PROCESSOR.name}{number}", f"{root}proc/stat", f"cpu{number} ", 3)
        if paths.exists(path := f"{folder}/cpufreq/scaling_cur_freq"):
            yield Row(f"{names.FREQUENCY.name}{number}", path, seldom=True)
        if paths.exists(path := f"{folder}/thermal_throttle/core_throttle_count"):
            yield Row(f"{names.HOT.name}{number}", path, seldom=True)


def _devices(folder: str) -> list[str]:
    """Return the names of devices, except virtual ones of the system such as `lo` or `loop0`."""
    try:
        found = sorted(posix.listdir(f"{root}{folder}"))
    except OSError:
        return []
    return [name for name in found if not name.startswith(("loop", "ram", "zram")) and name != "lo"][:DEVICES]


def _disks() -> Iterator[Row]:
    for name in _devices("sys/block"):
        for metric, number in ((names.DISK_READ, 2), (names.DISK_WRITTEN, 6), (names.DISK_BUSY, 9)):
            yield Row(f"{metric.name}{name}", f"{root}sys/block/{name}/stat", "", number)


def _cards() -> Iterator[Row]:
    for name in _devices("sys/class/net"):
        for metric, file in ((names.RECEIVED, "rx_bytes"), (names.SENT, "tx_bytes")):
            yield Row(f"{metric.name}{name}", f"{root}sys/class/net/{name}/statistics/{file}")


class System:
    """Let the C extension's helper thread read Linux's counters while any recording requests them.

    Args:
        host: the session that records.
    """

    def __init__(self, host: "Host") -> None:
        self._host = host
        self._reads = False

    def start(self) -> None:
        """Start reading the counters that the open recordings request; in a fork child, do nothing."""
        if self._host.forked:
            return
        options = [recording.options for recording in self._host.recordings]
        rate = max((item.host_rate for item in options), default=0.0)
        if not rate:
            return
        budget = max(item.overhead_budget for item in options)
        asked = frozenset(choice for item in options for choice in item.host_sys)
        if any(item.profile_memory for item in options):
            asked |= {"mem"}
        if SYSTEM_CALLS in asked:
            self._host.not_collected("system calls", "counting system calls needs a tracer with root rights")
        self._reads = True  # noted first, because an exception of the job may end the next call
        why = self._host.recorder.read_host(rows(asked), rate, min(SHARE, PART * budget) if budget else SHARE)
        if why:
            self._host.not_collected("metrics of the host", why)
        self._reads = not why

    def stop(self) -> None:
        """Stop reading counters."""
        if self._reads and not self._host.forked:
            self._host.recorder.read_host([], 1.0, SHARE)
            self._reads = False


def watch(host: "Host") -> None:
    """Read Linux's counters of the process and its machine while the session records.

    Args:
        host: the session that records.
    """
    system = System(host)
    host.at_start(system.start)
    host.at_end(system.stop)
