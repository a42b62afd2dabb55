"""Once the job's own steps are known, the reader drops the steps that the job guessed."""

import polars as pl
import pytest
from ms_profiler.analysis.columns.slots import SLOTS
from ms_profiler.analysis.readers import guesses
from ms_profiler.store.format import Kind, StepSource

NETWORK, DATASET, OPTIMIZER, SCRIPT = (
    StepSource.NETWORK_CALL,
    StepSource.DATASET,
    StepSource.OPTIMIZER_CYCLE,
    StepSource.SCRIPT,
)


def table(*rows):
    columns = {"category": [source for _, source in rows], "thread": [thread for thread, _ in rows]}
    filled = {name: columns.get(name, [int(Kind.STEP)] * len(rows)) for name in SLOTS}
    return pl.DataFrame(filled, schema=SLOTS)


@pytest.mark.parametrize(
    ("sources", "kept"),
    [
        ([NETWORK, NETWORK], [NETWORK, NETWORK]),
        ([NETWORK, NETWORK, OPTIMIZER, OPTIMIZER], [OPTIMIZER, OPTIMIZER]),
        ([NETWORK, DATASET, OPTIMIZER], [OPTIMIZER]),
        ([NETWORK, DATASET], [NETWORK, DATASET]),
        ([NETWORK, SCRIPT, OPTIMIZER], [NETWORK, SCRIPT, OPTIMIZER]),
        ([NETWORK, SCRIPT, NETWORK, OPTIMIZER], [NETWORK, SCRIPT, OPTIMIZER]),
        ([], []),
    ],
)
def test_guesses_before_training_are_left_out(sources, kept):
    found = guesses.settled(table(*((1, source) for source in sources)))
    assert found["category"].to_list() == kept


def test_each_thread_is_its_own():
    found = guesses.settled(table((1, NETWORK), (2, NETWORK), (2, OPTIMIZER)))
    assert found.select("thread", "category").rows() == [(1, NETWORK), (2, OPTIMIZER)]
