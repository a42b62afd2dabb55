"""MindSpore: one file per concern."""

from ms_profiler.job.frameworks.mindspore.plugin import MindSpore

__all__ = ["MindSpore"]
