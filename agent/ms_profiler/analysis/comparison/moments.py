"""Divide a usual step into cells whose times add up to the time of the step.

Each moment of the step has a part (`metrics.bounds`), a phase, a module (`metrics.owners`, or the module of a kernel),
a stage (forward, backward, recompute or optimizer), and an operator, kernel or span. A cell is the total time of all
moments for which these five properties are equal.
"""

from typing import Final

import polars as pl

from ms_profiler.analysis.comparison import kernel_gaps
from ms_profiler.analysis.metrics import bounds, critical_path, intervals, phases
from ms_profiler.analysis.metrics.communication import COLLECTIVES
from ms_profiler.analysis.metrics.diagnosis import Diagnosis
from ms_profiler.analysis.metrics.measures import Measures
from ms_profiler.analysis.metrics.owners import PIECES
from ms_profiler.analysis.metrics.ownership import of_steps
from ms_profiler.analysis.metrics.scopes import Part
from ms_profiler.analysis.metrics.steps import stepping
from ms_profiler.store.format import Category

#: the columns of the table of cells (parts of the step time), as in `digest.Cell`
CELLS: Final = pl.Schema(
    {
        "part": pl.String,
        "phase": pl.String,
        "module": pl.String,
        "stage": pl.String,
        "what": pl.String,
        "caller": pl.String,
        "ns": pl.Int64,
    }
)
#: `phase` of the cells of a step on a device
DEVICE: Final = "device"
#: the columns that tell what ran in a cell (a part of the step time)
_SAID: Final = ("module", "stage", "what", "caller")
#: if a cell is shorter than this share of a step (20 us of 100 ms), only its part and phase are kept
LEAST: Final = 2e-4
#: parts that only the device defines; the host's modules and operators do not describe them
_OF_DEVICE: Final = (critical_path.GAP, critical_path.COPY)
#: `what` of the cell with the time by which kernels took longer than usual, from `metrics.long_kernels`
INTERRUPTED: Final = "kernels that took far longer than in other steps"
_LOST: Final = {"module": "", "stage": "", "what": INTERRUPTED, "caller": ""}
#: prefix of the names of nodes of a backward pass
_ENGINE: Final = r"^autograd::engine::evaluate_function: "
#: parts for which a span of the framework says more than the operator inside the span
_WAITING: Final = (*bounds.WAITS, bounds.SYNC, bounds.GARBAGE, bounds.COMMUNICATION)
#: categories of spans that name the host's work; modules and operators are left out, because other columns have them
_SAYING: Final = [
    int(category)
    for category in Category
    if category not in (Category.MODULE, Category.OP, Category.RUN, Category.EPOCH, Category.FORWARD, Category.IMPORT)
]
_STAGES: Final = {int(part): part.name.lower() if part else "" for part in Part}


def usual(found: Diagnosis, steady: pl.DataFrame) -> list[int]:
    """Return the rows of the usual steps: of the steps whose content is known, the half with the middle durations.

    Args:
        found: the diagnosis of the run.
        steady: the steady steps, `row` and `duration_ns`.
    """
    seen = steady.filter(pl.col("row").is_in(found.parts["step"].unique().implode()))
    if seen.is_empty():
        return []
    low, high = (steady["duration_ns"].quantile(share, "nearest") for share in (0.25, 0.75))
    inside = seen.filter(pl.col("duration_ns").is_between(low, high))
    if inside.is_empty():
        middle = steady["duration_ns"].median()
        inside = seen.sort((pl.col("duration_ns") - middle).abs(), "row").head(1)
    rows: list[int] = inside["row"].to_list()
    return rows


def cells(measures: Measures, found: Diagnosis, rows: list[int], more: pl.Series) -> pl.DataFrame:
    """Return the cells of a usual step, with the columns of `CELLS`, most time first.

    A cell is the time of all moments with the same part, phase, module, stage and operator. `ns` is the mean over the
    steps `rows`, rounded. If a cell is below `LEAST` of the step, only its part and phase are kept.

    Args:
        measures: the measures of the run.
        found: the diagnosis of the run.
        rows: the rows of the usual steps, from `usual`.
        more: by how many ns each kernel took longer than usual because it was interrupted, from `long_kernels.excess`.
            This time is in a cell of its own, `INTERRUPTED`.
    """
    pieces = found.pieces.filter(pl.col("step").is_in(rows))
    if pieces.is_empty():
        return pl.DataFrame(schema=CELLS)
    if "phase" not in pieces.columns:
        pieces = pieces.with_columns(phase=pl.lit(DEVICE))
    within = pieces.select(pl.col("start_ns").min(), pl.col("end_ns").max()).row(0)
    computing, exchanging = _kernels(measures, within, more)
    layers = {
        "moment": pieces.select("part", "phase", *intervals.BOUNDS),
        "kernel": computing,
        "exchange": exchanging,
        "owner": _owners(measures, within),
        "gap": _gaps(measures, within),
        "operator": _operators(measures, within),
        "span": _spans(measures, within),
    }
    coded, keys = {}, {}
    for name, table in layers.items():
        coded[name], keys[name] = _coded(table, name)
    line = intervals.timeline(coded, dict.fromkeys(layers, "code")).filter(pl.col("moment") > 0)
    summed = line.group_by(*layers).agg((pl.col("end_ns") - pl.col("start_ns")).sum().alias("ns"))
    for name, key in keys.items():
        summed = summed.join(key, on=name, how="left")
    described = summed.select("part", "phase", *(_said(column) for column in _SAID), ns="ns")
    described = described.with_columns(pl.col("ns") / len(rows))
    return folded(described)


