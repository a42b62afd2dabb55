"""The time of a thread off its processor follows from samples of its processor time; times are in microseconds.

The expected values are computed by hand.
"""

import polars as pl
import pytest
from microseconds import US, shown
from ms_profiler.analysis.metrics import scheduling
from ms_profiler.analysis.model import tables
from ms_profiler.store import host_metrics


def cells(*rows):
    """Return the cells of a thread with the samples (time, event before, ran, waited)."""
    scaled = [(1, 1, *(None if value is None else value * US for value in row)) for row in rows]
    return scheduling.cells(pl.DataFrame(scaled, schema=tables.LOOKS, orient="row"), 1, 1)


def test_time_off_the_processor_lies_in_the_gap_and_before_it_only_where_that_is_too_short():
    found = cells((1000, 1000, 500, None), (3000, 2000, 1600, 100), (6000, 5500, 2600, 1000))
    assert shown(found) == [
        (1000, 2000, 0, 0),
        (2000, 3000, 900, 100),
        (3000, 5500, 1500, 750),
        (5500, 6000, 500, 250),
    ]


def test_a_wait_counted_late_is_divided_by_off_processor_time():
    found = cells((0, 0, 0, None), (1000, 0, 0, None), (4000, 1000, 0, 2000), (5000, 4000, 1000, None))
    assert shown(found) == [(0, 1000, 1000, 500), (1000, 4000, 3000, 1500), (4000, 5000, 0, 0)]


def test_without_schedstat_the_reason_of_a_wait_is_unknown():
    assert shown(cells((0, 0, 0, None), (1000, 0, 400, None))) == [(0, 1000, 600, None)]
    assert cells((0, 0, 0, None)).is_empty() and cells().is_empty()


def looks(*threads):
    """Return samples of threads at the begin and the end of 10 ms, from (process, thread, ran, waited)."""
    rows = [
        row
        for process, thread, ran, waited in threads
        for row in ((process, thread, 0, 0, 0, 0), (process, thread, 10_000 * US, 0, ran * US, waited * US))
    ]
    return pl.DataFrame(rows, schema=tables.LOOKS, orient="row")


NO_HOST = pl.DataFrame(schema=tables.HOST)
DURING = pl.DataFrame({"start_ns": [0], "end_ns": [10_000 * US]})


def test_the_part_of_steps_that_waited_for_a_processor():
    known = looks((1, 1, 5000, 4000), (2, 1, 1000, 2000))
    found = scheduling.crowd(known, NO_HOST, 1, 1, DURING, 2)
    assert found.queued == pytest.approx(0.4)
    # the other threads waited for 6 of the 12 ms in which they wanted a processor
    assert found.pressure == found.others == pytest.approx(0.5)
    assert found.busy
    half = pl.DataFrame({"start_ns": [0], "end_ns": [5000 * US]})
    assert scheduling.crowd(known, NO_HOST, 1, 1, half, 2).queued == pytest.approx(0.4)


def test_a_job_that_fills_the_processors_itself_is_no_busy_machine():
    found = scheduling.crowd(looks((1, 1, 9000, 1000), (2, 1, 8000, 2000)), NO_HOST, 1, 1, DURING, 2)
    assert found.pressure == pytest.approx(0.15) and not found.busy
    assert not scheduling.crowd(looks((1, 1, 1000, 9000)), NO_HOST, 1, 1, DURING, 2, threads=16).busy
    assert not scheduling.crowd(looks((1, 1, 9900, 100)), NO_HOST, 1, 1, DURING, 0).busy
    assert scheduling.crowd(looks(), NO_HOST, 1, 1, DURING, 2) == scheduling.Crowd(0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("own", "machine", "processors", "busy"),
    [(1.88, 1.9, 0, False), (1.88, 1.9, 2, False), (1.0, 1.9, 2, True), (1.0, 1.1, 2, False), (1.0, None, 2, True)],
)
def test_only_other_programs_make_a_machine_busy(own, machine, processors, busy):
    """Threads without samples, such as those of MindSpore's kernels, may fill the processors."""
    metrics = [(host_metrics.USER, own), *((metric, machine) for metric in host_metrics.BUSY[:1] if machine)]
    rows = [(1, metric.name, None, None, 0, 10_000 * US, value, metric.unit) for metric, value in metrics]
    host = pl.DataFrame(rows, schema=tables.HOST, orient="row")
    known = looks((1, 1, 7500, 2500))
    assert scheduling.crowd(known, host, 1, 1, DURING, processors).busy is busy


