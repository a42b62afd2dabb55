"""The exchanges of a rank with others, whether the script, a compiled graph, or a framework's C++ code called them."""

from typing import TYPE_CHECKING, Final

import polars as pl

from ms_profiler.analysis.metrics import communication, intervals
from ms_profiler.analysis.model import tables
from ms_profiler.store.format import Category

if TYPE_CHECKING:
    from ms_profiler.analysis.metrics.measures import Measures

#: one row per exchange, by start
EXCHANGES: Final = pl.Schema(
    {
        "group": pl.String,  # the group of ranks, as its framework names it; empty where that is not known
        "operation": pl.String,  # in lower case, without underscores
        "bytes": pl.Int64,  # 0 where the size is not known
        "start_ns": pl.Int64,  # when the rank was ready for the exchange
        "end_ns": pl.Int64,
        "step": pl.Int64,  # number of the step, null outside of all steps
    }
)
#: the exchanges that the comparison of ranks needs
MARKED: Final = pl.Schema(
    [
        *EXCHANGES.items(),
        ("number", pl.Int64),  # place among the exchanges of the same operation and group, from 0
        ("place", pl.Int64),  # place among the exchanges of the same operation and group in the step, from 1
        ("count", pl.Int64),  # number of exchanges of the same operation and group in the step
    ]
)
#: pattern of the names that gloo gives the operations in its own threads
_GLOO: Final = "gloo:"
#: pattern of the names of NCCL's exchange kernels
_NCCL: Final = r"^nccl(?:Dev)?Kernel_([A-Za-z]+)"
_COLUMNS: Final = ["group", "operation", "bytes", *intervals.BOUNDS]


def exchanges(measures: "Measures") -> pl.DataFrame:
    """Return `EXCHANGES` of a rank.

    Args:
        measures: the measures of its run.
    """
    recording = measures.recording
    if recording.device is not None and recording.device.tasks["exchange"].any():
        found = _of_device(recording, recording.device)
    else:
        kernels = measures.calls.filter(pl.col("bytes") > 0).select("group", "operation", "bytes", *intervals.BOUNDS)
        called = _called(measures)
        found = _joined(called, _beside(measures)) if kernels.is_empty() or called.height > kernels.height else kernels
    kernel = pl.coalesce(pl.col("operation").str.extract(_NCCL), "operation")
    plain = kernel.str.to_lowercase().str.replace_all("_", "")
    found = found.with_columns(plain.alias("operation"), pl.col("group").fill_null("")).sort(*intervals.BOUNDS)
    table = measures.steps.table
    place = intervals.locate(found["start_ns"], table)
    return found.with_columns(table["number"].gather(place).alias("step")).select(EXCHANGES.names()).cast(EXCHANGES)


def marked(exchanges: pl.DataFrame) -> pl.DataFrame:
    """Return `MARKED`: the first exchange of each step, and the last exchange of each operation and group in the step.

    Args:
        exchanges: `EXCHANGES`.
    """
    kind, step = ["operation", "group"], pl.col("step")
    counted = exchanges.with_columns(
        number=pl.int_range(pl.len()).over(kind),
        place=pl.int_range(1, pl.len() + 1).over([*kind, "step"]),
        count=pl.len().over([*kind, "step"]),
        first=pl.int_range(pl.len()).over("step") == 0,
    )
    last = pl.col("place") == pl.col("count")
    return counted.filter(step.is_not_null(), pl.col("first") | last).select(MARKED.names()).cast(MARKED)


def _of_device(recording: tables.Recording, device: tables.Device) -> pl.DataFrame:
    """Return the exchanges that a device ran."""
    own = device.tasks.with_columns(bytes=pl.lit(0))
    if device.launches is not None:
        own = own.with_columns(device.launches["bytes"].fill_null(0))
    own = own.filter("exchange")
    names = pl.Series("operation", [communication.operation(name) for name in own["name"]], dtype=pl.String)
    return own.with_columns(names).select(_COLUMNS)


def _called(measures: "Measures") -> pl.DataFrame:
    """Return the exchanges that the script called in the stepping process."""
    found = communication.called(measures.recording, measures.steps)
    parts = found["call"].str.split_exact("@", 1).struct.rename_fields(["operation", "group"]).struct.unnest()
    return pl.concat([parts, found.select("bytes", *intervals.BOUNDS)], how="horizontal").drop_nulls("group")


def _beside(measures: "Measures") -> pl.DataFrame:
    """Return the exchanges that gloo ran in its own threads. Of these only the operation is known."""
    recording, steps = measures.recording, measures.steps
    rows = recording.names.str.starts_with(_GLOO).fill_null(False).arg_true()
    own = recording.spans.filter(
        pl.col("process") == steps.process,
        pl.col("category") == Category.COMMUNICATION,
        pl.col("name").is_in(rows.implode()),
    )
    names = recording.names.gather(own["name"]).str.strip_prefix(_GLOO)
    return own.select(names.alias("operation"), *intervals.BOUNDS).sort("start_ns")


def _joined(called: pl.DataFrame, beside: pl.DataFrame) -> pl.DataFrame:
    """Return the calls, each extended to the end of gloo's work for it, and gloo's exchanges without a call.

    gloo runs the calls of a group in their order, so a call belongs to gloo's first exchange of its operation that
    begins later.
    """
    kinds: dict[str, list[tuple[int, int]]] = {}
    for operation, start, end in beside.iter_rows():
        kinds.setdefault(operation.replace("_", "").lower(), []).append((start, end))
    places = dict.fromkeys(kinds, 0)
    ends, taken = [], set()
    for operation, start, end in called.sort("start_ns").select("operation", *intervals.BOUNDS).iter_rows():
        kind = operation.lower()
        own, place = kinds.get(kind, []), places.get(kind, 0)
        while place < len(own) and own[place][0] < start:
            place += 1
        places[kind] = place
        if place < len(own):
            taken.add((kind, place))
            places[kind] = place + 1
            end = max(end, own[place][1])
        ends.append(end)
    rest = [
        ("", kind, 0, *times)
        for kind, all_of_it in kinds.items()
        for place, times in enumerate(all_of_it)
        if (kind, place) not in taken
    ]
    asked = called.sort("start_ns").with_columns(pl.Series("end_ns", ends, dtype=pl.Int64))
    alone = pl.DataFrame(rest, {name: EXCHANGES[name] for name in _COLUMNS}, orient="row")
    return pl.concat([asked.select(_COLUMNS).cast(alone.schema), alone])
