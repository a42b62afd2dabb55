"""Replacements of MindSpore's profiler classes. Where our own classes raise, they only warn, as MindSpore's do."""

import functools
from typing import Any

from ms_profiler.api import analyse as analysis, dynamic_profiler_monitor as dynamic, profile as new, profiler as old
from ms_profiler.api.forgiving import forgiving, forgiving_methods, warn
from ms_profiler.api.trace_handler import tensorboard_trace_handler
from ms_profiler.errors import UsageError

_forgiving_trace_handler = forgiving(tensorboard_trace_handler)


@forgiving
@functools.wraps(analysis.analyse)
def _forgiving_analyse(profiler_path: Any, max_process_number: Any = None, *args: Any, **kwargs: Any) -> None:
    """Analyse as `ms_profiler.analyse` does, but print an error instead of raising it."""
    try:
        analysis.check_processes(max_process_number)
    except UsageError as error:
        warn(f"{error} Using the default.", forgives=True)
        max_process_number = None
    analysis.analyse(profiler_path, max_process_number, *args, **kwargs)


@forgiving_methods
class _ForgivingProfile(new.profile):
    """The replacement of `mindspore.profiler.profile`, which records with ms-profiler."""

    _forgives = True


@forgiving_methods
class _ForgivingProfiler(old.Profiler):
    """The replacement of `mindspore.Profiler`, which records with ms-profiler."""

    _forgives = True


@forgiving_methods
class _ForgivingMonitor(dynamic.DynamicProfilerMonitor):
    """The replacement of `mindspore.profiler.DynamicProfilerMonitor`, which records with ms-profiler."""

    _forgives = True
