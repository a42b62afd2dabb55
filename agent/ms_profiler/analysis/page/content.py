"""What the page shows of a run: its summary, small tables, and the events of its timeline.

The summary is the content of summary.json, so that no figure of the page is computed a second time. Tables are those
that `ms-profiler sql` asks for. Times are ns since the first record of the run.
"""

from typing import Any, Final

import polars as pl

from ms_profiler.analysis import catalogue
from ms_profiler.analysis.metrics.measures import Measures
from ms_profiler.analysis.page import packing
from ms_profiler.analysis.writers import summary

VERSION: Final = 1
#: events of the timeline: a page of one million takes 12 MB
EVENTS_MOST: Final = 1_000_000
#: steps that are drawn one by one
STEPS_MOST: Final = 20_000
#: rows of a table
ROWS_MOST: Final = 2_000
#: values of a counter
VALUES_MOST: Final = 20_000
_TABLES: Final = {table.name: table for table in catalogue.TABLES}


def content(measures: Measures) -> dict[str, Any]:
    """Return what the page shows of a run.

    Args:
        measures: of the run.
    """
    origin = int(measures.recording.processes["first_ns"].min() or 0)  # type: ignore[arg-type]
    return {
        "summary": summary.summary(measures),
        "steps": _steps(measures, origin),
        "phases": _by_step(measures, "phases", "phase"),
        "bounds": _bounds(measures),
        "modules": _rows(_table(measures, "modules")),
        "operators": _rows(_sums(measures)),
        "kernels": _rows(_kernel_sums(measures)),
        "communication": _rows(_exchanges(measures)),
        "counters": _counters(measures, origin),
        "memory": _memory(measures, origin),
        "timeline": _timeline(measures, origin),
    }


def _table(measures: Measures, name: str) -> pl.DataFrame:
    return _TABLES[name].of(measures)


def _rows(table: pl.DataFrame, most: int = ROWS_MOST) -> dict[str, Any]:
    """Return a table by columns, and how many rows there are in all."""
    return {"count": table.height, "columns": table.head(most).to_dict(as_series=False)}


def _steps(measures: Measures, origin: int) -> dict[str, Any]:
    own = measures.steps
    table = own.table.select("number", pl.col("start_ns") - origin, pl.col("duration_ns"), "recorded")
    return _rows(table.sort("start_ns"), STEPS_MOST)


def _by_step(measures: Measures, name: str, kind: str) -> dict[str, Any]:
    """Return the time of each kind in each step: a column for each kind, most time first."""
    table = _table(measures, name).filter(pl.col("step").is_not_null())
    return _wide(table.group_by("step", kind).agg(pl.col("dur").sum()), "step", kind)


def _wide(sums: pl.DataFrame, step: str, kind: str) -> dict[str, Any]:
    if sums.is_empty():
        return {"count": 0, "columns": {}}
    order = sums.group_by(kind).agg(pl.col("dur").sum()).sort("dur", kind, descending=[True, False])[kind].to_list()
    wide = sums.pivot(kind, index=step, values="dur").sort(step).fill_null(0)
    return _rows(wide.select(pl.col(step).alias("step"), *order), STEPS_MOST)


def _bounds(measures: Measures) -> dict[str, Any]:
    parts = measures.diagnosis.parts
    if parts.is_empty():
        return {"count": 0, "columns": {}}
    numbers = measures.steps.table["number"]
    sums = parts.group_by("step", "part").agg(pl.col("duration_ns").sum().alias("dur"))
    return _wide(sums.with_columns(numbers.gather(sums["step"]).alias("step")), "step", "part")


def _sums(measures: Measures) -> pl.DataFrame:
    return (
        _table(measures, "span_sums").filter(pl.col("category") == "op").drop("category").sort("self", descending=True)
    )


def _kernel_sums(measures: Measures) -> pl.DataFrame:
    return _table(measures, "kernel_sums").sort("total", descending=True)


def _exchanges(measures: Measures) -> pl.DataFrame:
    table = _table(measures, "communication")
    # the sum of sizes that nobody knows is not 0
    known = pl.when(pl.col("bytes").is_not_null().all()).then(pl.col("bytes").sum())
    sums = table.group_by("name", "ranks").agg(
        pl.len().alias("count"),
        known.alias("bytes"),
        pl.col("dur").sum().alias("total"),
        pl.col("dur").max().alias("max"),
    )
    return sums.sort("total", "name", descending=[True, False])


