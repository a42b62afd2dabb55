"""Limit the number of processors that the analysis uses, and the free memory that Polars keeps."""

import os
import sys

#: time in ms for which Polars keeps free memory
_KEPT_MS = 250

_UNIFIED = "/sys/fs/cgroup"
_LEGACY = "/sys/fs/cgroup/cpu"


def usable() -> int:
    """Return the number of processors that affinity mask and control group let this process use, at least 1."""
    count = len(os.sched_getaffinity(0))
    quota = _quota()
    return max(1, count if quota is None else min(count, round(quota)))


def limit_polars(most: int | None = None) -> None:
    """Limit Polars to the usable processors, and let it return free memory to the system soon.

    The call has no effect if Polars is imported already. If the user has set the number of threads, or settings of
    Polars' allocator jemalloc, the user's values stay.

    Args:
        most: a further limit of the number of processors; None for no further limit.
    """
    if "polars" in sys.modules:
        return
    count = usable() if most is None else max(1, min(most, usable()))
    os.environ.setdefault("POLARS_MAX_THREADS", str(count))
    # An arena of jemalloc returns free memory only while some thread uses the arena. By default, each thread has its
    # own arena, which may be idle. With fewer arenas, none is idle. With `muzzy_decay_ms` 0, returned memory no longer
    # counts as memory of this process.
    arenas = max(count // 2, 1)
    os.environ.setdefault("_RJEM_MALLOC_CONF", f"narenas:{arenas},dirty_decay_ms:{_KEPT_MS},muzzy_decay_ms:0")


def _quota() -> float | None:
    """Return the smallest quota of the control groups around this process, in processors; None without a quota."""
    quotas = [quota for path in _groups() if (quota := _read_quota(path)) is not None]
    return min(quotas, default=None)


def _groups() -> list[str]:
    try:
        with open("/proc/self/cgroup", encoding="utf-8") as stream:
            lines = [line.rstrip("\n").split(":", 2) for line in stream]
    except OSError:
        return []
    folders = [_UNIFIED, _LEGACY]
    for _, controllers, path in (line for line in lines if len(line) == 3):
        if controllers and "cpu" not in controllers.split(","):
            continue
        root = _LEGACY if controllers else _UNIFIED
        parts = path.strip("/").split("/")
        folders += [os.path.join(root, *parts[:depth]) for depth in range(1, len(parts) + 1) if parts[0]]
    return folders


def _read_quota(folder: str) -> float | None:
    try:
        if os.path.exists(os.path.join(folder, "cpu.max")):
            quota, period = _words(folder, "cpu.max")
        else:
            (quota,), (period,) = _words(folder, "cpu.cfs_quota_us"), _words(folder, "cpu.cfs_period_us")
        return int(quota) / int(period) if quota not in ("max", "-1") else None
    except (OSError, ValueError, ZeroDivisionError):
        return None


def _words(folder: str, name: str) -> list[str]:
    with open(os.path.join(folder, name), encoding="ascii") as stream:
        return stream.read().split()
