"""Columns that several tables of the catalogue have."""

from typing import Final

import polars as pl

from ms_profiler.analysis.catalogue.table import Column

START: Final = Column("start", pl.Int64, "begin, ns since the epoch")
STOP: Final = Column("stop", pl.Int64, "end, ns since the epoch")
DUR: Final = Column("dur", pl.Int64, "duration, ns")
TIMES: Final = (START, STOP, DUR)
TIME: Final = Column("time", pl.Int64, "time, ns since the epoch")
STEP: Final = Column("step", pl.Int64, "number of the step, null outside of all steps")
PROCESS: Final = Column("process", pl.UInt32, "pid")
THREAD: Final = Column("thread", pl.UInt64, "number of the thread in the operating system, null where unknown")
COUNT: Final = Column("count", pl.UInt64, "number in the whole run")
TOTAL: Final = Column("total", pl.Int64, "sum of the durations, ns")
MIN: Final = Column("min", pl.Int64, "shortest duration, ns")
MAX: Final = Column("max", pl.Int64, "longest duration, ns")
SPAN_CATEGORY: Final = Column("category", pl.String, "kind of work: op, module, data, forward, ...")
KERNEL_NAME: Final = Column("name", pl.String, "name, as the framework shows it")
KERNEL_TYPE: Final = Column("type", pl.String, "type of the operator, which MindSpore calls primitive")
MODULE: Final = Column("module", pl.String, "module that it belongs to, null where unknown")
PART: Final = Column(
    "part", pl.String, "part of a training step: forward, backward, recompute or optimizer; null where unknown"
)

OWNED: Final = (
    Column(
        "module", pl.String, "names of the modules from the outermost one on, joined by dots; class of an optimizer"
    ),
    Column("forward", pl.Int64, "forward passes, with the modules inside, ns"),
    Column("backward", pl.Int64, "backward passes with recomputation, with the modules inside, ns"),
    Column("optimizer", pl.Int64, "step() of an optimizer, ns"),
    Column("total", pl.Int64, "sum of forward, backward and optimizer, ns"),
    Column("self", pl.Int64, "`total` without the modules inside, ns"),
)

ON_HOST: Final = (
    Column(
        "host",
        pl.Int64,
        "mean time of the stepping thread in a sampled steady step, with the modules inside, ns; null if the other "
        "times are not those of a device's kernels",
    ),
    Column("host_self", pl.Int64, "`host` without the modules inside, ns"),
)

LAUNCH: Final = Column("launch", pl.Int64, "begin of the call that launched it, ns since the epoch, null where unknown")
STREAM: Final = Column(
    "stream", pl.UInt32, "number of the stream; with several devices, the upper 16 bits are the number of the device"
)
