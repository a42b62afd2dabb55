"""Reduce a recording that is too large for memory to the spans that metrics need.

Spans of modules and operators are called fine-grained, all other spans are coarse. Steps, phases and all coarse records
stay for the whole run. Fine-grained spans stay in the first, the slowest and the last steps, and in some between them:
slow steps alone would not tell from which step on a module takes longer. The outermost modules stay in all steps,
because the forward phase is computed from them. The sums by name cover all fine-grained spans.
"""

from dataclasses import dataclass, field, replace
from typing import Final

import polars as pl

from ms_profiler.analysis.driver.ahead import ahead
from ms_profiler.analysis.driver.progress import Progress, Stage
from ms_profiler.analysis.metrics import intervals, operators, sampling, steps
from ms_profiler.analysis.model import tables
from ms_profiler.analysis.streams.nesting import nest
from ms_profiler.store.format import CATEGORY_FINE, Category

#: approximate number of fine-grained spans that stay
KEPT: Final = 1_000_000
#: approximate number of tasks of a device that stay
TASKS: Final = 500_000
#: number of steps in a row that are kept together, of those between the first and the last ones
RUN: Final = 4

_FINE: Final = pl.col("category") >= CATEGORY_FINE
_COLUMNS: Final = tables.UNNESTED.names()


def thin(
    recording: tables.Recording, chosen: list[int] | None = None, progress: Progress | None = None
) -> tables.Recording:
    """Return the recording with some of its fine-grained spans, and with sums over all fine-grained spans.

    If a device has more than `TASKS` tasks, only the tasks of some steps stay.

    Args:
        recording: a recording whose fine-grained spans have not been read yet.
        chosen: step numbers to analyse; None for all.
        progress: called after each batch.
    """
    _thin_device(recording, chosen)
    if recording.again is None:
        return recording
    progress = progress or Progress(recording.directory, None)
    used = steps.choose(recording)
    within, fine = used.table, float(recording.fine)
    if chosen is not None:
        used = steps.restrict(used, chosen, recording.directory)
        fine *= used.table.height / max(within.height, 1)
        within = used.table
    start, end = within["start_ns"].min(), within["end_ns"].max()
    windows = kept_steps(used.recorded, fine)
    thinner, seen = _Thinner(windows, used, sampling.windows(used, recording.spans)), 0
    for batch in ahead(recording.again((tables.EARLIEST, tables.LATEST), False)):
        touching = (pl.col("start_ns") < end) & (pl.col("end_ns") > start)
        thinner.add(batch if chosen is None else batch.filter(touching))
        seen += batch.height
        progress.at(Stage.SUMMING, seen)
    coarse = recording.spans.select(_COLUMNS)
    return replace(
        recording,
        spans=nest(pl.concat([coarse, *thinner.detailed])).select(tables.SPANS.names()),
        sums=operators.add_up(thinner.sums) if thinner.sums else None,
        sums_by_place=thinner.sums[0] if thinner.sums else None,
        detailed=windows["number"].to_list(),
        whole_steps=windows["end_ns"].is_in(used.table["end_ns"].implode()).all(),
    )


def _thin_device(recording: tables.Recording, chosen: list[int] | None) -> None:
    """Choose which tasks of the device stay, and load the details of these tasks into the recording."""
    device = recording.device
    if device is None or device.whole is None or device.whole.details is None:
        return
    whole, details = device.whole, device.whole.details
    within = None
    if whole.runs.height > TASKS:
        used = steps.choose(recording)
        all_steps = used.recorded.height
        used = used if chosen is None else steps.restrict(used, chosen, recording.directory)
        within = kept_steps(used.recorded, whole.runs.height * used.recorded.height / max(all_steps, 1), TASKS)
    found = details(within)
    # the memory of tensors comes from counters of the host, so `details` does not know it
    memory = pl.concat([found.memory, device.memory]).sort("time_ns", maintain_order=True)
    whole = replace(whole, details=None)
    recording.device = replace(found, whole=whole, within=within, memory=memory, unread=device.unread)


def kept_steps(table: pl.DataFrame, fine: float, most: int = KEPT) -> pl.DataFrame:
    """Choose the intervals whose fine-grained spans stay in memory.

    The first, the slowest and the last steps each get a quarter of the spans, and so do runs of `RUN` steps in equal
    distances. If even three steps hold more than `most` spans, only the first part of each of them stays.

    Args:
        table: recorded steps.
        fine: number of fine-grained spans in these steps.
        most: approximate number of spans that may stay.

    Returns:
        `number`, `start_ns`, `end_ns`, sorted by start.
    """
    quarter = max(int(most * table.height / max(fine, 1)) // 4, 1)
    slowest = table.sort("duration_ns", "number", descending=[True, False]).head(quarter)
    every = -(-table.height // quarter)
    between = pl.int_range(pl.len()) // RUN % every == every // 2
    spread = table.filter(between) if quarter >= RUN else table.clear()
    parts = (table.head(quarter), slowest, table.tail(quarter), spread)
    chosen = pl.concat(parts).unique("start_ns").sort("start_ns")
    part = min(most / max(fine * chosen.height / max(table.height, 1), 1), 1.0)
    length = (pl.col("duration_ns") * part).cast(pl.Int64) if part < 1 else pl.col("duration_ns")
    return chosen.select("number", "start_ns", end_ns=pl.col("start_ns") + length)


@dataclass
class _Thinner:
    """Sums up the spans of a recording batch by batch, and keeps some of them.

    A batch may end while spans are open. These spans are carried over to the next batch, so that later spans are found
    inside of them. A carried span is not counted again. But spans inside of it reduce its self time.
    """

    windows: pl.DataFrame
    used: steps.Steps
    parts: pl.DataFrame
    detailed: list[pl.DataFrame] = field(default_factory=list)
    sums: list[pl.DataFrame] = field(default_factory=list)
    _carried: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=tables.UNNESTED))

    def add(self, batch: pl.DataFrame) -> None:
        """Add the spans of one batch."""
        spans = pl.concat([self._carried.with_columns(counted=pl.lit(True)), batch.with_columns(counted=pl.lit(False))])
        sums, still = operators.sums_of(spans.with_columns(sampling.places(spans, self.used, self.parts)))
        self.sums = [operators.add_up([*self.sums, sums.filter(_FINE)], ("place", "name", "category"))]
        inside = intervals.locate(batch["start_ns"], self.windows).is_not_null()
        modules = nest(spans.filter(pl.col("category") == Category.MODULE))
        outermost = modules.filter(pl.col("depth") == 0, ~pl.col("counted")).select(_COLUMNS)
        self.detailed += [
            batch.filter(_FINE, inside),
            outermost.filter(intervals.locate(outermost["start_ns"], self.windows).is_null()),
        ]
        self._carried = spans.filter(still).select(_COLUMNS)
