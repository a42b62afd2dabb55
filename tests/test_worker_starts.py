"""The time that a training spends on starting and ending the workers of its data loaders."""

from types import SimpleNamespace

import polars as pl
import pytest
from ms_profiler.analysis.metrics import worker_starts
from ms_profiler.analysis.metrics.steps import Steps
from ms_profiler.store.format import Category, StepSource
from ms_profiler.store.names import FETCHED, ITERATOR, WORKERS_END

MS = 1_000_000
NAMES = pl.Series([ITERATOR, WORKERS_END, FETCHED, "wait for Samples"])
CREATE, END, FETCH, WAIT = range(4)
SCHEMA = {
    "process": pl.UInt32,
    "thread": pl.UInt32,
    "category": pl.UInt8,
    "name": pl.UInt32,
    "start_ns": pl.Int64,
    "end_ns": pl.Int64,
}


def look(waits, batch, epochs=6, ends=True, workers=2, apart=0):
    """Return what is found where each epoch creates an iterator in 20 ms, waits, trains 1 ms, and ends it in 10 ms.

    Args:
        waits: the waits for the batches of an epoch, ms.
        batch: how long each of the workers makes a batch, ms.
        epochs: number of epochs.
        ends: whether the workers end with their epoch.
        workers: number of workers of an epoch.
        apart: time from the first batch of a worker to that of the next one, ms.
    """
    rows, steps, lives, at = [], [], [], 0

    def add(name, length, process=1, since=None):
        begin = at if since is None else since
        rows.append((process, 1, int(Category.DATA), name, begin * MS, (begin + length) * MS))

    for epoch in range(epochs):
        add(CREATE, 20)
        at += 20
        for worker in range(workers):
            process = 100 + workers * epoch + worker
            add(FETCH, batch, process, at + apart * worker)
            lives.append((process, at * MS, (at + sum(waits)) * MS))
        for wait in waits:
            add(WAIT, wait)
            steps.append((at * MS, (at + wait + 1) * MS))
            at += wait + 1
        add(WAIT, 11 if ends else 1)
        if ends:
            add(END, 10, since=at + 1)
        at += 11
    spans = pl.DataFrame(rows, schema=SCHEMA, orient="row")
    table = pl.DataFrame(steps, schema=["start_ns", "end_ns"], orient="row")
    known = {"process": pl.UInt32, "first_ns": pl.Int64, "last_ns": pl.Int64}
    processes = pl.DataFrame(lives, schema=known, orient="row")
    recording = SimpleNamespace(spans=spans, names=NAMES, processes=processes)
    return worker_starts.found(recording, Steps(1, 1, StepSource.SCRIPT, table))


@pytest.mark.parametrize(
    ("waits", "batch", "first"),
    [
        ([35, 5, 1, 1], 2, 38),  # two first batches take 40 ms, later ones 1 ms each
        ([60, 0, 60, 0, 60, 0], 60, 0),  # workers that are kept would wait as long for their first batches
        ([80, 0, 60, 0, 60, 0], 60, 20),
    ],
)
def test_only_what_kept_workers_would_save_counts(waits, batch, first):
    found = look(waits, batch)
    # the first epoch's iterator is created before the first step, and the last epoch's ends after the last step
    assert found.iterators == 4
    assert found.first_ns == 4 * first * MS
    assert (found.create_ns, found.end_ns) == (4 * 20 * MS, 5 * 10 * MS)
    whole = 6 * (20 + sum(waits) + len(waits) + 11) - 20 - 11
    assert found.share == pytest.approx((4 * (20 + first) + 50) / whole)


def test_a_worker_that_has_made_its_batches_before_the_other_one_begins_lives_beside_it():
    assert look([20, 20, 1, 1], 2, apart=10).first_ns == look([20, 20, 1, 1], 2).first_ns == 4 * 38 * MS


def test_workers_that_are_kept_and_few_iterators_are_no_finding():
    assert look([35, 5, 1, 1], 2, ends=False) is None
    assert look([35, 5, 1, 1], 2, epochs=4) is None
