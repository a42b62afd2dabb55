"""`install`: what the variable does for a script's own calls of MindSpore's profiler, without the variable."""

from ms_profiler.job import collection


def install() -> None:
    """Let `mindspore.Profiler` and `mindspore.profiler.*` act on the session of this process, on any platform.

    May be called before or after MindSpore is imported, and more than once; names that a script imported from it
    earlier stay what they are.
    """
    collection.for_script().hooks.redirect()
