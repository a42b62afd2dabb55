"""Divide each step into phases, such as forward pass, backward pass and waiting for data."""

from collections.abc import Mapping
from typing import Final

import polars as pl

from ms_profiler.analysis.metrics import intervals
from ms_profiler.analysis.metrics.intervals import BOUNDS
from ms_profiler.analysis.metrics.steps import Steps, stepping
from ms_profiler.analysis.streams.nesting import nest
from ms_profiler.store.format import Category
from ms_profiler.store.names import OWN_WORK_LEAST

OTHER: Final = "other"
FORWARD: Final = "forward"
PROFILING: Final = "profiling"
#: a step is interrupted if ms-profiler worked in it for at least this part of its time
INTERRUPTED: Final = 0.1

#: category -> phase, in the order in which phases are shown
NAMES: Final = {
    Category.DATA: "data",
    Category.COMPILE: "compile",
    Category.GRAPH: "compute (graph)",
    Category.FORWARD: FORWARD,
    Category.BACKWARD: "backward",
    Category.OPTIMIZER: "optimizer",
    Category.COMMUNICATION: "communication",
    Category.CHECKPOINT: "checkpoint",
    Category.SYNC: "sync",
    Category.PROFILER: PROFILING,
}
#: if a graph runs inside one of these phases, its time belongs to this phase
GRAPH_OWNERS: Final = (Category.FORWARD, Category.BACKWARD, Category.OPTIMIZER)
ALL: Final = (*NAMES.values(), OTHER)
#: if neither operators nor kernels are known, these phases count as computing the model
COMPUTING: Final = tuple(
    NAMES[category] for category in (Category.GRAPH, Category.FORWARD, Category.BACKWARD, Category.OPTIMIZER)
)

#: phases whose time no module or optimizer owns: waits for data, and the time outside of all phases
ASIDE: Final = (OTHER, NAMES[Category.DATA])


def pieces(spans: pl.DataFrame, steps: Steps) -> pl.DataFrame:
    """Cut the recorded steps into intervals of one phase each. The intervals of a step add up to its exact length.

    The phase is that of the innermost span on the stepping thread whose category has a phase. The exceptions:

    - A wait for values inside a checkpoint has the phase of the checkpoint, which writes these values.
    - A graph inside a forward pass, a backward pass or an optimizer has the phase of this pass or optimizer. For
      example, MindSpore's optimizers are compiled to graphs in pynative mode.
    - A module outside of all spans with a phase counts as a forward pass.

    The rest of a step is "other".

    Args:
        spans: table of the run's spans, with the columns of `tables.SPANS`.
        steps: the steps in use.

    Returns:
        `step` (row of `steps.table`), `phase`, `start_ns`, `end_ns`, sorted by time.
    """
    own = stepping(spans, steps)
    known = steps.table.with_row_index("step").filter("recorded")
    return (
        line(own, {"steps": known})
        .filter(pl.col("steps") > 0)
        .join_asof(known.select("step", "start_ns"), on="start_ns")
        .select("step", "phase", "start_ns", "end_ns")
    )


