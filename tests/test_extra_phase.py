"""Where longer steps spend more time is told from steps whose phases are recorded."""

from dataclasses import replace

import polars as pl
import pytest
from ms_profiler.analysis.metrics import extra_phase, phases
from ms_profiler.analysis.model import tables
from ms_profiler.store.format import Category, StepSource
from test_shifts import MS, made

#: number of steps, and the first one that waits longer for data
COUNT, CHANGE = 2_000, 1_500


def run(sampled, source):
    """Return steps as arguments of `extra_phase.where`. While hooks rest, only sampled steps have spans of phases.

    A step has a wait for data of 0.1 ms, or of 0.6 ms from step `CHANGE` on, and 1 ms of a forward pass.
    """
    lengths = [int(MS * (1.1 + 0.5 * (number >= CHANGE) + 0.3 * sampled(number))) for number in range(COUNT)]
    steps = replace(made(lengths, sampled), source=source)
    rows = []
    for number, (start, recorded) in enumerate(steps.table.select("start_ns", "recorded").iter_rows()):
        if recorded or source != StepSource.OPTIMIZER_CYCLE:
            wait = MS // 10 + MS // 2 * (number >= CHANGE)
            rows.append((Category.DATA, start, start + wait))
            rows.append((Category.FORWARD, start + wait, start + wait + MS))
    known = {"process": 1, "thread": 1, "name": 0, "flags": 0, "unfinished": False, "arg": 0, "depth": 0}
    spans = [
        known | {"parent": None, "category": int(category), "start_ns": begin, "end_ns": end}
        for category, begin, end in rows
    ]
    # the stepping thread runs all the time
    ends = steps.table["end_ns"].to_list()
    looks = pl.DataFrame([(1, 1, end, end, end, 0) for end in [0, *ends]], schema=tables.LOOKS, orient="row")
    return steps, pl.Series(range(COUNT)) >= CHANGE, pl.DataFrame(spans, schema=tables.SPANS), looks


@pytest.mark.parametrize("source", [StepSource.OPTIMIZER_CYCLE, StepSource.SCRIPT])
def test_the_phase_of_longer_steps_is_named_if_hooks_rest_in_most_of_them(source):
    found = extra_phase.where(*run(lambda number: number % 40 < 4, source))
    assert found["phase"] == phases.NAMES[Category.DATA] and found["outside"] is None


def test_nothing_is_said_of_steps_in_which_hooks_rest_if_too_few_longer_ones_are_sampled():
    found = extra_phase.where(*run(lambda number: number < 400 or number == 1_700, StepSource.OPTIMIZER_CYCLE))
    assert not any(found.values())
