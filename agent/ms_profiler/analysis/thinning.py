"""Bring a recording that is too large to hold down to what its tables and its timeline can use.

Steps, phases and everything coarse are kept for the whole run. Of the fine-grained spans (modules, operators) those of
the first, the slowest and the last steps are kept, and the outermost modules of all, from which the forward phase
follows; what they were called and how long they took is summed up over all of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import polars as pl

from ms_profiler.analysis import tables
from ms_profiler.analysis.metrics import operators, steps
from ms_profiler.analysis.nesting import nest
from ms_profiler.store.format import CATEGORY_FINE, Category

#: fine-grained spans that are kept, about
KEPT: Final = 1_000_000

_FINE: Final = pl.col("category") >= CATEGORY_FINE


def thin(recording: tables.Recording, chosen: Sequence[int] | None = None) -> tables.Recording:
    """Return the recording with some of its fine-grained spans, and the sums of all of them.

    Args:
        recording: one that has not been read completely.
        chosen: step numbers to keep to; None for all.
    """
    if recording.again is None:
        return recording
    used = steps.choose(recording)
    if chosen is not None:
        used = steps.restrict(used, list(chosen))
    windows = kept_steps(used.recorded, recording.fine)
    thinner = _Thinner(windows.select("start_ns", "end_ns").sort("start_ns"))
    bounds = (used.table["start_ns"].min(), used.table["end_ns"].max()) if chosen is not None else (None, None)
    for batch in recording.again():
        thinner.add(
            batch if None in bounds else batch.filter(pl.col("start_ns") < bounds[1], pl.col("end_ns") > bounds[0])
        )
    coarse = recording.spans.select(tables.UNNESTED.names())
    return replace(
        recording,
        spans=nest(pl.concat([coarse, *thinner.kept])).select(tables.SPANS.names()),
        sums=operators.add_up(thinner.sums) if thinner.sums else None,
        again=None,
        detailed=windows["number"].sort().to_list(),
    )


def kept_steps(table: pl.DataFrame, fine: int, most: int = KEPT) -> pl.DataFrame:
    """Choose the steps whose fine-grained spans are kept: a third each of first, slowest and last ones.

    Args:
        table: recorded steps.
        fine: fine-grained spans in them.
        most: how many of these to keep, about; three steps at least.
    """
    third = max(int(most * table.height / max(fine, 1)) // 3, 1)
    slowest = table.sort("duration_ns", "number", descending=[True, False]).head(third)
    return pl.concat([table.head(third), slowest, table.tail(third)]).unique(maintain_order=True)


@dataclass
class _Thinner:
    """Takes the spans of a recording batch by batch.

    A batch ends anywhere, also inside a span. Those that reach beyond it are carried over, so that what follows finds
    what it stands in; they have been counted, and only what is inside them is still taken from their own time.
    """

    windows: pl.DataFrame
    kept: list[pl.DataFrame] = field(default_factory=list)
    sums: list[pl.DataFrame] = field(default_factory=list)
    _carried: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=tables.UNNESTED))

    def add(self, batch: pl.DataFrame) -> None:
        """Take one batch."""
        spans = nest(
            pl.concat([self._carried.with_columns(counted=pl.lit(True)), batch.with_columns(counted=pl.lit(False))])
        )
        timed = operators.self_times(spans).filter(_FINE)
        late = timed.filter("counted").select(
            "name",
            "category",
            pl.lit(0, pl.UInt64).alias("count"),
            pl.lit(0, pl.Int64).alias("total_ns"),
            pl.col("self_ns") - pl.col("duration_ns"),
            pl.lit(0, pl.Int64).alias("max_ns"),
        )
        self.sums = [operators.add_up([*self.sums, operators.sum_up(timed.filter(~pl.col("counted"))), late])]
        modules = nest(spans.filter(pl.col("category") == Category.MODULE).drop("depth", "parent"))
        fine = spans.filter(_FINE, ~pl.col("counted"))
        inside = _inside(fine["start_ns"], self.windows)
        outermost = modules.filter(pl.col("depth") == 0, ~pl.col("counted"))
        self.kept += [
            fine.filter(inside).select(tables.UNNESTED.names()),
            outermost.filter(~_inside(outermost["start_ns"], self.windows)).select(tables.UNNESTED.names()),
        ]
        latest = pl.col("start_ns").max().over("process", "thread", pl.col("category") == Category.OP)
        self._carried = spans.filter(pl.col("end_ns") > latest).select(tables.UNNESTED.names())


def _inside(times: pl.Series, windows: pl.DataFrame) -> pl.Series:
    """Tell for each time whether it is in one of the windows, which are sorted and do not overlap."""
    if windows.is_empty():
        return pl.repeat(False, len(times), eager=True)
    row = windows["start_ns"].search_sorted(times, side="right").cast(pl.Int64) - 1
    return (row >= 0) & (times < windows["end_ns"].gather(row.clip(lower_bound=0)))
