"""The summary says how many calls of optimizers a step has, if a step is a cycle of several calls."""

import pytest
from ms_profiler.analysis.driver import engine
from ms_profiler.analysis.report import steps_line
from ms_profiler.analysis.writers import summary
from ms_profiler.store.format import Category, StepSource
from store_builder import MS, StoreBuilder


@pytest.fixture
def steps(tmp_path):
    """Return a function that writes steps with some calls in each, and returns `steps` of the summary."""

    def made(*calls):
        store = StoreBuilder(tmp_path)
        thread = store.process().thread()
        start = 0
        for number, names in enumerate(calls):
            begun = start
            for name in names:
                thread.span(name, Category.OPTIMIZER, start, start + MS)
                start += 2 * MS
            thread.step(number, begun, start, source=StepSource.OPTIMIZER_CYCLE)
        return summary.summary(engine.measured(str(store.write())))["steps"]

    return made


def test_calls_of_each_optimizer_are_counted(steps):
    each = ["SGD.step", "SGD.zero_grad"] * 5 + ["Adam.step", "Adam.zero_grad"]
    found = steps(*[each] * 12)
    assert found["cycle"] == {"SGD.step": 5, "Adam.step": 1}
    assert steps_line.source(found) == "optimizer cycle, each of 5 SGD.step and 1 Adam.step"


def test_a_step_with_one_call_of_each_optimizer_needs_no_words(steps):
    found = steps(*[["SGD.step", "Adam.step"]] * 12)
    assert found["cycle"] == {}
    assert steps_line.source(found) == "optimizer cycle"


def test_nothing_is_said_if_the_numbers_differ(steps):
    assert steps(*[["SGD.step"] * count for count in (1, 2, 3) * 4])["cycle"] == {}
