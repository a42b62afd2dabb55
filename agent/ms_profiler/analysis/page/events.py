"""Collect the events of the timeline: the lanes of threads and streams, and for each event the call that launched it.

A lane has rows, and the events of a row do not overlap. Each column of the events is one list, in which row follows
row; `count` is the number of events in each row. `start` is the time in ns since the start of the previous event in the
row. For the first event of a row, it is the time since the first record of the run. `kind` is the index of the event's
name, category and module in `names`, `categories` and `modules`.
"""

from typing import Any, Final

import polars as pl

from ms_profiler.analysis.metrics import host_operators, intervals
from ms_profiler.analysis.metrics.measures import Measures
from ms_profiler.analysis.page import listed, packing
from ms_profiler.store.format import Category, category_name

#: largest number of events in a timeline: a page with one million of them takes 12 MB
MOST: Final = 1_000_000
#: kinds of lanes: spans of a thread, its operators and traced calls, work of a stream, calls of a device's driver
SPANS: Final = 0
OPERATORS: Final = 1
STREAM: Final = 2
CALLS: Final = 3
#: the columns that identify a row of the timeline. The first three identify its lane
_LANE: Final = ["process", "kind", "thread", "depth"]
#: columns whose values are indices of texts
_TEXTS: Final = ["name", "category", "module"]
_EVENT: Final = pl.Schema(
    {
        "kind": pl.UInt8,
        "process": pl.UInt32,
        "thread": pl.UInt64,
        "depth": pl.UInt16,
        "start": pl.Int64,
        "dur": pl.Int64,
        "name": pl.UInt32,
        "category": pl.UInt32,
        "module": pl.UInt32,
        "launch": pl.Int64,
    }
)

_TASK: Final = pl.Schema({**_EVENT, **dict.fromkeys(_TEXTS, pl.String())})


def timeline(measures: Measures, spans: pl.DataFrame, origin: int, most: int) -> dict[str, Any]:
    """Return the events of a run. If the run has more than `most` events, return those of the first and slowest steps.

    Args:
        measures: the measures of the run.
        spans: the spans as events, from `spans`.
        origin: the zero of the returned times, ns since the epoch.
        most: the largest number of events.
    """
    tasks = pl.concat([_tasks(measures), _calls(measures)]).sort("start", "dur", descending=[False, True])
    texts = _texts(measures, tasks)
    events, notes = pl.concat([spans.select(*_EVENT), _numbered(tasks, texts)]), []
    if events.height > most:
        events, note = _chosen(events, measures, most)
        notes.append(note)
    lanes = events.group_by(_LANE).agg(pl.len().alias("count")).sort(_LANE).with_row_index("row")
    events = events.join(lanes.drop("count"), on=_LANE, nulls_equal=True, maintain_order="left")
    kinds = events.select(_TEXTS).unique().sort(_TEXTS, nulls_last=True).with_row_index("what")
    events = events.join(kinds, on=_TEXTS, nulls_equal=True, maintain_order="left")
    events = events.select("row", "kind", "start", "dur", "what", "launch")
    # The events are in order of start already. Sorting by start again would take a fifth of the time for the page.
    events = events.sort("row", maintain_order=True)
    start = events["start"] - origin
    same = (events["row"] == events["row"].shift(1)).fill_null(False)
    begin = pl.select(pl.when(same).then(start - start.shift(1)).otherwise(start)).to_series()
    return {
        "count": events.height,
        "lanes": _named(measures, lanes),
        "names": texts.gather(kinds["name"]).to_list(),
        "categories": texts.gather(kinds["category"]).to_list(),
        "modules": texts.gather(kinds["module"]).to_list(),
        "notes": notes,
        "packed": packing.columns(
            {
                "start": begin,
                "dur": events["dur"].clip(lower_bound=0),
                "kind": events["what"],
                "launch": _launched(events),
            }
        ),
    }


