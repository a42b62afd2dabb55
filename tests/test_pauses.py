"""Garbage collections in the steps are summed up for a store that is written by hand."""

import pytest
from ms_profiler.analysis.metrics import pauses, steps
from ms_profiler.analysis.readers import store as reader
from ms_profiler.store.format import Category
from store_builder import MS, StoreBuilder


def found(tmp_path, *collections):
    store = StoreBuilder(tmp_path)
    process = store.process()
    thread = process.thread()
    for number in range(3):
        thread.step(number, number * 10 * MS, (number + 1) * 10 * MS)
    for start, end in collections:
        thread.span("garbage collection, generation 2", Category.OTHER, start * MS, end * MS, arg=7)
    thread.span("something else", Category.OTHER, 0, 5 * MS)
    process.anchor(40 * MS)
    recording = reader.read(str(store.write()))
    return pauses.pauses(recording.spans, recording.names, steps.choose(recording), [1, 2])


def test_pauses_of_the_steps_add_up(tmp_path):
    # the first collection is in a step that was not chosen, the last one comes after the last step
    measured = found(tmp_path, (1, 9), (12, 17), (21, 22), (35, 39))
    assert (measured.count, measured.total_ns, measured.longest_ns, measured.step) == (2, 6 * MS, 5 * MS, 1)
    assert measured.share == pytest.approx(0.3)


def test_no_pause_is_none(tmp_path):
    assert found(tmp_path, (35, 39)) is None
