"""Find PyTorch's operators that exchange data with other ranks. They have the namespace `c10d`.

Such an operator hands an exchange to a backend such as gloo. It wakes a thread of the backend, and this thread often
takes the processor of the thread that runs the operator. So most of the operator's time has nothing to do with the
module whose gradient is exchanged, and nothing is computed in it.
"""

from typing import Final

import polars as pl

from ms_profiler.analysis.metrics import intervals
from ms_profiler.store.format import Category

#: prefix of the names of operators that hand an exchange to a backend such as gloo
PASSED: Final = "c10d::"


def operators(spans: pl.DataFrame, names: pl.Series) -> pl.Series:
    """Return for each span whether it is an operator that exchanges data.

    Args:
        spans: `name` (row of `names`), `category`.
        names: the names of the recording.
    """
    rows = names.str.starts_with(PASSED).fill_null(False).arg_true()
    return spans.select((pl.col("category") == int(Category.OP)) & pl.col("name").is_in(rows.implode())).to_series()


def uncalled(spans: pl.DataFrame, names: pl.Series) -> pl.DataFrame:
    """Return the operators that exchange data although no code of the script called the exchange.

    DistributedDataParallel exchanges gradients in this way, in its own C++ code.

    Args:
        spans: the spans of one thread, with the columns of `tables.SPANS`.
        names: the names of the recording.
    """
    found = spans.filter(operators(spans, names))
    called = intervals.union(spans.filter(pl.col("category") == int(Category.COMMUNICATION)))
    return found.filter(intervals.locate(found["start_ns"], called).is_null())
