"""Profile a training job without editing it.

The package itself imports nothing else, not even `typing` (3 ms), because every job imports the package. It imports the
module of a public name when a script first uses the name.

PYTEST_DONT_REWRITE: this word is a mark for pytest. The package has a pytest plugin, and a job with MS_PROFILER_OPTIONS
imports the package before pytest does. Without the mark, pytest would warn that it cannot rewrite the plugin's asserts.
Where warnings are errors, the warning would end the job.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ms_profiler.api.analyse import analyse
    from ms_profiler.api.choices import AicoreMetrics, ExportType, HostSystem, ProfilerActivity, ProfilerLevel
    from ms_profiler.api.dynamic_profiler_monitor import DynamicProfilerMonitor
    from ms_profiler.api.experimental_config import _ExperimentalConfig
    from ms_profiler.api.install import install
    from ms_profiler.api.mstx import mstx
    from ms_profiler.api.profile import profile
    from ms_profiler.api.profiler import ProfileOption, Profiler
    from ms_profiler.api.schedule import ProfilerAction, schedule
    from ms_profiler.api.trace_handler import tensorboard_trace_handler

    __version__: str

__all__ = [
    "AicoreMetrics",
    "DynamicProfilerMonitor",
    "ExportType",
    "HostSystem",
    "ProfileOption",
    "Profiler",
    "ProfilerAction",
    "ProfilerActivity",
    "ProfilerLevel",
    "_ExperimentalConfig",
    "__version__",
    "analyse",
    "install",
    "mstx",
    "profile",
    "schedule",
    "tensorboard_trace_handler",
]

#: public name -> the module of `ms_profiler.api` that defines the name; `ms_profiler.version` defines the version
_MODULES = {
    "AicoreMetrics": "choices",
    "DynamicProfilerMonitor": "dynamic_profiler_monitor",
    "ExportType": "choices",
    "HostSystem": "choices",
    "ProfileOption": "profiler",
    "Profiler": "profiler",
    "ProfilerAction": "schedule",
    "ProfilerActivity": "choices",
    "ProfilerLevel": "choices",
    "_ExperimentalConfig": "experimental_config",
    "_ForgivingMonitor": "redirect",
    "_ForgivingProfile": "redirect",
    "_ForgivingProfiler": "redirect",
    "_forgiving_analyse": "redirect",
    "_forgiving_trace_handler": "redirect",
    "analyse": "analyse",
    "install": "install",
    "mstx": "mstx",
    "profile": "profile",
    "schedule": "schedule",
    "tensorboard_trace_handler": "trace_handler",
}


def __getattr__(name: str) -> object:
    if name == "__version__":
        from ms_profiler.version import VERSION

        return VERSION
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    value: object = getattr(importlib.import_module(f"ms_profiler.api.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> "list[str]":
    return sorted({*globals(), *__all__})
