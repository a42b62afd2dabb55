"""Replacements of MindSpore's profiler classes. Where our own classes raise, they only warn, as MindSpore's do."""

from typing import Any

from ms_profiler import log
from ms_profiler.api import profile as new, profiler as old
from ms_profiler.api.analyse import analyse
from ms_profiler.errors import MsProfilerError


def _forgiving_analyse(profiler_path: str, *args: Any, **kwargs: Any) -> None:
    """Analyse as `ms_profiler.analyse` does, but print an error instead of raising it."""
    try:
        analyse(profiler_path, *args, **kwargs)
    except MsProfilerError as error:
        log.line(str(error))


class _ForgivingProfile(new.profile):
    """The replacement of `mindspore.profiler.profile`, which records with ms-profiler."""

    _forgives = True


class _ForgivingProfiler(old.Profiler):
    """The replacement of `mindspore.Profiler`, which records with ms-profiler."""

    _forgives = True
