"""Operators that compute while their call runs, as PyTorch's operators do on a processor of the host.

Such an operator does the work of a kernel, but it may also call other operators. Its self time is its own work. Total
times must not be added up, because they contain the times of inner operators.

The innermost operators (those that call no other operators) are listed one by one, like kernels. Many operators do
their work themselves although they call others. For example, a matrix product calls `aten::resolve_conj`, which does
nothing. So an operator with a self time over `bounds.SHORT` is listed, too. The duration of a listed operator is its
self time, so no time is counted twice.
"""

from typing import Final

import polars as pl

from ms_profiler.analysis.columns import COLUMNS
from ms_profiler.analysis.driver.sections import Section
from ms_profiler.analysis.metrics import bounds, handed_over, intervals, phases, scheduling
from ms_profiler.analysis.metrics.operands import TIE
from ms_profiler.analysis.metrics.operators import durations
from ms_profiler.analysis.metrics.steps import Steps
from ms_profiler.analysis.model import tables
from ms_profiler.analysis.streams.nesting import nest, threads
from ms_profiler.store.format import Category

#: if long calls of an operator are at least this share of its calls, they count as computing. If they are rarer, the
#: operator is short, and the system only delayed these calls
OFTEN: Final = 0.02
#: start of the name of the operator in which autograd runs each node; its self time is the time of the script's hooks
AROUND_NODE: Final = "autograd::engine::evaluate_function"
#: A name without a namespace is that of a script's `torch.autograd.Function`, or of its node in the backward pass, such
#: as `MyFunctionBackward`. Autograd's own nodes have a number, such as `AddmmBackward0`
_FUNCTION: Final = r"^[A-Za-z_]\w*$"
_NODE: Final = r"Backward\d+$"
#: start of Inductor's name for the span of a compiled graph. The self time of the span is the time of the graph's fused
#: kernels, which are C++ code. The other kernels of the graph are operators inside the span
GRAPH: Final = "## Call CompiledFxGraph"
#: columns of operators and of the spans around them; the spans tell the operators' modules
_COLUMNS: Final = ("process", "thread", "name", "category", "start_ns", "end_ns", "arg")
_IS_OPERATOR: Final = pl.col("category") == Category.OP


def compute(recording: tables.Recording) -> bool:
    """Return whether the operators of a run compute during their calls, as in PyTorch without an accelerator.

    Args:
        recording: the run.
    """
    framework = recording.info.framework
    return framework.get("name") == "torch" and framework.get("device", "CPU").upper() in ("", "CPU")


def with_exchanges(recording: tables.Recording, spans: pl.DataFrame) -> pl.DataFrame:
    """Return spans of the run. PyTorch's operators that exchange data on a processor have the category of exchanges.

    If the job has an accelerator, the exchanges are tasks of the device. Then the operators only queue them, and keep
    their category.

    Args:
        recording: the run.
        spans: table of spans, with the columns of `tables.SPANS`.
    """
    if not compute(recording):
        return spans
    exchange = pl.lit(int(Category.COMMUNICATION), spans.schema["category"])
    kind = pl.when(pl.lit(handed_over.operators(spans, recording.names))).then(exchange).otherwise("category")
    return spans.with_columns(kind.alias("category"))


def calls(spans: pl.DataFrame) -> pl.DataFrame:
    """Return every operator, with its module, whether it is innermost, and its wait.

    Args:
        spans: table of spans, with the columns of `tables.SPANS` and `duration_ns`. The result repeats all columns.

    Returns:
        The columns of `spans`, and:

        - module: row of the name of the innermost module around the start; null outside of modules.
        - inner: whether the operator is innermost: no other operator ran in it.
    """
    return spans.with_columns(_known(spans)).filter(_IS_OPERATOR)


def of_run(recording: tables.Recording, spans: pl.DataFrame) -> pl.DataFrame:
    """Return the operators of a run, with the columns of `listed`; no operators if they do not compute in their calls.

    Args:
        recording: the run.
        spans: the run's spans, with the columns of `tables.SPANS` and of `operators.self_times`.
    """
    return listed(calls(spans if compute(recording) else spans.head(0)), recording.names)


