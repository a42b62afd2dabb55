"""Compare our interface with that of MindSpore's profiler; print the differences and the number of equal schedules."""

import importlib
import inspect
import itertools
import pkgutil
from enum import Enum

import mindspore.profiler as theirs
import ms_profiler as ours

for module in pkgutil.walk_packages(ours.__path__, "ms_profiler."):
    if not module.name.endswith(("_native", "__main__")):
        importlib.import_module(module.name)

NAMES = [
    "Profiler",
    "profile",
    "schedule",
    "tensorboard_trace_handler",
    "_ExperimentalConfig",
    "mstx",
    "ProfilerLevel",
    "ProfilerActivity",
    "AicoreMetrics",
    "ExportType",
    "HostSystem",
    "DynamicProfilerMonitor",
]
for name in NAMES:
    own, other = getattr(ours, name), getattr(theirs, name)
    if issubclass(other, Enum) if isinstance(other, type) else False:
        if {item.name: item.value for item in own} != {item.name: item.value for item in other}:
            print(name, "members differ")
        continue
    here, there = inspect.signature(own).parameters.values(), inspect.signature(other).parameters.values()
    if [(item.name, item.kind) for item in here] != [(item.name, item.kind) for item in there]:
        print(name, "parameters differ")
    for item, known in zip(here, there, strict=False):
        defaults = [value.name if isinstance(value, Enum) else value for value in (item.default, known.default)]
        if defaults[0] != defaults[1]:
            print(name, item.name, "default differs", *defaults)
    if isinstance(other, type):
        for method in [word for word, value in vars(other).items() if not word.startswith("_") and callable(value)]:
            if not hasattr(own, method):
                print(name, "lacks", method)

agreed = 0
for wait, warmup, active, repeat, skip in itertools.product(range(4), repeat=5):
    values = {"wait": wait, "warmup": warmup, "active": active, "repeat": repeat, "skip_first": skip}
    own, other = ours.schedule(**values), theirs.schedule(**values)
    assert own.to_dict() == other.to_dict()
    for step in range(40):
        assert (own(step).name, own(step).value) == (other(step).name, other(step).value), (values, step)
        agreed += 1
print(agreed, "agree")