def _thinned(table: pl.DataFrame) -> pl.DataFrame:
    """Return at most so many values of a curve: in each part of the time the largest, which peaks are."""
    if table.height <= VALUES_MOST:
        return table
    numbered = table.with_row_index("row")
    parts = numbered.with_columns(part=pl.col("row").cast(pl.Int64) * VALUES_MOST // table.height)
    largest = parts.sort("value", "row", descending=[True, False]).unique("part", keep="first", maintain_order=True)
    return largest.sort("row").drop("row", "part")


def _counters(measures: Measures, origin: int) -> dict[str, Any]:
    table = _table(measures, "counters").with_columns(pl.col("time") - origin)
    names = table.group_by("process", "name", maintain_order=True).len().select("process", "name").iter_rows()
    found = []
    for process, name in names:
        own = table.filter(pl.col("process") == process, pl.col("name") == name).sort("time")
        curve = _thinned(own.select("time", "value"))
        found.append({"process": process, "name": name, **curve.to_dict(as_series=False)})
    return {"curves": found}


def _memory(measures: Measures, origin: int) -> dict[str, Any]:
    table = _table(measures, "memory").select(
        pl.col("time") - origin, pl.col("allocated").alias("value"), pl.col("reserved")
    )
    return _thinned(table.sort("time")).to_dict(as_series=False)


def _timeline(measures: Measures, origin: int) -> dict[str, Any]:
    """Return the events of the timeline: rows of lanes, each of which holds events that do not overlap."""
    spans, kernels, notes = _host_events(measures), _device_events(measures), []
    events = pl.concat([spans, kernels], how="vertical")
    if events.height > EVENTS_MOST:
        events, note = _most_of(events, measures)
        notes.append(note)
    lanes = (
        events.select("lane_kind", "process", "thread", "depth")
        .unique()
        .sort("process", "lane_kind", "thread", "depth")
    )
    lanes = lanes.with_row_index("row")
    events = events.join(lanes, on=["lane_kind", "process", "thread", "depth"], nulls_equal=True, maintain_order="left")
    events = events.sort("row", "start", "dur", descending=[False, False, True])
    names = events["name"].unique(maintain_order=True)
    categories = events["category"].unique(maintain_order=True)
    modules = events["module"].unique(maintain_order=True)
    start = events["start"] - origin
    same = events["row"] == events["row"].shift(1)
    step = pl.select(pl.when(same.fill_null(False)).then(start - start.shift(1)).otherwise(start)).to_series()
    return {
        "count": events.height,
        "lanes": _lanes(measures, lanes),
        "names": names.to_list(),
        "categories": categories.to_list(),
        "modules": modules.to_list(),
        "notes": notes,
        "packed": {
            "start": packing.column(step),
            "dur": packing.column(events["dur"].clip(lower_bound=0)),
            "row": packing.column(events["row"]),
            "name": packing.column(_number(events["name"], names)),
            "category": packing.column(_number(events["category"], categories)),
            "module": packing.column(_number(events["module"], modules)),
        },
    }


def _number(values: pl.Series, known: pl.Series) -> pl.Series:
    numbered = pl.DataFrame({"value": known}).with_row_index("number")
    return pl.DataFrame({"value": values}).join(numbered, on="value", nulls_equal=True, maintain_order="left")["number"]


#: what a row of the timeline is of
_LANE: Final = ["lane_kind", "process", "thread", "depth"]
_EVENT: Final = pl.Schema(
    {
        "lane_kind": pl.UInt8,  # 0 spans of a thread, 1 its operators, 2 kernels of a stream
        "process": pl.UInt32,
        "thread": pl.UInt64,
        "depth": pl.UInt16,
        "start": pl.Int64,
        "dur": pl.Int64,
        "name": pl.String,
        "category": pl.String,
        "module": pl.String,
        "step": pl.Int64,
    }
)


def _host_events(measures: Measures) -> pl.DataFrame:
    spans = _table(measures, "spans")
    is_operator = pl.col("category") == "op"
    return spans.select(
        is_operator.cast(pl.UInt8).alias("lane_kind"),
        "process",
        "thread",
        "depth",
        "start",
        "dur",
        "name",
        "category",
        pl.lit(None, pl.String).alias("module"),
        "step",
    ).cast(_EVENT)


def _device_events(measures: Measures) -> pl.DataFrame:
    return (
        _table(measures, "kernels")
        .select(
            pl.lit(2).alias("lane_kind"),
            "process",
            pl.col("stream").alias("thread"),
            pl.lit(0).alias("depth"),
            "start",
            "dur",
            "name",
            pl.coalesce("part", pl.lit("kernel")).alias("category"),
            "module",
            "step",
        )
        .cast(_EVENT)
    )


def _most_of(events: pl.DataFrame, measures: Measures) -> tuple[pl.DataFrame, str]:
    """Return the events of as many steps as there is room for, the slowest and the first of them, and a note."""
    sizes = events.group_by("step").len().drop_nulls("step")
    order = measures.steps.table.sort("duration_ns", descending=True).select(pl.col("number").alias("step"))
    first = order.filter(pl.col("step") == order["step"].min())
    ranked = pl.concat([first, order]).unique("step", maintain_order=True).join(sizes, on="step", maintain_order="left")
    kept = ranked.filter(pl.col("len").fill_null(0).cum_sum() <= EVENTS_MOST)["step"]
    chosen = events.filter(pl.col("step").is_in(kept.implode())).head(EVENTS_MOST)
    steps = ", ".join(str(step) for step in sorted(kept.to_list())[:20])
    return chosen, f"{chosen.height:,} of {events.height:,} events: those of the first and the slowest steps ({steps})."


def _lanes(measures: Measures, lanes: pl.DataFrame) -> list[dict[str, Any]]:
    threads = _table(measures, "threads").unique(["process", "thread"])
    named = lanes.join(threads, on=["process", "thread"], how="left", maintain_order="left")
    return named.select("process", "thread", "depth", pl.col("lane_kind").alias("kind"), "name").to_dicts()
