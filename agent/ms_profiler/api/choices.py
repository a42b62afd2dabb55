"""The enumerations of MindSpore's public profiler documents; MS_PROFILER_OPTIONS uses the members' values."""

from enum import Enum


class ProfilerActivity(Enum):
    """Sources of records: the framework on the CPU, the NPU, the GPU."""

    CPU = "CPU"
    NPU = "NPU"
    GPU = "GPU"


class ProfilerLevel(Enum):
    """Level of device records."""

    LevelNone = "LevelNone"
    Level0 = "Level0"
    Level1 = "Level1"
    Level2 = "Level2"


class AicoreMetrics(Enum):
    """Counters of an AI Core."""

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
    """Forms of a result."""

    Db = "db"
    Text = "text"


class HostSystem(Enum):
    """Counters of the host."""

    CPU = "cpu"
    MEM = "mem"
    DISK = "disk"
    NETWORK = "network"
    OSRT = "osrt"
