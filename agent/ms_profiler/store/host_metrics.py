"""The system's counters of a process and its machine, which the job records and the analysis shows.

A counter has the same name in the recording, in the timelines and in `host_metrics.csv`. If a machine has several
devices of a kind (processors, disks, network cards), the name of the device follows the name of the counter.
"""

import posix
from dataclasses import dataclass
from typing import Final

#: name of the metric for the time that ms-profiler needed to read all counters once, ns
SAMPLE: Final = "sample of the host"


@dataclass(frozen=True)
class Metric:
    """A counter of the system.

    Attributes:
        name: the counter's name in results; if it ends with a space, the name of a device follows.
        unit: the unit of the value that results show.
        source: the file or function of the system that reports the counter.
        factor: number by which the system's value is multiplied to get a value in `unit`.
        grows: whether the counter only grows, such as a number of bytes read. Then results show its growth per second.
    """

    name: str
    unit: str
    source: str
    factor: float = 1.0
    grows: bool = True


_TICKS: Final = 1 / posix.sysconf("SC_CLK_TCK")
_PAGE: Final = float(posix.sysconf("SC_PAGE_SIZE"))
_KB: Final = 1024.0

USER: Final = Metric("process: running Python and libraries", "processors", "getrusage", 1e-6)
SYSTEM: Final = Metric("process: in the kernel", "processors", "getrusage", 1e-6)
MINOR: Final = Metric("process: minor page faults", "1/s", "getrusage")
MAJOR: Final = Metric("process: major page faults", "1/s", "getrusage")
VOLUNTARY: Final = Metric("process: voluntary context switches", "1/s", "getrusage")
INVOLUNTARY: Final = Metric("process: involuntary context switches", "1/s", "getrusage")
RESIDENT: Final = Metric("process: resident memory", "B", "VmRSS of /proc/self/status", _KB, grows=False)
ANONYMOUS: Final = Metric("process: anonymous memory", "B", "RssAnon of /proc/self/status", _KB, grows=False)
PEAK: Final = Metric("process: peak of resident memory", "B", "VmHWM of /proc/self/status", _KB, grows=False)
SWAPPED: Final = Metric("process: swapped memory", "B", "VmSwap of /proc/self/status", _KB, grows=False)
PROPORTIONAL: Final = Metric("process: proportional memory", "B", "Pss of /proc/self/smaps_rollup", _KB, grows=False)
THREADS: Final = Metric("process: threads", "threads", "/proc/self/status", grows=False)
READ: Final = Metric("process: read from disks", "B/s", "read_bytes of /proc/self/io")
WRITTEN: Final = Metric("process: written to disks", "B/s", "write_bytes of /proc/self/io")
READ_CALLS: Final = Metric("process: read by system calls", "B/s", "rchar of /proc/self/io")
WRITTEN_CALLS: Final = Metric("process: written by system calls", "B/s", "wchar of /proc/self/io")

THREAD_RAN: Final = Metric("thread: running", "processors", "/proc/self/task/*/schedstat", 1e-9)
THREAD_WAITED: Final = Metric("thread: waiting for a processor", "processors", "/proc/self/task/*/schedstat", 1e-9)

