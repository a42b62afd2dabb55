"""The analysis finds the processes that make a data loader's batches, their time, and the script's slow functions."""

from types import SimpleNamespace

import polars as pl
import pytest
from ms_profiler.analysis.metrics import batch_makers
from ms_profiler.analysis.metrics.stack_samples import Stacks
from ms_profiler.analysis.model import tables
from ms_profiler.store.format import Category
from ms_profiler.store.names import FETCHED

MS = 1_000_000
NAMES = ["", FETCHED, "worker", "fetch", "/lib/python3/fetch.py", "blur", "/job/train.py", "helper"]
JOB, WORKER = 1, 2


def recorded(process, samples):
    """Return a recording in which a process makes ten batches; it works for 40 of each 50 ms."""
    spans = [(process, 1, 1, int(Category.DATA), 0, False, 50 * MS * at, 50 * MS * at + 40 * MS, 0) for at in range(10)]
    # the thread, the library's fetch, the script's `blur` at line 12, and its `helper` at line 30
    frames = [(process, 1, 0, 2, 0, 0, 0, 77), (process, 2, 1, 3, 4, 5, 6, 0)]
    frames += [(process, 3, 2, 5, 6, 10, 12, 0), (process, 4, 3, 7, 6, 28, 30, 0)]
    # and a second thread, which sends batches, with the function in which it waits
    frames += [(process, 5, 0, 2, 0, 0, 0, 78), (process, 6, 5, 3, 4, 5, 6, 0)]
    samples = [*samples, *((6, time) for _, time in samples)]
    taken = [(process, node, time * MS, time * MS, 1, 0) for node, time in samples]
    return SimpleNamespace(
        spans=pl.DataFrame(spans, schema=tables.UNNESTED, orient="row"),
        frames=pl.DataFrame(frames, schema=tables.FRAMES, orient="row"),
        samples=pl.DataFrame(taken, schema=tables.SAMPLES, orient="row"),
        threads=pl.DataFrame({"process": [process] * 2, "thread": [1, 2], "native_tid": [77, 78]}),
        calls=pl.DataFrame(schema=tables.CALLS),
        names=pl.Series(NAMES),
        processes=lives(spans),
    )


def lives(spans):
    """Return the table of processes that begin with their first span and end with their last one."""
    table = pl.DataFrame(spans, schema=tables.UNNESTED, orient="row")
    return table.group_by("process").agg(first_ns=pl.col("start_ns").min(), last_ns=pl.col("end_ns").max())


def found(process, samples, waits=()):
    recording = recorded(process, samples)
    waited = [(JOB, 1, 0, int(Category.DATA), 0, False, begin * MS, end * MS, 0) for begin, end in waits]
    recording.spans = pl.concat([recording.spans, pl.DataFrame(waited, schema=tables.UNNESTED, orient="row")])
    stacks = Stacks(recording, (tables.EARLIEST, tables.LATEST))
    used = SimpleNamespace(process=JOB, thread=1, table=pl.DataFrame({"start_ns": [0], "end_ns": [400 * MS]}))
    return batch_makers.makers(recording, used, lambda: stacks)


def test_the_slow_function_has_its_caller():
    # for each batch, four samples in the helper, one elsewhere and one between the batches
    inside = [(4, 50 * at + offset) for at in range(10) for offset in (1, 10, 20, 30)] + [
        (2, 50 * at + 35) for at in range(10)
    ]
    between = [(3, 50 * at + 45) for at in range(10)]
    makers = found(WORKER, inside + between)
    assert (makers.processes, makers.batches) == (1, 10)
    assert makers.mean_ns == 40 * MS
    assert makers.busy == pytest.approx(400 / 490)
    assert makers.slowest == "helper at /job/train.py:30, called from blur at /job/train.py:12"
    assert makers.share == pytest.approx(0.8)
    words, action = batch_makers.words(makers)
    assert not action
    assert words.startswith(
        "; the worker made a batch in 40.0 ms, busy with it 82 % of the time, 80 % of it in helper at"
    )


def test_without_samples_the_function_is_not_named():
    makers = found(JOB, [])
    assert batch_makers.words(makers)[0] == "; the job itself made a batch in 40.0 ms, busy with it 82 % of the time"
    assert batch_makers.words(None) == ("", "")


def made(*workers):
    """Return the figures of workers.

    Args:
        workers: pairs for the processes 2, 3, ...: start of the first batch, and times of all batches, in ms. The
            batches of a worker have no gaps.
    """
    rows = []
    for process, (start, lengths) in enumerate(workers, WORKER):
        for length in lengths:
            rows.append((process, 1, 1, int(Category.DATA), 0, False, start * MS, (start + length) * MS, 0))
            start += length
    recording = recorded(WORKER, [])
    recording.spans, recording.processes = pl.DataFrame(rows, schema=tables.UNNESTED, orient="row"), lives(rows)
    stacks = Stacks(recording, (tables.EARLIEST, tables.LATEST))
    used = SimpleNamespace(process=JOB, thread=1, table=pl.DataFrame({"start_ns": [0], "end_ns": [400 * MS]}))
    return batch_makers.makers(recording, used, lambda: stacks)


def test_a_slow_worker_is_named_beside_a_fast_one():
    """Two epochs have two workers each. In each epoch, one worker is slow."""
    makers = made((0, [100] * 10), (0, [1] * 999), (2000, [1] * 999), (2000, [100] * 10))
    assert (makers.processes, makers.together, makers.skew) == (4, 2, (100 * MS, MS))
    words, action = batch_makers.words(makers)
    assert words.startswith("; 2 workers at a time (4 processes in all) made a batch in")
    assert words.endswith("they differ: a batch takes 100.0 ms in one worker, 1.0 ms in another one (medians)")
    assert action.startswith("Find out why one worker is slower")


@pytest.mark.parametrize(
    "workers",
    [
        [(0, [100] * 10), (0, [60] * 16)],
        [(0, [100] * 10), (2000, [1] * 999)],
        [(0, [100] * 10), (0, [1] * 9)],
        [(0, [100] * 10), (0, [1] * 2)],
    ],
    ids=["alike", "other time", "short", "few"],
)
def test_workers_that_cannot_be_compared_do_not_differ(workers):
    assert made(*workers).skew is None


def test_uneven_batches_are_counted():
    makers = made((0, [1, 1, 1, 40] * 20))
    assert makers.long == (20, 40 * MS, MS)
    assert "; 20 of 80 batches took 40.0 ms or more, the others 1.0 ms (median)" in batch_makers.words(makers)[0]
    for lengths in ([10, 12, 14, 20] * 20, [1000, *[1] * 200], [1, 1, 1, 4] * 10, [5] * 3, [0] * 9):
        assert made((0, lengths)).long is None


def test_workers_are_the_limit_only_if_they_make_batches_while_the_job_waits():
    slow = found(WORKER, [], waits=[(0, 45), (60, 100)])
    assert (slow.during, batch_makers.limit(slow)) == (pytest.approx(70 / 85), True)
    # The last wait is after the steps.
    quick = found(WORKER, [], waits=[(38, 50), (88, 98), (400, 440)])
    assert (quick.during, batch_makers.limit(quick)) == (pytest.approx(4 / 22), False)
    assert batch_makers.words(quick)[1].startswith("Making batches is not the limit.")
    assert batch_makers.words(quick)[0].endswith("and in 18 % of the time in which the job waits for data")
    assert batch_makers.limit(found(JOB, [], waits=[(38, 50)]))
    assert batch_makers.limit(found(WORKER, []))
