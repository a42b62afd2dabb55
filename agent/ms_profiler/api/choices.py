"""The enumerations of MindSpore's public profiler documents. In MS_PROFILER_OPTIONS, the values of members are used."""

from enum import Enum


class ProfilerActivity(Enum):
    """What to record: the framework on the CPU, the NPU, the GPU."""

    CPU = "CPU"
    NPU = "NPU"
    GPU = "GPU"


class ProfilerLevel(Enum):
    """How much to record on the device."""

    LevelNone = "LevelNone"
    Level0 = "Level0"
    Level1 = "Level1"
    Level2 = "Level2"


class AicoreMetrics(Enum):
    """Groups of hardware counters of an AI Core, the processor of an Ascend NPU."""

    AiCoreNone = "None"
    PipeUtilization = "PipeUtilization"
    ArithmeticUtilization = "ArithmeticUtilization"
    Memory = "Memory"
    MemoryL0 = "MemoryL0"
    MemoryUB = "MemoryUB"
    ResourceConflictRatio = "ResourceConflictRatio"
    L2Cache = "L2Cache"
    MemoryAccess = "MemoryAccess"


class ExportType(Enum):
    """Forms in which the analysis writes a result."""

    Db = "db"
    Text = "text"


class HostSystem(Enum):
    """Groups of counters of the host system."""

    CPU = "cpu"
    MEM = "mem"
    DISK = "disk"
    NETWORK = "network"
    OSRT = "osrt"