#: columns of `/proc/stat` with the processors' time by kind of use, as proc_stat(5) lists them
BUSY: Final = (
    Metric("machine: user programs", "processors", "/proc/stat", _TICKS),
    Metric("machine: nice programs", "processors", "/proc/stat", _TICKS),
    Metric("machine: kernel", "processors", "/proc/stat", _TICKS),
)
IDLE: Final = Metric("machine: idle", "processors", "/proc/stat", _TICKS)
DISK_WAIT: Final = Metric("machine: waiting for disks", "processors", "/proc/stat", _TICKS)
INTERRUPTS: Final = (
    Metric("machine: interrupts", "processors", "/proc/stat", _TICKS),
    Metric("machine: soft interrupts", "processors", "/proc/stat", _TICKS),
)
STOLEN: Final = Metric("machine: taken by other virtual machines", "processors", "/proc/stat", _TICKS)
#: Share of the time in which some tasks, or all tasks, waited for processors, memory or disks. The kernel calls it
#: pressure stall information: https://docs.kernel.org/accounting/psi.html
PRESSURE: Final = {
    kind: tuple(
        Metric(f"pressure: {who} waited for {what}", "share", f"/proc/pressure/{kind}", 1e-6) for who in ("some", "all")
    )
    for kind, what in (("cpu", "a processor"), ("memory", "memory"), ("io", "disks"))
}
SWAP_IN: Final = Metric("machine: swapped in", "B/s", "pswpin of /proc/vmstat", _PAGE)
SWAP_OUT: Final = Metric("machine: swapped out", "B/s", "pswpout of /proc/vmstat", _PAGE)
MACHINE_MAJOR: Final = Metric("machine: major page faults", "1/s", "pgmajfault of /proc/vmstat")
AVAILABLE: Final = Metric("machine: available memory", "B", "MemAvailable of /proc/meminfo", _KB, grows=False)
PERIODS: Final = Metric("control group: periods", "1/s", "nr_periods of cpu.stat")
THROTTLED: Final = Metric("control group: throttled periods", "1/s", "nr_throttled of cpu.stat")
#: Time in which a control group was not allowed to run, because it had used up its processor time. The two metrics are
#: for version 2 and version 1 of control groups. Version 1 reports the sum over all processors.
WITHHELD: Final = Metric("control group: withheld from", "processors", "throttled_usec of cpu.stat (version 2)", 1e-6)
WITHHELD_1: Final = Metric(
    "control group: processors withheld", "processors", "throttled_time of cpu.stat (version 1)", 1e-9
)
#: the processor time that a control group may use in a period, and the length of the period
QUOTA: Final = Metric("control group: quota", "us", "cpu.max, cpu.cfs_quota_us", grows=False)
PERIOD: Final = Metric("control group: period", "us", "cpu.max, cpu.cfs_period_us", grows=False)
GROUP_MEMORY: Final = Metric("control group: memory", "B", "memory.current, memory.usage_in_bytes", grows=False)
GROUP_LIMIT: Final = Metric("control group: memory limit", "B", "memory.max, memory.limit_in_bytes", grows=False)

PROCESSOR: Final = Metric("processor, idle: ", "processors", "/proc/stat", _TICKS)
FREQUENCY: Final = Metric("processor, frequency: ", "Hz", "/sys/devices/system/cpu/*/cpufreq", 1e3, grows=False)
HOT: Final = Metric("processor, slowed for heat: ", "1/s", "/sys/devices/system/cpu/*/thermal_throttle")
SWITCHES: Final = Metric("machine: context switches", "1/s", "ctxt of /proc/stat")
FREE: Final = Metric("machine: free memory", "B", "MemFree of /proc/meminfo", _KB, grows=False)
CACHED: Final = Metric("machine: memory for files", "B", "Cached of /proc/meminfo", _KB, grows=False)
SWAP_FREE: Final = Metric("machine: free swap", "B", "SwapFree of /proc/meminfo", _KB, grows=False)
#: a sector in `/sys/block/*/stat` has 512 bytes for every disk
DISK_READ: Final = Metric("disk, read: ", "B/s", "/sys/block/*/stat", 512.0)
DISK_WRITTEN: Final = Metric("disk, written: ", "B/s", "/sys/block/*/stat", 512.0)
DISK_BUSY: Final = Metric("disk, busy: ", "share", "/sys/block/*/stat", 1e-3)
RECEIVED: Final = Metric("network, received: ", "B/s", "/sys/class/net/*/statistics")
SENT: Final = Metric("network, sent: ", "B/s", "/sys/class/net/*/statistics")

#: name of a metric -> the metric
METRICS: Final = {
    metric.name: metric
    for metric in (
        *(USER, SYSTEM, MINOR, MAJOR, VOLUNTARY, INVOLUNTARY, RESIDENT, ANONYMOUS, PEAK, SWAPPED, PROPORTIONAL),
        *(THREADS, READ, WRITTEN, READ_CALLS, WRITTEN_CALLS, THREAD_RAN, THREAD_WAITED, *BUSY, IDLE, DISK_WAIT),
        *(*INTERRUPTS, STOLEN, *(metric for kind in PRESSURE.values() for metric in kind), SWAP_IN, SWAP_OUT),
        *(MACHINE_MAJOR, AVAILABLE, PERIODS, THROTTLED, WITHHELD, WITHHELD_1, QUOTA, PERIOD, GROUP_MEMORY, GROUP_LIMIT),
        *(PROCESSOR, FREQUENCY, HOT, SWITCHES, FREE, CACHED, SWAP_FREE, DISK_READ, DISK_WRITTEN, DISK_BUSY),
        *(RECEIVED, SENT),
    )
}


def metric(name: str) -> Metric | None:
    """Return the metric that has this name, which the name of a device may follow; None for an unknown name."""
    return METRICS.get(name) or METRICS.get(name[: name.find(": ") + 2])