def folded(described: pl.DataFrame) -> pl.DataFrame:
    """Add up equal parts of a step, remove the names of small ones, and round so that they add up to the rounded sum.

    Args:
        described: parts of the time of a step, with the columns of `CELLS`; `ns` may have fractions.
    """
    names = ["part", "phase", *_SAID]
    summed = described.group_by(names).agg(pl.col("ns").sum())
    small = pl.col("ns") < LEAST * pl.col("ns").sum()
    bare = [pl.when(small).then(pl.lit("")).otherwise(name).alias(name) for name in names[2:]]
    merged = summed.select("part", "phase", *bare, "ns").group_by(names).agg(pl.col("ns").sum())
    ordered = merged.sort("ns", *names, descending=[True, *[False] * len(names)])
    whole = pl.col("ns").cum_sum().round().cast(pl.Int64)
    return ordered.with_columns((whole - whole.shift(1, fill_value=0)).alias("ns")).cast(CELLS)


def _coded(table: pl.DataFrame, name: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return two tables: the intervals with a `code` in place of their description, and the description of each code.

    Args:
        table: the intervals.
        name: the title of the column of codes in the second table.
    """
    says = [column for column in table.columns if column not in intervals.BOUNDS]
    known = table.select(says).unique(maintain_order=True).with_row_index("code", 1).cast({"code": pl.Int64})
    coded = table.join(known, on=says, how="left", nulls_equal=True).select("code", *intervals.BOUNDS)
    return coded, known.rename({"code": name})


def _touching(within: tuple[int, int]) -> pl.Expr:
    return (pl.col("start_ns") < within[1]) & (pl.col("end_ns") > within[0])


def _said(column: str) -> pl.Expr:
    """Return an expression for a column of `_SAID`: from the running kernel, or from the host's work if none runs."""
    part = pl.col("part")
    device = pl.when(part.is_in(_OF_DEVICE)).then(pl.lit(""))
    ran = device.when((part == bounds.COMPUTING) & (pl.col("kernel") > 0)).then(f"kernel_{column}")
    ran = ran.when((part == bounds.COMMUNICATION) & (pl.col("exchange") > 0)).then(f"exchange_{column}")
    waiting = pl.when(part.is_in(_WAITING)).then(pl.coalesce("span_what", "operator_what"))
    what = waiting.otherwise(pl.coalesce("operator_what", "span_what"))
    host = {"what": what, "caller": pl.lit("")}.get(column, pl.col(f"owner_{column}"))
    # between two kernels of a graph, the runtime launches the next one
    launched = (part == bounds.LAUNCH) & pl.col("owner_module").is_null() & (pl.col("gap_module") != "")
    launch = pl.col(f"gap_{column}") if column in ("module", "stage") else pl.lit("")
    host = pl.when(launched).then(launch).otherwise(host)
    return ran.otherwise(host).fill_null("").alias(column)


def _kernels(measures: Measures, within: tuple[int, int], more: pl.Series) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the kernel that computes and the kernel that exchanges data at each moment.

    If several kernels compute at once, or exchange data at once, the one that began first counts.

    Returns:
        Two tables of intervals. The first has `kernel_module`, `kernel_stage`, `kernel_what` and `kernel_caller`; the
        second has the same columns with the prefix `exchange_`.
    """
    stream, device = measures.stream, measures.recording.device
    table = _ran(measures, within, more)
    if device is None:
        rows = stream.names["type"].is_in(list(COLLECTIVES)).gather(table["kernel"]).fill_null(False)
        computing, exchanging = table.filter(~rows), table.filter(rows)
    else:
        computing, exchanging = device.exchanging(table, "anti"), device.exchanging(table, "semi")
    lost = computing.filter(pl.col("excess_ns") > 0)
    lost = lost.select(
        *(pl.lit(text).alias(f"kernel_{name}") for name, text in _LOST.items()),
        start_ns=pl.col("end_ns") - pl.col("excess_ns"),
        end_ns="end_ns",
    )
    computing = computing.with_columns(pl.col("end_ns") - pl.col("excess_ns"))
    return pl.concat([_apart(measures, computing, "kernel"), lost]).sort("start_ns"), _apart(
        measures, exchanging, "exchange"
    )


def _gaps(measures: Measures, within: tuple[int, int]) -> pl.DataFrame:
    """Return the intervals between the kernels of a graph on the host, with `gap_module` and `gap_stage`."""
    table = _ran(measures, within)
    called = intervals.union(stepping(measures.spans, measures.steps, Category.GRAPH).filter(_touching(within)))
    known = table if measures.recording.device is None else table.clear()
    return kernel_gaps.gaps(known, called, measures.stream.texts, _STAGES)


def _ran(measures: Measures, within: tuple[int, int], *more: pl.Series) -> pl.DataFrame:
    """Return the kernels that ran between two times, with `end_ns` and further columns.

    On the host, only the kernels of the stepping process count, and only if they decide when it computes.
    """
    stream, end_ns = measures.stream, pl.col("start_ns") + pl.col("duration_ns")
    table = stream.table.with_columns(*more, end_ns=end_ns).filter(_touching(within))
    if measures.recording.device is not None:
        return table
    return table.filter(pl.lit(stream.decides), pl.col("process") == measures.steps.process)


def _apart(measures: Measures, table: pl.DataFrame, name: str) -> pl.DataFrame:
    stream, before = measures.stream, pl.col("end_ns").cum_max().shift(1)
    cut = table.sort("start_ns", "end_ns").with_columns(start_ns=pl.max_horizontal("start_ns", before))
    pieces = cut.filter(pl.col("end_ns") > pl.col("start_ns"))
    stages = pieces["part"].cast(pl.Int64).replace_strict(_STAGES, default="", return_dtype=pl.String)
    return pieces.select(
        stream.texts.gather(pieces["module"]).alias(f"{name}_module"),
        stages.alias(f"{name}_stage"),
        _names(measures, name).gather(pieces["kernel"]).alias(f"{name}_what"),
        _callers(measures, pieces["launch"]).alias(f"{name}_caller"),
        *intervals.BOUNDS,
    )


def _callers(measures: Measures, rows: pl.Series) -> pl.Series:
    """Return the name of the outermost operator around each operator.

    Args:
        measures: the measures of the run.
        rows: the rows of the operators among the recording's spans; null if unknown.
    """
    recording = measures.recording
    if rows.null_count() == len(rows):
        return pl.repeat(None, len(rows), dtype=pl.String, eager=True)
    # an operator is listed after the operators around it, so the latest operator of depth 0 is the outermost one
    operators = recording.spans.with_row_index("row").filter(pl.col("category") == int(Category.OP))
    outer = pl.when(pl.col("depth") == 0).then("name").forward_fill().over("process", "thread")
    known = operators.select("row", outer.alias("outer"))
    found = rows.cast(pl.UInt32).to_frame("row").join(known, on="row", how="left", maintain_order="left")
    return recording.names.gather(found["outer"]).str.replace(_ENGINE, "")


def _names(measures: Measures, name: str) -> pl.Series:
    """Return for each kernel a name that is the same in each run.

    The name is the primitive if the framework names it, otherwise the name on the device. The names of exchanges
    contain numbers that change from run to run, so an exchange is named by its type.
    """
    chosen = "full_name" if measures.recording.device is not None and name == "kernel" else "type"
    return measures.stream.names.select(pl.coalesce(chosen, "full_name").alias("what")).to_series()


def _owners(measures: Measures, within: tuple[int, int]) -> pl.DataFrame:
    """Return the module and stage of each interval of the stepping thread: `owner_module`, `owner_stage`."""
    recording, found = measures.recording, measures.ownership
    if found is not None and found.basis != "host":
        known = bool((recording.spans["category"] == int(Category.MODULE)).any())
        found = of_steps(recording, measures.steps, measures.steady) if known else None
    own = pl.DataFrame(schema=PIECES) if found is None else found.pieces.filter(_touching(within))
    stage = pl.col("part").cast(pl.Int64).replace_strict(_STAGES, default="", return_dtype=pl.String)
    return own.select(pl.col("owner").alias("owner_module"), stage.alias("owner_stage"), *intervals.BOUNDS)


def _operators(measures: Measures, within: tuple[int, int]) -> pl.DataFrame:
    """Return the intervals in which the stepping thread runs operators: `operator_what` is the operator's name."""
    return _innermost(measures, within, pl.col("category") == int(Category.OP), "operator_what")


def _spans(measures: Measures, within: tuple[int, int]) -> pl.DataFrame:
    """Return the intervals of the stepping thread's innermost spans other than operators: `span_what` is the name."""
    return _innermost(measures, within, pl.col("category").is_in(_SAYING), "span_what")


def _innermost(measures: Measures, within: tuple[int, int], chosen: pl.Expr, name: str) -> pl.DataFrame:
    steps, names = measures.steps, measures.recording.names
    own = stepping(measures.spans, steps).filter(chosen, _touching(within))
    found = phases.innermost(own, "name")
    return found.select(names.gather(found["name"]).alias(name), *intervals.BOUNDS)