def spans(measures: Measures) -> pl.DataFrame:
    """Return the spans as events.

    Texts are numbers: indices into a list that has `measures.recording.names` and, after them, the categories.

    Args:
        measures: the measures of the run.
    """
    table, first = measures.spans, len(measures.recording.names)
    is_operator = table["category"] == int(Category.OP)
    modules = pl.repeat(None, table.height, dtype=pl.UInt32, eager=True)
    if measures.recording.again is None:
        own = measures.host_operators
        found = own if own.height else host_operators.calls(table)
        # `found` has one row for each operator, in the order of the spans
        row = pl.select(pl.when(is_operator).then(is_operator.cast(pl.UInt32).cum_sum() - 1)).to_series()
        modules = found["module"].gather(row).cast(pl.UInt32)
    traced = table["category"] == int(Category.TRACED)
    events = table.select(
        (is_operator | traced).cast(pl.UInt8).alias("kind"),
        *("process", "thread", "depth"),
        pl.col("start_ns").alias("start"),
        pl.col("duration_ns").alias("dur"),
        "name",
        pl.col("category").cast(pl.UInt32) + first,
        modules.alias("module"),
        pl.lit(None, pl.Int64).alias("launch"),
        pl.col("self_ns").alias("self"),
    )
    return events.cast(_EVENT)


def operators(measures: Measures, spans: pl.DataFrame) -> pl.DataFrame:
    """Return the sums of operators by name, module and phase, the longest first.

    If the run is too large for memory, only the sums by name are known, so module and phase are null.

    Args:
        measures: the measures of the run.
        spans: the spans as events, from `spans`.
    """
    if measures.recording.again is not None:
        sums = listed.table("span_sums", measures).filter(pl.col("category") == "op").drop("category")
        empty = [pl.lit(None, pl.String).alias(name) for name in ("module", "phase")]
        return sums.with_columns(empty).sort("self", "name", descending=[True, False])
    # As in `operators.sum_up`, operators that a compiler only traced are not in these sums. If an operator calls
    # itself, the time of the inner call is part of the outer call, and counts only once.
    own = spans.with_columns(measures.spans["repeated"]).filter(measures.spans["category"] == int(Category.OP))
    pieces = measures.pieces.sort("start_ns")
    phases = pieces["phase"].unique().sort()
    number = pieces["phase"].replace_strict(phases, range(len(phases)), return_dtype=pl.UInt32)
    phase = number.gather(intervals.locate(own["start"], pieces))
    by, once = ["name", "module", "phase"], ~pl.col("repeated")
    sums = (
        own.with_columns(phase.alias("phase"))
        .group_by(by)
        .agg(
            once.sum().alias("count"),
            pl.col("dur").filter(once).sum().alias("total"),
            pl.col("self").sum(),
            pl.col("dur").filter(once).min().alias("min"),
            pl.col("dur").filter(once).max().alias("max"),
        )
    )
    names = measures.recording.names
    named = sums.with_columns(
        names.gather(sums["name"]).alias("name"),
        names.gather(sums["module"]).alias("module"),
        phases.gather(sums["phase"]).alias("phase"),
    )
    return named.sort("self", *by, descending=[True, False, False, False])


def _texts(measures: Measures, tasks: pl.DataFrame) -> pl.Series:
    """Return the texts of events: names of the recording, categories, and names of tasks."""
    others = pl.concat([tasks[name] for name in _TEXTS]).drop_nulls().unique(maintain_order=True)
    known = [measures.recording.names.cast(pl.String), pl.Series([category_name(number) for number in range(256)])]
    return pl.concat([part.rename("text") for part in (*known, others)])


def _numbered(tasks: pl.DataFrame, texts: pl.Series) -> pl.DataFrame:
    """Replace the texts of events by the indices of these texts in `texts`."""
    known = pl.DataFrame({"text": texts}).with_row_index("number").unique("text", keep="first", maintain_order=True)
    found = [
        tasks.select(text=name).join(known, on="text", how="left", maintain_order="left")["number"].alias(name)
        for name in _TEXTS
    ]
    return tasks.with_columns(found).select(*_EVENT).cast(_EVENT)


