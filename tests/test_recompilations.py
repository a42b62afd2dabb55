"""The time of compilations is known in all steps, also in those that were not sampled."""

from dataclasses import replace

import polars as pl
from ms_profiler.analysis.metrics import recompilations
from ms_profiler.analysis.model import tables
from ms_profiler.store.format import Category
from test_shifts import MS, NO_SPANS, made


def test_compiling_counts_in_steps_that_were_not_sampled():
    steps = made([10 * MS] * 20, lambda number: number < 4 or number % 8 == 0)
    start = steps.table["start_ns"]
    own = {"process": steps.process, "thread": steps.thread, "category": int(Category.COMPILE), "name": 0}
    rows = [own | {"start_ns": start[row] + MS, "end_ns": start[row] + 3 * MS} for row in (0, 5, 8)]
    spans = pl.concat([NO_SPANS, pl.DataFrame(rows)], how="diagonal_relaxed")
    assert recompilations.times(spans, steps) == {0: 2 * MS, 5: 2 * MS, 8: 2 * MS}
    assert recompilations.known(steps).height == 20
    alone = steps.table.with_columns(content=pl.lit(tables.TIMES_ALONE, steps.table.schema["content"]))
    assert recompilations.known(replace(steps, table=alone)).is_empty()
