"""Operators that compute where they are called: those of PyTorch on a processor, one inside another.

There an operator is what a kernel is elsewhere, but for what it calls: its self time is its own work, and the innermost
ones, which call none, are told one by one as kernels are. Sums of total times count inner operators again.
"""

from typing import Final

import polars as pl

from ms_profiler.analysis.columns import COLUMNS
from ms_profiler.analysis.driver.sections import Section
from ms_profiler.analysis.metrics import bounds, intervals, phases, scheduling
from ms_profiler.analysis.metrics.operands import TIE
from ms_profiler.analysis.metrics.steps import Steps
from ms_profiler.analysis.model import tables
from ms_profiler.analysis.streams.nesting import threads
from ms_profiler.store.format import Category

#: part of an operator's calls that are long from which it is the operator that takes so long
OFTEN: Final = 0.02
#: an operator of autograd around each node: what it does itself is to call hooks of the script
AROUND_NODE: Final = "autograd::engine::evaluate_function"
#: what Inductor calls the spans of a compiled graph: fused kernels in C++ are its own, others are operators inside
GRAPH: Final = "## Call CompiledFxGraph"
#: columns of operators and of the spans around them, which give their modules
_COLUMNS: Final = ("process", "thread", "name", "category", "start_ns", "end_ns", "arg")
_IS_OPERATOR: Final = pl.col("category") == Category.OP


def compute(recording: tables.Recording) -> bool:
    """Return whether the operators of this run are such: PyTorch's, and no accelerator was in use.

    Args:
        recording: the run.
    """
    framework = recording.info.framework
    return framework.get("name") == "torch" and framework.get("device", "CPU").upper() in ("", "CPU")


def calls(spans: pl.DataFrame) -> pl.DataFrame:
    """Return every operator.

    Args:
        spans: `tables.SPANS` with `duration_ns`, and whatever else is to be kept.

    Returns:
        these, `module` (row of the names of the innermost module around its start, null outside of all), `inner`
        (whether no other operator ran in it) and `wait_ns` (since the end of the innermost one before it in its thread,
        0 for the first, null for those that are not innermost).
    """
    return spans.with_columns(_known(spans)).filter(_IS_OPERATOR)


def calls_in(section: Section) -> pl.DataFrame:
    """Return of what `calls` does, of a run in sections, the operators that are told one by one or have a number.

    Args:
        section: of the run; what its operators stand in or come after is carried over from those before.
    """
    known = pl.concat([section.carried.select(_COLUMNS), section.spans.select(_COLUMNS)])
    found = known.with_columns(_known(known)).slice(section.carried.height)
    chosen = found.filter(_IS_OPERATOR, pl.col("inner") | (pl.col("arg") > 0))
    return chosen.with_columns(duration_ns=pl.col("end_ns") - pl.col("start_ns"))


def _known(spans: pl.DataFrame) -> pl.DataFrame:
    """Return what is known of each operator among spans, see `Columns.calls`."""
    return COLUMNS.calls(threads(spans), spans["start_ns"], spans["end_ns"], spans["category"], spans["name"])


