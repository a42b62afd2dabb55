"""`install`: redirect a script's calls of MindSpore's profiler to ours, as the variable does."""

from ms_profiler.job import collection


def install() -> None:
    """Let `mindspore.Profiler` and `mindspore.profiler.*` act on the session of this process, on any platform.

    May be called before or after MindSpore is imported, and more than once; names that a script imported earlier keep
    their objects.
    """
    collection.for_script().hooks.redirect()
