"""Read the training steps from the records in which a process noted begin and end of each step, or from graphs."""

from dataclasses import replace
from typing import Final

import polars as pl

from ms_profiler.analysis.model import tables
from ms_profiler.analysis.model.clock import Clock
from ms_profiler.store.format import Category, Flag, StepSource

#: name of the span of a compiled graph that is the method `step` of an object, such as "graph Adam.step"
_STEP: Final = r"^graph \w+\.step$"
#: smallest number of such spans that are ends of steps
_LEAST: Final = 2
#: spans that the first step may begin with
_BEGINS: Final = (Category.COMPILE, Category.FORWARD, Category.BACKWARD, Category.GRAPH, Category.OPTIMIZER)
_WHY: Final = "each run of a step of an optimizer that torch.compile has compiled ends a step"
_NONE = pl.DataFrame(schema=tables.STEPS)


def read(marks: pl.DataFrame, process: int, clock: Clock) -> pl.DataFrame:
    """Return `tables.STEPS` of one process, sorted by start.

    Args:
        marks: the records of the steps: rows of `columns.slots.SLOTS`, of kind STEP.
        process: pid.
        clock: the clock of the run, which converts the times of the records.
    """
    if marks.is_empty():
        return _NONE
    unrecorded, coarse = (pl.col("flags") & int(flag) > 0 for flag in (Flag.UNRECORDED, Flag.COARSE))
    content = pl.when(unrecorded).then(pl.lit(tables.TIMES_ALONE)).when(coarse).then(pl.lit(tables.COARSE))
    chosen = marks.sort("start_ns", maintain_order=True)
    return chosen.select(
        pl.lit(process, pl.UInt32).alias("process"),
        "thread",
        pl.col("arg").cast(pl.Int64, strict=False).alias("number"),
        clock.epoch(chosen["start_ns"]),
        clock.epoch(chosen["end_ns"]),
        pl.col("category").alias("source"),
        (~unrecorded & ~coarse).alias("recorded"),
        content.otherwise(pl.lit(tables.ALL_OF_IT)).alias("content"),
        (pl.col("flags") & int(Flag.STRETCH)).rle_id().alias("stretch"),
    )


def add_compiled(recording: tables.Recording) -> None:
    """Let the runs of an optimizer's compiled step end the steps, if the job marked no step.

    `torch.compile` may compile a whole training step with its optimizer. Then PyTorch's hooks for optimizers do not
    exist in the compiled code. But each run of the graph that is the optimizer's step has a span.

    Args:
        recording: the run; its steps, and what decides where they end, are replaced.
    """
    if recording.steps["number"].count():
        return
    steps = recording.names.str.contains(_STEP).arg_true()
    graphs = recording.spans.filter(pl.col("category") == int(Category.GRAPH), pl.col("name").is_in(steps.implode()))
    owners = graphs.group_by("process", "thread").len()
    owners = owners.sort("len", "process", "thread", descending=[True, False, False])
    if owners.is_empty() or owners["len"][0] < _LEAST:
        return
    process, thread, _ = owners.row(0)
    own = pl.col("process") == process, pl.col("thread") == thread
    begins = pl.col("category").is_in([int(category) for category in _BEGINS])
    ends = graphs.filter(*own)["end_ns"].sort()
    first = recording.spans.filter(*own, begins)["start_ns"].min()
    recording.steps = pl.DataFrame(
        {
            "process": process,
            "thread": thread,
            "number": range(ends.len()),
            "start_ns": ends.shift(1, fill_value=first),
            "end_ns": ends,
            "source": int(StepSource.OPTIMIZER_CYCLE),
            "recorded": True,
            "content": tables.ALL_OF_IT,
            "stretch": 0,
        },
        schema=tables.STEPS,
    )
    recording.info = replace(recording.info, steps={"source": StepSource.OPTIMIZER_CYCLE.name.lower(), "why": _WHY})
