"""Measure what it costs a training to start and end the workers of PyTorch's data loaders again and again.

Without `persistent_workers`, each iterator of a `DataLoader` starts its own worker processes, and ends them after its
last batch. A training makes an iterator for each epoch, and for each validation.
"""

from typing import Final, NamedTuple

import polars as pl

from ms_profiler.analysis.metrics import fetches, intervals
from ms_profiler.analysis.metrics.steps import Steps, stepping
from ms_profiler.analysis.model import tables
from ms_profiler.store.format import Category
from ms_profiler.store.names import DATA_WAIT, ITERATOR, WORKERS_END

#: fewest iterators with workers of their own that a training makes again and again
LEAST: Final = 3


class Starts(NamedTuple):
    """The iterators that started workers of their own during the training.

    Attributes:
        iterators: number of these iterators.
        create_ns: total time to create them.
        first_ns: sum of the waits for the first batch of each worker, less what these waits take with workers that
            are kept: the mean wait for a later batch each, or once the mean time to make a batch, if this is longer.
        end_ns: total time to end their workers.
        waits_ns: total of their waits for batches.
        share: sum of these times / time from the begin of the first step to the end of the last one.
    """

    iterators: int
    create_ns: int
    first_ns: int
    end_ns: int
    waits_ns: int
    share: float

    @property
    def most(self) -> bool:
        """Return whether most of the waits for batches are for the first batches of new workers."""
        return 2 * self.first_ns >= self.waits_ns


def found(recording: tables.Recording, used: Steps) -> Starts | None:
    """Return the iterators that started workers between the first and the last step; None if there are hardly any.

    Args:
        recording: the run.
        used: the steps in use.
    """
    if used.table.is_empty():
        return None
    first, last = int(used.table["start_ns"][0]), int(used.table["end_ns"][-1])
    data = stepping(recording.spans, used, Category.DATA).sort("start_ns")
    data = data.filter(pl.col("start_ns").is_between(first, last))
    data = data.with_columns(text=recording.names.gather(data["name"]), ns=pl.col("end_ns") - pl.col("start_ns"))
    made, ends = (data.filter(text=name).select("start_ns", "ns") for name in (ITERATOR, WORKERS_END))
    # the last wait of an iterator contains the end of its workers, and brings no batch
    waits = data.filter(pl.col("text").str.starts_with(DATA_WAIT)).with_row_index("row")
    ending = intervals.locate(ends["start_ns"], waits).drop_nulls()
    waits = waits.filter(~pl.col("row").is_in(ending.implode())).select("start_ns", "ns")
    # an iterator's waits follow its creation, and so does the end of its workers
    made = made.select("start_ns", made_at="start_ns", made_ns="ns")
    ends, waits = (each.join_asof(made, on="start_ns") for each in (ends, waits))
    begun = made.filter(pl.col("made_at").is_in(ends["made_at"].drop_nulls().implode()))
    if begun.height < LEAST:
        return None
    workers, made_in_ns = _workers(recording, used)
    place = pl.int_range(pl.len()).over("made_at")
    own = waits.filter(pl.col("made_at").is_in(begun["made_at"].implode())).with_columns(place=place)
    # each worker takes its time until its first batch; all later batches are made meanwhile
    later, firsts = own.filter(pl.col("place") >= workers), own.filter(pl.col("place") < workers)
    usual_ns = int(later["ns"].sum()) / max(later.height, 1) * firsts.height
    # an iterator of workers that are kept waits for its first batch, too, for as long as making it takes
    longer = max(int(firsts["ns"].sum()) - round(max(usual_ns, made_in_ns * begun.height)), 0)
    create, end = int(begun["made_ns"].sum()), int(ends["ns"].sum())
    share = (create + longer + end) / max(last - first, 1)
    return Starts(begun.height, create, longer, end, int(own["ns"].sum()), share)


def _workers(recording: tables.Recording, used: Steps) -> tuple[int, float]:
    """Return how many processes that made batches lived at the same time, and the mean time of a batch in ns."""
    apart = fetches.made(recording).filter(pl.col("process") != used.process)
    length = apart.select((pl.col("end_ns") - pl.col("start_ns")).mean()).item()
    return fetches.together(recording, apart), float(length or 0)
