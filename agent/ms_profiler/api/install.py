"""The function `install`: it redirects calls of MindSpore's profiler to ms-profiler, as MS_PROFILER_OPTIONS does."""

from ms_profiler.job import collection


def install() -> None:
    """Replace `mindspore.Profiler` and the names in `mindspore.profiler` by ms-profiler's, on any platform.

    A script may call this function before or after it imports MindSpore, and more than once. Names that the script
    imported before the call still refer to MindSpore's objects.
    """
    collection.for_script().hooks.redirect()