def line(own: pl.DataFrame, sets: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """Cut the time of a thread where the phase changes, or where an interval of `sets` begins or ends.

    Args:
        own: the spans of the thread, with the columns of `tables.SPANS`.
        sets: label -> intervals.

    Returns:
        `start_ns`, `end_ns`, `phase`, and for each label a column with the number of its intervals at this time.
    """
    layers = {
        "code": innermost(_phased(own)),
        "modules": intervals.union(own.filter(pl.col("category") == Category.MODULE)),
    }
    phase = pl.col("code").replace_strict(
        {int(category): name for category, name in NAMES.items()}, default=None, return_dtype=pl.String
    )
    module = pl.when(pl.col("modules") > 0).then(pl.lit(FORWARD))
    cuts = intervals.timeline({**sets, **layers}, {"code": "category"})
    return cuts.select(*BOUNDS, pl.coalesce(phase, module, pl.lit(OTHER)).alias("phase"), *sets)


def _phased(spans: pl.DataFrame) -> pl.DataFrame:
    """Return the spans of one thread that decide the phase: categories of `NAMES`, no graphs inside `GRAPH_OWNERS`."""
    category = pl.col("category")
    short = (category == Category.PROFILER) & (pl.col("end_ns") - pl.col("start_ns") < OWN_WORK_LEAST)
    phased = spans.filter(category.is_in([int(known) for known in NAMES]), ~short).sort("start_ns")
    kept = pl.lit(True)
    for inner, around in ((Category.GRAPH, GRAPH_OWNERS), (Category.SYNC, (Category.CHECKPOINT,))):
        owners = intervals.union(phased.filter(category.is_in([int(owner) for owner in around])))
        ends = phased.select("start_ns").join_asof(owners.rename({"end_ns": "owned_ns"}), on="start_ns")["owned_ns"]
        kept &= (category != inner) | (pl.col("start_ns") >= ends).fill_null(True)
    return phased.filter(kept)


def by_step(cut: pl.DataFrame) -> pl.DataFrame:
    """Return the time of each phase in each step: `step`, `phase`, `duration_ns`.

    Args:
        cut: the steps cut into phases, from `pieces`.
    """
    return (
        cut.group_by("step", "phase")
        .agg((pl.col("end_ns") - pl.col("start_ns")).sum().alias("duration_ns"))
        .sort("step", "phase")
    )


def aside(spans: pl.DataFrame, steps: Steps) -> pl.DataFrame:
    """Return the time of the phases `ASIDE` in each recorded step: `step`, `phase`, `self_ns`.

    Args:
        spans: table of the run's spans, with the columns of `tables.SPANS`.
        steps: the steps in use.
    """
    times = by_step(pieces(spans, steps)).filter(pl.col("phase").is_in(ASIDE))
    return times.rename({"duration_ns": "self_ns"})


def compiling(times: pl.DataFrame) -> list[int]:
    """Return the steps (rows of `Steps.table`) in which something was compiled.

    Args:
        times: the times of `by_step`.
    """
    return times.filter(pl.col("phase") == NAMES[Category.COMPILE])["step"].to_list()


def interrupted(times: pl.DataFrame) -> list[int]:
    """Return the steps (rows of `Steps.table`) that work of ms-profiler interrupts, for example an analysis.

    Args:
        times: the times of `by_step`.
    """
    part = pl.col("duration_ns") / pl.col("duration_ns").sum().over("step")
    return times.filter((part >= INTERRUPTED) & (pl.col("phase") == PROFILING))["step"].to_list()


def shares(times: pl.DataFrame, left_out: list[int]) -> pl.DataFrame:
    """Add up the time of each phase over all recorded steps, and over the steady steps.

    share = time of the phase / time of the steps; the shares of all phases add up to 1.

    Args:
        times: the times of `by_step`.
        left_out: steps that are not steady; if no other steps remain, all steps count as steady.

    Returns:
        `phase`, `total_ns`, `share`, `steady_ns` (per steady step), `steady_share`, in the order of `ALL`. Phases that
        did not occur have no row.
    """
    steady = times.filter(~pl.col("step").is_in(left_out))
    if steady.is_empty():
        steady = times
    count = max(steady["step"].n_unique(), 1)
    sums = (
        times.group_by("phase")
        .agg(total_ns=pl.col("duration_ns").sum())
        .join(steady.group_by("phase").agg(steady_ns=pl.col("duration_ns").sum()), on="phase", how="left")
        .with_columns(pl.col("steady_ns").fill_null(0))
    )
    order = pl.col("phase").replace_strict({name: place for place, name in enumerate(ALL)}, return_dtype=pl.Int32)
    return sums.sort(order).select(
        "phase",
        "total_ns",
        (pl.col("total_ns") / max(int(sums["total_ns"].sum()), 1)).alias("share"),
        (pl.col("steady_ns") / count).alias("steady_ns"),
        (pl.col("steady_ns") / max(int(sums["steady_ns"].sum()), 1)).alias("steady_share"),
    )


def innermost(spans: pl.DataFrame, value: str = "category") -> pl.DataFrame:
    """Return which value of a column the innermost span has at each time. Time without any span is left out.

    Example: a span "a" from 0 to 10 contains a span "b" from 3 to 5. The result is "a" from 0 to 3, "b" from 3 to 5,
    and "a" from 5 to 10.

    Args:
        spans: the spans of one thread, `category`, `start_ns`, `end_ns`; either operators only, or no operators.
        value: the name of the column.

    Returns:
        The column `value`, `start_ns` and `end_ns`, without overlap, sorted by time.
    """
    nested = _nested(spans.filter(pl.col("end_ns") > pl.col("start_ns")))
    around = pl.col("depth").cast(pl.Int32)
    starts = nested.select(pl.col("start_ns").alias("time_ns"), (around + 1).alias("depth"), value, order=around + 1)
    # at equal times, ends come before starts, and of several ends the one of the outermost span comes last
    ends = nested.select(
        pl.col("end_ns").alias("time_ns"),
        around.alias("depth"),
        pl.lit(None, spans.schema[value]).alias(value),
        order=-around,
    )
    return (
        pl.concat([starts, ends])
        .sort("time_ns", "order")
        .with_columns(pl.col(value).forward_fill().over("depth"))
        .select(
            pl.when(pl.col("depth") > 0).then(value).alias(value),
            pl.col("time_ns").alias("start_ns"),
            pl.col("time_ns").shift(-1).alias("end_ns"),
        )
        .filter(pl.col("end_ns") > pl.col("start_ns"), pl.col(value).is_not_null())
    )


def _nested(spans: pl.DataFrame) -> pl.DataFrame:
    """Nest spans of one thread. If a span outlives the span around it, it is cut off at the end of the outer span."""
    nested = nest(spans)
    crossing = (nested["end_ns"] > nested["end_ns"].gather(nested["parent"])).fill_null(False)
    if not crossing.any():
        return nested
    # spans overlap without nesting only if a record states its times explicitly. This is rare, so only the outermost
    # spans with such spans inside are examined
    tree = (nested["depth"] == 0).cum_sum()
    rows = tree.is_in(tree.filter(crossing).unique().implode()).arg_true()
    starts, ends = nested["start_ns"].gather(rows).to_list(), nested["end_ns"].gather(rows).to_list()
    around: list[int] = []
    for place, start in enumerate(starts):
        while around and around[-1] <= start:
            around.pop()
        ends[place] = min([ends[place], *around[-1:]])
        around.append(ends[place])
    cut = nested["end_ns"].scatter(rows, pl.Series(ends, dtype=pl.Int64))
    return nest(nested.drop("depth", "parent").with_columns(cut))
