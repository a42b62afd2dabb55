"""The events of the timeline: lanes of threads and streams, packed, and which call launched what.

Times are ns since the first record of the run. Each row of a lane holds events that do not overlap.
"""

from typing import Any, Final

import polars as pl

from ms_profiler.analysis.metrics import host_operators, intervals
from ms_profiler.analysis.metrics.measures import Measures
from ms_profiler.analysis.page import listed, packing

#: events of a timeline: a page of one million takes 12 MB
MOST: Final = 1_000_000
#: what a row is of
SPANS: Final = 0
OPERATORS: Final = 1
STREAM: Final = 2
CALLS: Final = 3
_LANE: Final = ["process", "kind", "thread", "depth"]
_EVENT: Final = pl.Schema(
    {
        "kind": pl.UInt8,
        "process": pl.UInt32,
        "thread": pl.UInt64,
        "depth": pl.UInt16,
        "start": pl.Int64,
        "dur": pl.Int64,
        "name": pl.String,
        "category": pl.String,
        "module": pl.String,
        "step": pl.Int64,
        "launch": pl.Int64,
    }
)


def timeline(measures: Measures, spans: pl.DataFrame, origin: int, most: int) -> dict[str, Any]:
    """Return the events, the slowest steps and the first of a run with too many.

    Args:
        measures: of the run.
        spans: of `spans`.
        origin: ns since the epoch that times are counted from.
        most: events.
    """
    events, notes = pl.concat([_spans(spans), _tasks(measures), _calls(measures)]), []
    if events.height > most:
        events, note = _chosen(events, measures, most)
        notes.append(note)
    lanes = events.select(_LANE).unique().sort(_LANE).with_row_index("row")
    events = events.join(lanes, on=_LANE, nulls_equal=True, maintain_order="left")
    events = events.sort("row", "start", "dur", descending=[False, False, True])
    start = events["start"] - origin
    same = (events["row"] == events["row"].shift(1)).fill_null(False)
    texts = {name: events[name].unique(maintain_order=True) for name in ("name", "category", "module")}
    begin = pl.select(pl.when(same).then(start - start.shift(1)).otherwise(start)).to_series()
    return {
        "count": events.height,
        "lanes": _named(measures, lanes),
        "names": texts["name"].to_list(),
        "categories": texts["category"].to_list(),
        "modules": texts["module"].to_list(),
        "notes": notes,
        "packed": packing.columns(
            {
                "start": begin,
                "dur": events["dur"].clip(lower_bound=0),
                "row": events["row"],
                "launch": _launched(events),
                **{name: _number(events[name], known) for name, known in texts.items()},
            }
        ),
    }


def spans(measures: Measures) -> pl.DataFrame:
    """Return the table `spans` with `module`: the module around an operator, null outside of all and where unknown.

    Args:
        measures: of the run.
    """
    table = listed.table("spans", measures)
    if measures.recording.again is not None:
        return table.with_columns(pl.lit(None, pl.String).alias("module"))
    own = measures.host_operators
    found = own if own.height else host_operators.calls(measures.spans)
    # of all operators, in the order of spans
    modules = measures.recording.names.gather(found["module"])
    is_operator = table["category"] == "op"
    row = pl.select(pl.when(is_operator).then(is_operator.cast(pl.UInt32).cum_sum() - 1)).to_series()
    return table.with_columns(modules.gather(row).alias("module"))


def operators(measures: Measures, spans: pl.DataFrame) -> pl.DataFrame:
    """Return operators by name, module around them and phase, the longest first; without these where not all are held.

    Args:
        measures: of the run.
        spans: of `spans`.
    """
    if measures.recording.again is not None:
        sums = listed.table("span_sums", measures).filter(pl.col("category") == "op").drop("category")
        empty = [pl.lit(None, pl.String).alias(name) for name in ("module", "phase")]
        return sums.with_columns(empty).sort("self", "name", descending=[True, False])
    own = spans.filter(pl.col("category") == "op")
    pieces = measures.pieces.sort("start_ns")
    phase = pieces["phase"].gather(intervals.locate(own["start"], pieces))
    by = ["name", "module", "phase"]
    sums = (
        own.with_columns(phase=phase)
        .group_by(by)
        .agg(
            pl.len().alias("count"),
            pl.col("dur").sum().alias("total"),
            pl.col("self").sum(),
            pl.col("dur").min().alias("min"),
            pl.col("dur").max().alias("max"),
        )
    )
    return sums.sort("self", *by, descending=[True, False, False, False])


