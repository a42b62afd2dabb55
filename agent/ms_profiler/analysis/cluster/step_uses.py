"""Find how each step of a rank uses its time, and which steps a checkpoint holds."""

from typing import TYPE_CHECKING, Final

import polars as pl

from ms_profiler.analysis.metrics import bounds, checkpoint_files, intervals
from ms_profiler.store.format import Category, Flag

if TYPE_CHECKING:
    from ms_profiler.analysis.metrics.measures import Measures

#: one row per recorded step, with the time that is not training; the remaining time of a step is training
USES: Final = pl.Schema({"step": pl.Int64, "waiting_ns": pl.Int64, "checkpoint_ns": pl.Int64, "compile_ns": pl.Int64})
#: parts in which a step makes no progress, because the rank waits for its input or for other ranks
_WAITING: Final = (bounds.DATA, bounds.COMMUNICATION)
#: phases that update the parameters. A step has updated the parameters when its last phase of the first group has
#: ended. If a step has no phase of the first group, the second group is used
_UPDATES: Final = ((Category.OPTIMIZER,), (Category.GRAPH, Category.BACKWARD, Category.FORWARD))


def uses(measures: "Measures") -> pl.DataFrame:
    """Return how much time of each step is not training, with the columns of `USES`.

    If the rank computes, the time is training, even if the rank exchanges data or waits at the same time.

    Args:
        measures: the measures of the rank's run.
    """
    states, none = measures.stream.states, measures.pieces.head(0)
    computing, exchanging = (states.filter(name).select(intervals.BOUNDS) for name in ("computing", "communicating"))
    pieces = bounds.parts(
        measures.pieces, intervals.union(computing), intervals.union(exchanging), none, None, cells=None
    )
    length = pl.col("end_ns") - pl.col("start_ns")
    sums = pieces.group_by("step").agg(
        length.filter(pl.col("part").is_in(_WAITING)).sum().alias("waiting_ns"),
        length.filter(pl.col("part") == bounds.CHECKPOINT).sum().alias("checkpoint_ns"),
        length.filter(pl.col("part") == bounds.COMPILE).sum().alias("compile_ns"),
    )
    numbers = measures.steps.table["number"]
    return sums.with_columns(numbers.gather(sums["step"]).alias("step")).select(USES.names()).cast(USES).sort("step")


def saved(measures: "Measures") -> list[int]:
    """Return, for each completely written checkpoint, the last step that it holds; -1 if it holds no step.

    A checkpoint holds a step if the step had updated the parameters before the writing of the checkpoint began.

    Args:
        measures: the measures of a run.
    """
    spans, table = measures.recording.spans, measures.steps.table
    names = measures.recording.names
    cut = pl.col("unfinished") | (pl.col("flags") & int(Flag.RAISED | Flag.ABANDONED) != 0)
    files = spans.filter(pl.col("category") == Category.CHECKPOINT).with_columns(
        whole=~cut, text=names.gather(spans.filter(pl.col("category") == Category.CHECKPOINT)["name"])
    )
    broken = files.filter(~pl.col("whole"), pl.col("text") == checkpoint_files.CLOSING)["start_ns"].max()
    saves = files.filter("whole", pl.col("text").is_in(checkpoint_files.SAVES)).sort("start_ns")
    if broken is not None:  # the file of the last save was written, but not closed, so it is no checkpoint
        last = saves.filter(pl.col("end_ns") <= broken)["start_ns"].max()
        saves = saves.filter(pl.col("start_ns") != pl.lit(last, pl.Int64)) if last is not None else saves
    done = _updated(spans.filter(pl.col("process") == measures.steps.process), table)
    found = saves.select("start_ns").join_asof(
        done.sort("done_ns"), left_on="start_ns", right_on="done_ns", strategy="backward"
    )
    return [-1 if step is None else int(step) for step in found["step"].to_list()]


def loaded(measures: "Measures") -> bool:
    """Return whether a checkpoint was read before the first step ended.

    Args:
        measures: the measures of a run.
    """
    spans, table = measures.recording.spans, measures.steps.table
    files = spans.filter(pl.col("category") == Category.CHECKPOINT, ~pl.col("unfinished"))
    files = files.filter(measures.recording.names.gather(files["name"]).is_in(checkpoint_files.LOADS))
    first = table["end_ns"].min()
    return not files.is_empty() and (first is None or bool((files["start_ns"] < first).any()))


def _updated(spans: pl.DataFrame, table: pl.DataFrame) -> pl.DataFrame:
    """Return `step` (its number) and `done_ns`, the time at which the step had updated the parameters."""
    numbered = table.select(pl.col("number").cast(pl.Int64).alias("step"), done_ns="end_ns")
    for categories in reversed(_UPDATES):
        ends = spans.filter(pl.col("category").is_in([int(each) for each in categories]))
        place = intervals.locate(ends["start_ns"], table)
        known = ends.select(table["number"].gather(place).cast(pl.Int64).alias("step"), "end_ns").drop_nulls()
        latest = known.group_by("step").agg(pl.col("end_ns").max().alias("known_ns"))
        numbered = numbered.join(latest, on="step", how="left", maintain_order="left").select(
            "step", done_ns=pl.coalesce("known_ns", "done_ns")
        )
    return numbered
