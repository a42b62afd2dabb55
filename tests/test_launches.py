import random

import polars as pl
import pytest
from ms_profiler.analysis.metrics import launches


def queue(rows, *columns):
    kinds = {
        "spell": pl.UInt32,
        "key": pl.UInt32,
        "lane": pl.UInt32,
        "start_ns": pl.Int64,
        "row": pl.UInt32,
        "segment": pl.UInt32,
    }
    return pl.DataFrame(rows, schema={name: kinds[name] for name in columns}, orient="row")


def launched(kernels, operators):
    """Return for each kernel the row of the operator that queued it, None if that is unknown.

    Args:
        kernels: (spell, key, start) or (spell, key, start, segment) of each kernel.
        operators: the same of each operator, which has the rows 100, 101, ...
    """
    columns = ("spell", "key", "start_ns", "segment", "row")
    kernels, operators = (
        queue(
            [(spell, key, start, *(rest or [0]), row) for row, (spell, key, start, *rest) in enumerate(rows, 100)],
            *columns,
        )
        for rows in (kernels, operators)
    )
    kernels, operators = (table.with_columns(window=pl.lit(0, pl.Int64)) for table in (kernels, operators))
    return launches.match(kernels.drop("row").with_columns(lane=pl.lit(0, pl.UInt32)), operators).to_list()


@pytest.mark.parametrize(
    ("kernels", "operators", "expected"),
    [
        ([(0, 1, 20), (0, 1, 40)], [(0, 1, 10), (0, 1, 30)], [100, 101]),
        # The host ran ahead: it had queued all operators before the first kernel ran.
        ([(0, 1, 50), (0, 2, 60), (0, 1, 70)], [(0, 1, 10), (0, 2, 20), (0, 1, 30)], [100, 101, 102]),
        # The host was a step ahead: step 1 has as many kernels of each key as step 0 has operators.
        (
            [(1, 1, 150), (1, 2, 160), (2, 1, 250), (2, 2, 260), (2, 1, 270), (2, 2, 280)],
            [(0, 1, 10), (0, 2, 20), (1, 1, 110), (1, 2, 120), (2, 1, 210), (2, 2, 220)],
            [100, 101, 102, 103, 104, 105],
        ),
        # before the backward pass, key 1 has one kernel and one operator; after its begin, a second kernel without an
        # operator
        ([(0, 1, 20), (0, 9, 30, 1), (0, 1, 40, 1)], [(0, 1, 10)], [100, None, None]),
        # after the begin of the backward pass, key 1 has one kernel and one operator, so they belong together
        ([(0, 9, 10, 1), (0, 1, 40, 1)], [(0, 1, 35, 1)], [None, 100]),
        # key 1 has two kernels and one operator, so it is unknown which kernel the operator queued
        ([(0, 1, 20), (0, 1, 30), (0, 2, 40)], [(0, 1, 10), (0, 2, 35)], [None, None, 101]),
        # key 1 has two kernels and two operators, but its second kernel starts before the second operator
        ([(0, 1, 20), (0, 1, 22), (0, 2, 40)], [(0, 1, 10), (0, 1, 25), (0, 2, 35)], [None, None, 102]),
        # each step is matched alone: step 1 has two kernels for one operator; without a number, nothing is matched
        (
            [(0, 1, 20), (1, 1, 120), (1, 1, 130), (None, 1, 200)],
            [(0, 1, 10), (1, 1, 110), (None, 1, 190)],
            [100, None, None, None],
        ),
        # the operators were queued in another order than the kernels ran
        ([(0, 1, 20), (0, 2, 30)], [(0, 1, 15), (0, 2, 10)], [None, None]),
        ([], [(0, 1, 10)], []),
        ([(0, 1, 10)], [], [None]),
        ([(0, None, 10)], [(0, 1, 5)], [None]),
    ],
)
def test_kernels_find_the_span_that_queued_them(kernels, operators, expected):
    assert launched(kernels, operators) == expected


@pytest.mark.parametrize("seed", range(6))
def test_a_queue_at_random_is_found_again_or_not_known(seed):
    generator = random.Random(seed)
    operators, kernels, truth = [], [], []
    now = ran = 0
    for _ in range(300):
        now += generator.randrange(1, 20)
        step, key = now // 500, generator.randrange(4)
        operators.append((step, key, now))
        if key == 3 and generator.random() < 0.5:
            continue  # this operator queues no kernel
        ran = max(ran + 1, now + generator.randrange(30))
        kernels.append((ran // 500, key, ran))
        truth.append(99 + len(operators))
    found = launched(kernels, operators)
    assert all(row in (None, true) for row, true in zip(found, truth, strict=True))
    assert sum(row is not None for row in found) > len(found) // 5
