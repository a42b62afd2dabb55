"""A thread that trains beside the stepping thread is named, because the figures of steps lack its work."""

import json

import pytest
from ms_profiler.analysis.driver import engine
from ms_profiler.analysis.report import remarks
from ms_profiler.store import layout
from ms_profiler.store.format import Category
from store_builder import MS, StoreBuilder


@pytest.mark.parametrize(("updates", "named"), [(20, True), (0, False)], ids=["trains", "computes only"])
def test_a_second_training_is_named(tmp_path, updates, named):
    store = StoreBuilder(tmp_path, framework={"name": "torch", "device": "CPU"})
    process = store.process()
    small, big = process.thread(1, "small", 4711), process.thread(2, "big", 4712)
    for step in range(20):
        start = 10 * step * MS
        for thread in (small, big):
            thread.span("forward", Category.FORWARD, start, start + 4 * MS)
            thread.span("backward", Category.BACKWARD, start + 4 * MS, start + 7 * MS)
        small.span("SGD.step", Category.OPTIMIZER, start + 7 * MS, start + 8 * MS)
        if step < updates:
            # the script's own region lies around the step of the optimizer, and to clear gradients is no step
            big.span("update", Category.MARKER, start + 7 * MS, start + 9 * MS)
            big.span("SGD.step", Category.OPTIMIZER, start + 7 * MS, start + 9 * MS)
            big.span("SGD.step", Category.OPTIMIZER, start + 8 * MS, start + 9 * MS)
        big.span("zero_grad", Category.OPTIMIZER, start + 4 * MS, start + 5 * MS)
        small.step(step, start, start + 10 * MS)
    path = store.write()
    engine.analyse([path])
    summary = json.loads((path / layout.SUMMARY).read_text())
    expected = [{"thread": "big", "native_tid": 4712, "updates": 20, "ms": 180.0}] if named else []
    assert summary["other_trainings"] == expected
    lines = [line for line in remarks.head(summary) if "trains, too" in line]
    assert len(lines) == named
    assert all("The thread big trains, too: 20 steps of an optimizer, 180.0 ms." in line for line in lines)