def listed(operators: pl.DataFrame, names: pl.Series) -> pl.DataFrame:
    """Return the operators with two more columns.

    - listed: whether the operator is listed like a kernel. It is innermost, or its self time is over `bounds.SHORT`.
      Autograd's operator around each node is listed only if it is innermost.
    - wait_ns: for a listed operator, the time since all earlier listed operators of its thread ended; 0 for the first
      one, and for an operator inside a listed one. The values of other operators have no meaning.

    Args:
        operators: the operators of `calls`, with `self_ns`; those of a thread in the order of start and falling
            duration.
        names: the names of the recording.
    """
    return operators.with_columns(_listed(operators, names)).with_columns(_waited())


def _listed(operators: pl.DataFrame, names: pl.Series) -> pl.Expr:
    """Return the column `listed` of `listed`."""
    chosen = pl.col("inner") | (pl.lit(does(operators, names)) & (pl.col("self_ns") > bounds.SHORT))
    return chosen.alias("listed")


def _waited() -> pl.Expr:
    """Return the column `wait_ns` of `listed`, for a table that may lack operators that are not listed."""
    ended = pl.when("listed").then("end_ns").cum_max().forward_fill().shift(1).over("process", "thread")
    return (pl.col("start_ns") - ended).clip(lower_bound=0).fill_null(0).alias("wait_ns")


def listed_in(section: Section, names: pl.Series) -> pl.DataFrame:
    """Return the operators of a section of the run that are listed or have a sequence number of autograd.

    The columns are those of `listed`.

    Args:
        section: a section of the run. Its `carried` spans began in earlier sections: the spans around its operators,
            and the last spans before its operators.
        names: the names of the recording.
    """
    carried = section.carried.select(_COLUMNS).sort("start_ns")
    known = pl.concat([carried, section.spans.select(_COLUMNS)]).with_row_index("place")
    # Each span has one row in both tables. A join in place of this sort took 2.5 s more for ten million spans.
    nested = nest(known)
    timed = durations(nested)[0].with_columns(nested["place"]).sort("place").drop("place")
    own = calls(known.hstack(timed))
    # to compute waits for the chosen operators alone takes a third of the time
    found = own.with_columns(_listed(own, names)).filter(pl.col("listed") | (pl.col("arg") > 0))
    return found.with_columns(_waited()).filter(pl.col("place") >= carried.height)


def _known(spans: pl.DataFrame) -> pl.DataFrame:
    """Return the columns that `Columns.calls` computes for each operator among the spans."""
    return COLUMNS.calls(threads(spans), spans["start_ns"], spans["end_ns"], spans["category"], spans["name"])