def ties(operators: pl.DataFrame) -> pl.DataFrame:
    """Return which operator each gradient is of, where autograd's numbers are known.

    Several operators that are one inside another carry a number: the last to begin made the gradient. Of what runs the
    gradient the first to begin is taken. A number is used again in another process.

    Args:
        operators: of `calls`.

    Returns:
        `forward` and `backward`, rows of `operators`.
    """
    numbered = operators.with_row_index("row").with_columns(TIE.alias("tie")).filter(pl.col("tie") > 0)
    key = [pl.col("process"), (pl.col("tie") // 2).alias("number")]
    forward = numbered.filter(pl.col("tie") % 2 == 0).sort("start_ns").group_by(*key).agg(pl.col("row").last())
    backward = numbered.filter(pl.col("tie") % 2 == 1).sort("start_ns").group_by(*key).agg(pl.col("row").first())
    return (
        forward.rename({"row": "forward"})
        .join(backward.rename({"row": "backward"}), on=["process", "number"])
        .sort("forward")
        .select("forward", "backward")
    )


def known(operators: pl.DataFrame, steps: Steps) -> pl.DataFrame:
    """Return the recorded steps in which the stepping process ran any operator that is known: `Steps.table`, `step`.

    Args:
        operators: of `calls`.
        steps: the steps in use.
    """
    table = steps.table.with_row_index("step").filter("recorded")
    own = operators.filter(pl.col("process") == steps.process)
    return table[intervals.locate(own["start_ns"], table).unique().drop_nulls().sort()]


def does(operators: pl.DataFrame, names: pl.Series) -> pl.Series:
    """Tell of each operator whether it does anything itself but call others, and hooks of the script.

    Args:
        operators: `name` (row of `names`).
        names: texts by row.
    """
    return ~names.str.starts_with(AROUND_NODE).fill_null(False).gather(operators["name"])


def computing(
    recording: tables.Recording, operators: pl.DataFrame, spans: pl.DataFrame, cut: pl.DataFrame, steps: Steps
) -> pl.DataFrame:
    """Return when the stepping process computed, apart from each other and by time.

    That is when operators ran that do more than their own dispatch, and compiled graphs, which have none; but not what
    the stepping thread computes while it makes data, compiles or writes a checkpoint. An operator that mostly calls
    others is what these are; what autograd does around each node is its dispatch, and the script's hooks. In a graph
    that Inductor compiled, a longer stretch between operators is its own kernels. An operator that is long where hardly
    any of its name is had its processor taken away by the system. What the stepping thread slept through is nobody's
    computing. In a step without an operator it is the phases that compute.

    Args:
        recording: the run.
        operators: of `calls`.
        spans: `tables.SPANS`.
        cut: of `phases.pieces`.
        steps: the steps in use.
    """
    own = operators.filter(pl.col("process") == steps.process)
    graphs = spans.filter(pl.col("process") == steps.process, pl.col("category") == int(Category.GRAPH))
    alone = pl.col("self_ns")
    long = alone > bounds.SHORT
    worked = own.filter(
        does(own, recording.names), long, long.mean().over("name") >= OFTEN, 2 * alone >= pl.col("duration_ns")
    )
    told = intervals.union(
        pl.concat([worked.select(intervals.BOUNDS), graphs.select(intervals.BOUNDS), fused(own, recording.names)])
    )
    rows = known(operators, steps)["step"].implode()
    others = cut.filter(~pl.col("step").is_in(rows), pl.col("phase").is_in(phases.COMPUTING))
    slept = scheduling.asleep(scheduling.cells(recording.looks, steps.process, steps.thread))
    waits = pl.concat([cut.filter(pl.col("phase").is_in(bounds.WAITS)).select(intervals.BOUNDS), slept])
    return intervals.union(pl.concat([intervals.subtract(told, waits), others.select(intervals.BOUNDS)]))


def fused(operators: pl.DataFrame, names: pl.Series) -> pl.DataFrame:
    """Return when graphs that Inductor compiled ran kernels of their own: in long stretches between their operators.

    Args:
        operators: of `calls`, of one process.
        names: texts by row.
    """
    graph = names.str.starts_with(GRAPH).fill_null(False)
    graphs = operators.filter(graph.gather(operators["name"]))
    found = [operators.head(0).select(intervals.BOUNDS)]
    for (thread,), own in graphs.group_by("thread"):
        beside = operators.filter(pl.col("thread") == thread)
        inside = beside.filter(intervals.locate(beside["start_ns"], intervals.union(own)).is_not_null())
        cut = phases.innermost(inside, "name")
        length = pl.col("end_ns") - pl.col("start_ns")
        found.append(cut.filter(graph.gather(cut["name"]), length > bounds.SHORT).select(intervals.BOUNDS))
    return pl.concat(found)