def _tasks(measures: Measures) -> pl.DataFrame:
    """Return the kernels and the copies that ran in a device's streams."""
    kernels = listed.table("kernels", measures)
    host = pl.col("process")
    shown = kernels.select(
        pl.lit(STREAM).alias("kind"),
        host,
        pl.col("stream").alias("thread"),
        pl.lit(0).alias("depth"),
        *("start", "dur", "name"),
        pl.coalesce("part", pl.lit("kernel")).alias("category"),
        *("module", "launch"),
    ).cast(_TASK)
    copies = listed.table("copies", measures)
    process = shown["process"][0] if shown.height else measures.steps.process
    moved = copies.select(
        pl.lit(STREAM).alias("kind"),
        pl.lit(process).alias("process"),
        pl.col("stream").alias("thread"),
        pl.lit(0).alias("depth"),
        *("start", "dur", "name"),
        pl.lit("copy").alias("category"),
        pl.lit(None, pl.String).alias("module"),
        "launch",
    ).cast(_TASK)
    # a copy that a profiler also reports as a kernel must not count twice
    twice = ["thread", "start", "dur"]
    return pl.concat([shown, moved.join(shown.select(twice), on=twice, how="anti", nulls_equal=True)])


def _calls(measures: Measures) -> pl.DataFrame:
    """Return the calls of a device's driver, with a row for each of the driver's levels."""
    calls = listed.table("calls", measures)
    return calls.select(
        pl.lit(CALLS).alias("kind"),
        pl.lit(measures.steps.process).alias("process"),
        "thread",
        pl.col("level").rank("dense").fill_null(1).alias("depth"),
        *("start", "dur", "name"),
        pl.lit("launch").alias("category"),
        pl.lit(None, pl.String).alias("module"),
        pl.lit(None, pl.Int64).alias("launch"),
    ).cast(_TASK)


def _launched(events: pl.DataFrame) -> pl.Series:
    """Return for each event the number (from 1) of the host event that launched it; 0 if unknown.

    The launching event is the event that began at the time of the launch. If several did, the innermost of them counts.
    """
    if events["launch"].null_count() == events.height:
        return pl.repeat(0, events.height, dtype=pl.UInt32, eager=True)
    numbered = events.with_row_index("number", offset=1)
    callers = numbered.filter(pl.col("kind") != STREAM).sort("dur", descending=True)
    begun = callers.select(pl.col("start").alias("launch"), pl.col("number").alias("by"))
    wanted = numbered.select("launch").join(
        begun.unique("launch", keep="last", maintain_order=True), on="launch", how="left", maintain_order="left"
    )
    return wanted["by"].fill_null(0)


def _chosen(events: pl.DataFrame, measures: Measures, most: int) -> tuple[pl.DataFrame, str]:
    """Return the events of as many steps as fit into the page, and a note about steps that are left out."""
    table = measures.steps.table
    at = intervals.locate(events["start"], table)
    events = events.with_columns(table["number"].gather(at).alias("step"))
    sizes = events.group_by("step").len().drop_nulls("step")
    order = table.sort("duration_ns", descending=True).select(pl.col("number").alias("step"))
    first = order.filter(pl.col("step") == order["step"].min())
    ranked = pl.concat([first, order]).unique("step", maintain_order=True).join(sizes, on="step", maintain_order="left")
    fitting = ranked.filter(pl.col("len").fill_null(0).cum_sum() <= most)["step"]
    chosen = events.filter(pl.col("step").is_in(fitting.implode())).drop("step").head(most)
    steps = ", ".join(str(step) for step in sorted(fitting.to_list())[:20])
    return chosen, f"{chosen.height:,} of {events.height:,} events: those of the first and the slowest steps ({steps})."


def _named(measures: Measures, lanes: pl.DataFrame) -> list[dict[str, Any]]:
    """Return lanes with the names of threads, and their numbers in the operating system."""
    recording = measures.recording.threads.select(
        "process",
        pl.col("thread").cast(pl.UInt64),
        pl.col("native_tid").cast(pl.UInt64).alias("native"),
        pl.col("thread_name").alias("name"),
    )
    by = ["process", "thread"]
    own = lanes.join(recording.unique(by), on=by, how="left", maintain_order="left")
    of_system = recording.unique(["process", "native"]).select(
        "process", pl.col("native").alias("thread"), called="name"
    )
    named = own.join(of_system, on=by, how="left", maintain_order="left")
    is_span = pl.col("kind") <= OPERATORS
    return named.select(
        "process",
        pl.when(is_span & (pl.col("native") > 0)).then("native").otherwise("thread").alias("thread"),
        "depth",
        "kind",
        "count",
        pl.when(is_span).then("name").when(pl.col("kind") == CALLS).then("called").alias("name"),
    ).to_dicts()
