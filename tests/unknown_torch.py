"""The beginning of a program in which ms-profiler does not know PyTorch's version, so that Kineto records operators."""

UNKNOWN = """
from ms_profiler.job.frameworks.torch import observer
observer.LAST = (2, 3)
"""
