"""The class `_ExperimentalConfig`: options of `profile` that MindSpore's public profiler documents call extensible."""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

from ms_profiler.api.choices import AicoreMetrics, ProfilerLevel


@dataclass
class _ExperimentalConfig:
    """Further options of `profile`; the table in docs/options.md explains each under the same name."""

    profiler_level: Any = ProfilerLevel.Level0
    aic_metrics: Any = AicoreMetrics.AiCoreNone
    l2_cache: bool = False
    mstx: bool = False
    data_simplification: bool = True
    export_type: Iterable[Any] | None = None
    mstx_domain_include: Iterable[str] | None = None
    mstx_domain_exclude: Iterable[str] | None = None
    sys_io: bool = False
    sys_interconnection: bool = False
    host_sys: Iterable[Any] | None = None


#: names of the options of `_ExperimentalConfig`
NAMES = tuple(item.name for item in fields(_ExperimentalConfig))