def test_the_processors_that_other_threads_of_the_process_use():
    """Process 1 uses 1.2 processors, of which its stepping thread uses 0.3; process 2 counts as a worker."""
    rows = [
        (process, metric.name, None, None, 0, 10_000 * US, value, metric.unit)
        for process, metric, value in (
            (1, host_metrics.USER, 1.1),
            (1, host_metrics.SYSTEM, 0.1),
            (2, host_metrics.USER, 5),
        )
    ]
    host = pl.DataFrame(rows, schema=tables.HOST, orient="row")
    known = looks((1, 1, 3000, 0), (1, 2, 100, 0), (2, 1, 5000, 0))
    found = scheduling.crowd(known, host, 1, 1, DURING, 2)
    assert (found.beside, found.workers) == (pytest.approx(0.9), pytest.approx(5))
    assert scheduling.crowd(known, NO_HOST, 1, 1, DURING, 2).beside == 0
    # without samples of the stepping thread, its own part is unknown
    assert scheduling.crowd(looks((2, 1, 5000, 0)), host, 1, 1, DURING, 2).beside == 0


def test_part_of_some_times_in_which_a_thread_waited_for_a_processor():
    first, second, none = (
        scheduling.cells(looks((1, 1, 5000, 4000), (1, 2, 1000, 9000)), 1, thread) for thread in (1, 2, 3)
    )
    half = pl.DataFrame({"start_ns": [0], "end_ns": [5000 * US]})
    assert scheduling.queued(first, half) == pytest.approx(0.4)
    assert scheduling.queued(second, half) == pytest.approx(0.9)
    assert scheduling.queued(none, half) == scheduling.queued(first, half.head(0)) == 0.0


def test_of_too_many_threads_those_with_the_most_samples_are_chosen(monkeypatch):
    known = pl.concat([looks((1, 1, 5000, 0)), looks((1, 2, 5000, 0)), *[looks((1, 3, 5000, 0))] * 2])
    assert scheduling.watched(known) == [(1, 1), (1, 2), (1, 3)]
    monkeypatch.setattr(scheduling, "THREADS_MOST", 2)
    assert scheduling.watched(known) == [(1, 1), (1, 3)]


def test_data_is_late_where_its_makers_wait_for_a_processor():
    def delayed(*threads):
        return scheduling.delayed(looks((1, 1, 5000, 0), *threads), 1, 1, DURING, DURING)

    # of two workers, one always waits, the other never does; with workers, threads of the process itself do not count
    assert delayed((1, 2, 0, 9000), (2, 1, 0, 6000), (2, 2, 0, 5000), (3, 1, 1000, 0)) == pytest.approx(0.5)
    assert delayed((1, 2, 0, 9000)) == pytest.approx(0.9)
    # the worker works twice as long as the stepping thread
    assert scheduling.delayed(looks((1, 1, 2000, 0), (2, 1, 4000, 6000)), 1, 1, DURING, DURING) == pytest.approx(0.5)
    assert delayed() == 0.0


def test_a_thread_that_is_off_its_processor_nearly_all_of_a_long_time_is_asleep():
    # Until 10 ms, the thread does not run. Until 20 ms, it runs half of the time. Until 30 ms, it waits for a
    # processor. Then it does not run for 1 ms.
    known = cells(
        (0, 0, 0, 0),
        (10_000, 0, 100, 0),
        (20_000, 10_000, 5100, 0),
        (30_000, 20_000, 5200, 9900),
        (31_000, 30_000, 5200, 0),
    )
    assert shown(scheduling.asleep(known)) == [(0, 10_000)]


def test_a_thread_that_slept_and_then_waited_for_a_processor_did_not_compute():
    # Until 10 ms, the thread sleeps, and it waits for a processor until 22 ms. Until 34 ms, it computes and sleeps.
    # Until 44 ms, it only waits for a processor.
    known = cells(
        (0, 0, 0, 0),
        (22_000, 0, 100, 12_000),
        (34_000, 22_000, 2100, 0),
        (44_000, 34_000, 2200, 9900),
    )
    assert shown(scheduling.idle(known)) == [(0, 22_000)]
    assert shown(scheduling.asleep(known)) == []