def ties(operators: pl.DataFrame) -> pl.DataFrame:
    """Pair operators of the forward pass with operators of the backward pass by autograd's sequence numbers.

    Several nested operators may have the same number. In the forward pass, the operator that began last is chosen,
    because it created the node. In the backward pass, the operator that began first is chosen. Numbers are compared
    only within a process. Each thread has its own numbers, so operators of one thread are paired first. An operator of
    another thread is only paired if a single thread used its number in the forward pass.

    Args:
        operators: the operators of `calls`.

    Returns:
        One row per pair: `forward` and `backward`, both rows of `operators`.
    """
    numbered = operators.with_row_index("row").with_columns(TIE.alias("tie")).filter(pl.col("tie") > 0)
    key = [pl.col("process"), (pl.col("tie") // 2).alias("number"), pl.col("thread")]
    numbered = numbered.sort("start_ns")
    forward = numbered.filter(pl.col("tie") % 2 == 0).group_by(*key, maintain_order=True).agg(forward=pl.last("row"))
    backward = numbered.filter(pl.col("tie") % 2 == 1).group_by(*key, maintain_order=True).agg(backward=pl.first("row"))
    shared, number = ["process", "number", "thread"], ["process", "number"]
    same = forward.join(backward, on=shared)
    alone = forward.filter(pl.len().over(number) == 1).join(same, on=number, how="anti")
    apart = alone.join(backward.unique(number, keep="first", maintain_order=True), on=number)
    pairs = pl.concat([same.select("forward", "backward"), apart.select("forward", "backward")])
    return pairs.sort("forward")


def known(operators: pl.DataFrame, steps: Steps) -> pl.DataFrame:
    """Return the recorded steps in which the stepping process ran at least one known operator.

    Args:
        operators: the operators of the run, from `calls`.
        steps: the steps in use.

    Returns:
        `step` (row of `steps.table`), and the columns of `steps.table`.
    """
    table = steps.table.with_row_index("step").filter("recorded")
    own = operators.filter(pl.col("process") == steps.process)
    return table[intervals.locate(own["start_ns"], table).unique().drop_nulls().sort()]


def does(operators: pl.DataFrame, names: pl.Series) -> pl.Series:
    """Return for each operator whether it does more than call other operators and hooks of the script.

    Args:
        operators: the operators, with `name` (row of `names`).
        names: the names of the recording.
    """
    return ~names.str.starts_with(AROUND_NODE).fill_null(False).gather(operators["name"])


def computes(operators: pl.DataFrame, names: pl.Series) -> pl.Series:
    """Return for each operator whether its self time is work of the framework, and neither dispatch nor Python code.

    Args:
        operators: the operators, with `name` (row of `names`).
        names: the names of the recording.
    """
    scripted = names.str.contains(_FUNCTION) & ~names.str.contains(_NODE)
    return does(operators, names) & ~scripted.fill_null(False).gather(operators["name"])


def computing(
    recording: tables.Recording, operators: pl.DataFrame, spans: pl.DataFrame, cut: pl.DataFrame, steps: Steps
) -> pl.DataFrame:
    """Return the intervals in which the stepping process computed, without overlap, sorted by time.

    The process computes while one of these runs:

    - A compiled graph. If Inductor compiled the graph, longer gaps between its operators count, too, because the graph
      runs its own fused kernels there.
    - An operator whose self time is over `bounds.SHORT` and at least half of the call's duration. So an operator that
      mostly calls other operators does not count, but the called operators do.

    Some long calls of operators do not count. Autograd's operator around each node never counts, because its self time
    is dispatch, or hooks of the script. A `torch.autograd.Function` of the script does not count either: its self time
    is Python code. If only few calls of an operator are long (less than `OFTEN`), the system made these calls long by
    taking the processor away. An operator that exchanges data with other ranks does not count.

    The process does not compute while the stepping thread makes data, compiles, writes a checkpoint, exchanges data
    with other ranks, or sleeps. In a step without operators, the phases decide.

    Args:
        recording: the run.
        operators: the operators of `calls`.
        spans: table of spans, with the columns of `tables.SPANS`.
        cut: the steps cut into phases, from `phases.pieces`.
        steps: the steps in use.
    """
    own = operators.filter(pl.col("process") == steps.process)
    graphs = spans.filter(pl.col("process") == steps.process, pl.col("category") == int(Category.GRAPH))
    alone = pl.col("self_ns")
    long = alone > bounds.SHORT
    worked = own.filter(
        computes(own, recording.names),
        ~handed_over.operators(own, recording.names),
        long,
        long.mean().over("name") >= OFTEN,
        2 * alone >= pl.col("duration_ns"),
    )
    ran = intervals.union(
        pl.concat([worked.select(intervals.BOUNDS), graphs.select(intervals.BOUNDS), fused(own, recording.names)])
    )
    rows = known(operators, steps)["step"].implode()
    others = cut.filter(~pl.col("step").is_in(rows), pl.col("phase").is_in(phases.COMPUTING))
    slept = scheduling.idle(scheduling.cells(recording.looks, steps.process, steps.thread))
    elsewhere = [*bounds.WAITS, phases.NAMES[Category.COMMUNICATION]]
    waits = pl.concat([cut.filter(pl.col("phase").is_in(elsewhere)).select(intervals.BOUNDS), slept])
    return intervals.union(pl.concat([intervals.subtract(ran, waits), others.select(intervals.BOUNDS)]))


def fused(operators: pl.DataFrame, names: pl.Series) -> pl.DataFrame:
    """Return the long gaps between operators of Inductor's graphs. In these gaps, the graphs ran fused kernels.

    Args:
        operators: the operators of `calls`, of one process.
        names: the names of the recording.
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