def _spans(spans: pl.DataFrame) -> pl.DataFrame:
    return spans.select(
        (pl.col("category") == "op").cast(pl.UInt8).alias("kind"),
        *("process", "thread", "depth", "start", "dur", "name", "category", "module", "step"),
        pl.lit(None, pl.Int64).alias("launch"),
    ).cast(_EVENT)


def _tasks(measures: Measures) -> pl.DataFrame:
    """Return the kernels, and the copies of a device: both stand in streams."""
    kernels = listed.table("kernels", measures)
    host = pl.col("process")
    shown = kernels.select(
        pl.lit(STREAM).alias("kind"),
        host,
        pl.col("stream").alias("thread"),
        pl.lit(0).alias("depth"),
        *("start", "dur", "name"),
        pl.coalesce("part", pl.lit("kernel")).alias("category"),
        *("module", "step", "launch"),
    ).cast(_EVENT)
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
        *("step", "launch"),
    ).cast(_EVENT)
    # a profiler that tells of a copy among its kernels tells of it twice
    twice = ["thread", "start", "dur"]
    return pl.concat([shown, moved.join(shown.select(twice), on=twice, how="anti", nulls_equal=True)])


def _calls(measures: Measures) -> pl.DataFrame:
    """Return the calls of a device's driver, a row for each of its levels."""
    calls = listed.table("calls", measures)
    table = measures.steps.table
    step = table["number"].gather(intervals.locate(calls["start"], table)) if calls.height else calls["start"]
    return calls.select(
        pl.lit(CALLS).alias("kind"),
        pl.lit(measures.steps.process).alias("process"),
        "thread",
        pl.col("level").rank("dense").fill_null(1).alias("depth"),
        *("start", "dur", "name"),
        pl.lit("launch").alias("category"),
        pl.lit(None, pl.String).alias("module"),
        step.alias("step"),
        pl.lit(None, pl.Int64).alias("launch"),
    ).cast(_EVENT)


def _launched(events: pl.DataFrame) -> pl.Series:
    """Return for each event the number, from 1, of the event of the host that launched it; 0 where none is known.

    A launch is known by the moment when the call began; of several calls that began then it is the innermost.
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


def _number(values: pl.Series, known: pl.Series) -> pl.Series:
    numbered = pl.DataFrame({"value": known}).with_row_index("number")
    return pl.DataFrame({"value": values}).join(numbered, on="value", nulls_equal=True, maintain_order="left")["number"]


def _chosen(events: pl.DataFrame, measures: Measures, most: int) -> tuple[pl.DataFrame, str]:
    """Return the events of as many steps as there is room for, and a note."""
    sizes = events.group_by("step").len().drop_nulls("step")
    order = measures.steps.table.sort("duration_ns", descending=True).select(pl.col("number").alias("step"))
    first = order.filter(pl.col("step") == order["step"].min())
    ranked = pl.concat([first, order]).unique("step", maintain_order=True).join(sizes, on="step", maintain_order="left")
    kept = ranked.filter(pl.col("len").fill_null(0).cum_sum() <= most)["step"]
    chosen = events.filter(pl.col("step").is_in(kept.implode())).head(most)
    steps = ", ".join(str(step) for step in sorted(kept.to_list())[:20])
    return chosen, f"{chosen.height:,} of {events.height:,} events: those of the first and the slowest steps ({steps})."


def _named(measures: Measures, lanes: pl.DataFrame) -> list[dict[str, Any]]:
    threads = listed.table("threads", measures).unique(["process", "thread"])
    named = lanes.join(threads, on=["process", "thread"], how="left", maintain_order="left")
    return named.select("process", "thread", "depth", "kind", "name").to_dicts()
