"""Translate ms-profiler's options into settings of aclprof, CANN's profiling interface for NPUs.

CANN's functions `aclprofCreateConfig` and `aclprofSetConfig` define the numbers. Levels and rates are the same as in
MindSpore's own profiler. All numbers are in this file, so that no vendor's header is needed. This module also says
which options need aclprof.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import Final

from ms_profiler.options import Options


class Data(IntFlag):
    """Kinds of data to record: the argument `dataTypeConfig` of CANN's aclprofCreateConfig."""

    ACL_API = 0x1
    TASK_TIME = 0x2
    AICORE_METRICS = 0x4
    AICPU = 0x8
    L2CACHE = 0x10
    HCCL_TRACE = 0x20
    MSPROFTX = 0x80
    RUNTIME_API = 0x100
    TASK_TIME_L0 = 0x800
    TASK_MEMORY = 0x1000


class Metrics(IntEnum):
    """Groups of counters of the NPU's AI Core: the argument `aicoreMetrics` of CANN's aclprofCreateConfig."""

    ArithmeticUtilization = 0
    PipeUtilization = 1
    Memory = 2
    MemoryL0 = 3
    ResourceConflictRatio = 4
    MemoryUB = 5
    L2Cache = 6
    MemoryAccess = 8
    NONE = 0xFF


class Setting(IntEnum):
    """Settings that CANN's aclprofSetConfig changes."""

    STORAGE_LIMIT = 1
    HARDWARE_MEMORY = 3
    NETWORK = 5
    INTERCONNECTION = 6
    HOST = 8


#: value of the option `profiler_level` -> kinds of data that aclprof records
LEVELS: Final = {
    "LevelNone": Data(0),
    "Level0": Data.TASK_TIME_L0 | Data.ACL_API,
    "Level1": Data.TASK_TIME | Data.ACL_API | Data.HCCL_TRACE | Data.AICORE_METRICS,
    "Level2": Data.TASK_TIME | Data.ACL_API | Data.HCCL_TRACE | Data.AICORE_METRICS | Data.AICPU | Data.RUNTIME_API,
}
_BITS: Final = {"l2_cache": Data.L2CACHE, "profile_memory": Data.TASK_MEMORY, "mstx": Data.MSPROFTX}
#: option -> setting of aclprof, and how often aclprof reads these counters, per second
_RATES: Final = {
    "profile_memory": (Setting.HARDWARE_MEMORY, "50"),
    "hbm_ddr": (Setting.HARDWARE_MEMORY, "50"),
    "sys_io": (Setting.NETWORK, "100"),
    "pcie": (Setting.INTERCONNECTION, "50"),
    "sys_interconnection": (Setting.INTERCONNECTION, "50"),
}
#: Options that need aclprof: msPTI, the other interface to an NPU, does not have the data that they request.
_ALONE: Final = ("l2_cache", "hbm_ddr", "pcie", "sys_io", "sys_interconnection", "host_sys")
#: smallest limit that aclprof accepts for the size of its files, in bytes
LEAST_STORAGE: Final = 200 * 10**6
_MEGABYTE: Final = 10**6


@dataclass(frozen=True)
class Request:
    """One call of CANN's function aclprofSetConfig.

    Attributes:
        setting: the setting to change.
        value: new value of the setting, in the form that aclprof takes.
        options: names of ms-profiler's options that need this call.
    """

    setting: Setting
    value: str
    options: tuple[str, ...]


@dataclass(frozen=True)
class Plan:
    """The data to request from aclprof.

    Attributes:
        data: kinds of data, for CANN's aclprofCreateConfig.
        metrics: group of counters of the AI Core, for aclprofCreateConfig.
        requests: calls of aclprofSetConfig, in the order in which to make them.
    """

    data: Data
    metrics: Metrics
    requests: tuple[Request, ...]


def needs(options: Options, preloaded: bool = False) -> list[str]:
    """Return the options that only aclprof can serve, each with its value.

    Args:
        options: the options of one recording.
        preloaded: whether LD_PRELOAD names msPTI's library; only then can msPTI report memory.
    """
    found = ["profiler_level Level2"] if options.profiler_level == "Level2" else []
    found += [f"aic_metrics {options.aic_metrics}"] if options.aic_metrics != "None" else []
    found += [name for name in _ALONE if getattr(options, name)]
    return found + (["profile_memory"] if options.profile_memory and not preloaded else [])


def plan(recordings: Sequence[Options], storage: int) -> Plan:
    """Return the data to request from aclprof, so that every recording gets the data that its options request.

    Args:
        recordings: the options of each recording.
        storage: bytes on disk that aclprof's files may take.
    """
    data = Data(0)
    for options in recordings:
        data |= LEVELS[options.profiler_level]
        for name, bit in _BITS.items():
            data |= bit if getattr(options, name) else Data(0)
    chosen = [options.aic_metrics for options in recordings if options.aic_metrics != "None"]
    metrics = Metrics[chosen[0]] if chosen else Metrics.NONE
    data = data | Data.AICORE_METRICS if chosen else data & ~Data.AICORE_METRICS
    requests = [Request(Setting.STORAGE_LIMIT, f"{storage // _MEGABYTE}MB", ("max_disk",))]
    for setting in (Setting.HARDWARE_MEMORY, Setting.NETWORK, Setting.INTERCONNECTION):
        names = [name for name, (own, _) in _RATES.items() if own == setting and _any(recordings, name)]
        if names:
            requests.append(Request(setting, _RATES[names[0]][1], tuple(names)))
    watched = dict.fromkeys(what for options in recordings for what in options.host_sys)
    if watched:
        # this request comes last, as in MindSpore's own profiler
        requests.append(Request(Setting.HOST, ",".join(watched), ("host_sys",)))
    return Plan(data, metrics, tuple(requests))


def _any(recordings: Iterable[Options], name: str) -> bool:
    return any(getattr(options, name) for options in recordings)
