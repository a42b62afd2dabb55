"""The growth of the memory of tensors is found exactly; its owner is named, or reported as unknown."""

import polars as pl
import pytest
from ms_profiler.analysis.metrics import tensor_growth
from ms_profiler.analysis.metrics.steps import Steps
from ms_profiler.analysis.metrics.tensor_owners import OWNED
from ms_profiler.analysis.model import tables
from ms_profiler.store.format import StepSource

MB = 1 << 20
MS = 1_000_000
COUNT = 40


def steps():
    rows = [(1, 1, number, number * MS, (number + 1) * MS, 1, True, "all", 0) for number in range(COUNT)]
    table = pl.DataFrame(rows, schema=tables.STEPS, orient="row")
    return Steps(1, 1, StepSource.SCRIPT, table.with_columns(duration_ns=pl.lit(MS, pl.Int64)))


class Recorded:
    """A recording of tensors with the given MB at the end of each step, and 50 MB more in its middle."""

    def __init__(self, held):
        rows = []
        for number, size in enumerate(held):
            for part, more in ((0.5, 50 * MB), (0.9, 0)):
                rows.append((1, round((number + part) * MS), round(size * MB) + more, None, None))
        self.places, self.names = pl.DataFrame(schema=tables.BLOCK_PLACES), pl.Series(["", "keep", "/job/train.py"])
        self.tensors = pl.DataFrame(rows, schema=tables.MEMORY, orient="row")


def found(held):
    return tensor_growth.found(Recorded(held), steps(), [])


def test_a_small_leak_is_found_to_the_byte():
    leak = found([100 + 0.25 * step for step in range(COUNT)])
    assert leak.tensors
    assert leak.per_step == pytest.approx(MB / 4)


@pytest.mark.parametrize(
    "held",
    [
        [100.0] * COUNT,
        [100 + 2 * min(step, 12) for step in range(COUNT)],
        [100 + 50 * (1 - 0.8**step) for step in range(COUNT)],
        [100 + (step % 7) for step in range(COUNT)],
        [100 + (50 if step > 25 else 0) for step in range(COUNT)],
    ],
    ids=["flat", "plateau", "settles", "saw", "once"],
)
def test_a_plateau_is_no_leak(held):
    assert found(held) is None


def blocks(*rows):
    """Return a table of blocks from rows (operator, module, phase, step, steps until its release or None, bytes)."""
    table = []
    for place, (operator, module, phase, step, until, size) in enumerate(rows):
        times = round((step + 0.5) * MS), None if until is None else round((step + until) * MS)
        table.append((1, 1, 64 * place, size, *times, 0, 0, operator, phase, module, "other"))
    return pl.DataFrame(table, schema={**tables.BLOCKS, **OWNED}, orient="row")


LEAK = found([100 + step for step in range(COUNT)])


def test_the_operator_that_takes_memory_in_each_step_is_the_owner():
    kept = [("aten::clone", "Net.blocks.3", "forward", step, None, MB) for step in range(COUNT)]
    activations = [("aten::addmm", "Net.blocks.1", "forward", step, 0.8, 50 * MB) for step in range(COUNT)]
    gradients = [("aten::mm", "Net.blocks.1", "backward", step, 1.2, 50 * MB) for step in range(COUNT)]
    once = [("aten::ones", None, None, 20, None, 500 * MB)]
    owner = tensor_growth.owner(blocks(*kept, *activations, *gradients, *once), LEAK, steps(), Recorded([]))
    assert (owner.operator, owner.module, owner.phase) == ("aten::clone", "Net.blocks.3", "forward")
    assert owner.per_step == pytest.approx(MB)
    assert owner.share == 1
    words = tensor_growth.words(LEAK, lambda: blocks(*kept), steps(), Recorded([]))
    assert "100 % of it was allocated by aten::clone in Net.blocks.3 (forward)" in words


def test_without_such_an_operator_the_owner_is_not_known():
    activations = [("aten::addmm", "Net.blocks.1", "forward", step, 0.8, 50 * MB) for step in range(COUNT)]
    assert tensor_growth.owner(blocks(*activations), LEAK, steps(), Recorded([])) is None
    assert "is unknown" in tensor_growth.words(LEAK, lambda: blocks(*activations), steps(), Recorded([]))
    assert tensor_growth.words(None, lambda: blocks(*activations), steps(), Recorded([])) == ""


def test_the_line_of_the_script_is_named_where_it_was_recorded():
    kept = [("aten::clone", None, None, step, None, MB) for step in range(COUNT)]
    table = blocks(*kept)
    recording = Recorded([])
    rows = [
        (1, table["address"][20], table["allocated_ns"][20], depth, 1, 2, line) for depth, line in ((0, 41), (1, 7))
    ]
    recording.places = pl.DataFrame(rows, schema=tables.BLOCK_PLACES, orient="row")
    words = tensor_growth.words(LEAK, lambda: table, steps(), recording)
    assert words.endswith("aten::clone, called from keep at /job/train.py:41")
