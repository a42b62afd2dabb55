"""The figures of steps on a device are those computed by hand, in microseconds; comments show the sums."""

import csv

import pytest
from ascend_builder import AscendBuilder
from ms_profiler.analysis import catalogue
from ms_profiler.analysis.driver import engine

COLUMNS = ("Computing", "Communication", "Communication(Not Overlapped)", "Overlapped", "Free", "Stage", "Bubble")
EXCLUSIVE = "Communication(Not Overlapped and Exclude Receive)"


@pytest.fixture(params=["text", "database"])
def rows(request):
    """Return a function that writes and analyses a result, and returns {column: number} of each step."""

    def measure(builder):
        path = builder.text() if request.param == "text" else builder.database()
        engine.analyse([path])
        with (path / "ASCEND_PROFILER_OUTPUT" / "step_trace_time.csv").open() as stream:
            return [{name: float(value) for name, value in row.items()} for row in csv.DictReader(stream)]

    return measure


def values(row):
    return tuple(row[name] for name in COLUMNS)


def two_steps(folder, suffix):
    """Return two steps of 100 us; one kernel runs across the bound between them, and one beyond the second step's end.

    computing      10-30 40-60 90-115 | 120-150 190-230
    communication        50-70                160-180
    """
    builder = AscendBuilder(folder, suffix)
    builder.step(1, 0, 100)
    builder.step(2, 100, 200)
    builder.kernel("a", 10, 30, launch=5)
    builder.kernel("b", 40, 60, launch=20)
    builder.kernel("c", 90, 115, launch=80)
    builder.kernel("d", 120, 150, launch=110)
    builder.kernel("e", 190, 230, launch=180)
    builder.exchange("hcom_allReduce__077_0_1", 50, 70, launch=45)
    builder.exchange("hcom_allReduce__077_1_1", 160, 180, launch=155)
    return builder


def test_two_steps_by_launches(tmp_path, rows):
    first, second = rows(two_steps(tmp_path, "_ascend_pt"))
    # On the device, the first step is 10-115, from its first kernel's begin to its last one's end. Computing is 20 + 20
    # + 25, free time is 30-40 and 70-90, and the overlap is 50-60.
    assert (first["Step"], *values(first)) == (1, 65, 20, 10, 10, 30, 105, 0)
    # on the device, the second step is 120-230; 115-120 is in neither step
    assert (second["Step"], *values(second)) == (2, 70, 20, 20, 0, 20, 110, 0)
    assert (first["Preparing"], second["Preparing"]) == (10, 20)


def test_two_steps_by_the_clock_of_the_host(tmp_path, rows):
    first, second = rows(two_steps(tmp_path, "_ascend_ms"))
    # The whole kernel belongs to the step in which it starts. A stage reaches from the begin of the step's first
    # exchange to the end of its last.
    assert values(first) == (65, 20, 10, 10, 30, 20, 0)
    # the bound between the steps cuts free time: 115-120, 150-160 and 180-190
    assert values(second) == (70, 20, 20, 0, 25, 20, 0)
    assert (first["Preparing"], second["Preparing"]) == (10, 20)


def test_free_time_across_a_bound(tmp_path, rows):
    for suffix, free in (("_ascend_ms", (20, 30)), ("_ascend_pt", (50, 0))):
        builder = AscendBuilder(tmp_path / suffix, suffix)
        builder.step(1, 0, 100)
        builder.step(2, 100, 200)
        builder.kernel("a", 60, 80, launch=10)
        builder.kernel("b", 130, 150, launch=110)
        # nothing runs in 80-130: MindSpore cuts it at 100, the other tool gives it to the step in which it starts
        assert tuple(row["Free"] for row in rows(builder)) == free


@pytest.mark.parametrize(("suffix", "bubble"), [("_ascend_pt", 20), ("_ascend_ms", 25)])
def test_point_to_point(tmp_path, rows, suffix, bubble):
    builder = AscendBuilder(tmp_path, suffix)
    builder.step(7, 0, 100)
    builder.exchange("hcom_receive__001_0_1", 10, 30, launch=1)
    builder.exchange("hcom_send__001_1_1", 30, 35, launch=2)
    builder.kernel("a", 40, 80, launch=3)
    builder.exchange("hcom_allReduce__077_0_1", 70, 90, launch=4, group="88")
    (row,) = rows(builder)
    # communication is 10-35 and 70-90, and alone 10-35 and 80-90; free is 35-40; all of it is 10-90
    assert values(row) == (40, 45, 35, 10, 5, 80 - bubble, bubble)
    assert (row[EXCLUSIVE], row["Preparing"]) == (35 - bubble, 10)


@pytest.mark.parametrize("suffix", ["_ascend_pt", "_ascend_ms"])
def test_overlapping_streams_count_once(tmp_path, rows, suffix):
    builder = AscendBuilder(tmp_path, suffix)
    builder.step(0, 0, 100)
    builder.kernel("a", 10, 40, launch=1, stream=2)
    builder.kernel("b", 20, 60, launch=2, stream=3)
    builder.kernel("c", 25, 30, launch=3, stream=4)
    builder.kernel("d", 70, 80, launch=4, stream=2)
    builder.exchange("hcom_broadcast__001_0_1", 35, 75, launch=5)
    builder.exchange("hcom_broadcast__002_0_1", 50, 90, launch=6, group="88")
    (row,) = rows(builder)
    # computing is 10-60 and 70-80; communication is 35-90, and alone 60-70 and 80-90
    assert values(row)[:5] == (60, 55, 20, 35, 0)
    # PyTorch's stage is 10-90; MindSpore's ends with the exchange that starts last
    assert row["Stage"] == (80 if suffix == "_ascend_pt" else 55)


def test_a_kernel_waits_in_its_own_stream(tmp_path):
    """The vendor's table counts the wait since the last kernel of any stream.

    Our table counts it since the last kernel of the same stream.
    """
    builder = AscendBuilder(tmp_path, "_ascend_pt")
    builder.step(0, 0, 100)
    builder.kernel("a", 10, 20, launch=1, stream=2)
    builder.kernel("b", 30, 60, launch=2, stream=3)
    builder.kernel("c", 65, 70, launch=3, stream=2)
    measures = engine.measured(str(builder.text()))
    assert measures.stream.table.sort("start_ns")["wait_ns"].to_list() == [0, 10_000, 5_000]
    found = catalogue.named("kernels").of(measures).sort("start")
    assert found.select("name", "wait").rows() == [("a", 0), ("b", 0), ("c", 45_000)]


@pytest.mark.parametrize(("suffix", "stage"), [("_ascend_pt", 50), ("_ascend_ms", 0)])
def test_no_communication(tmp_path, rows, suffix, stage):
    builder = AscendBuilder(tmp_path, suffix)
    builder.step(3, 0, 100)
    builder.kernel("a", 10.5, 30, launch=1)
    builder.kernel("b", 40, 60.5, launch=2)
    (row,) = rows(builder)
    assert values(row) == (40, 0, 0, 0, 10, stage, 0)
    assert row["Preparing"] == 10.5


def test_communication_across_a_bound_leaves_the_other_step_less_than_none(tmp_path, rows):
    builder = AscendBuilder(tmp_path, "_ascend_ms")
    builder.step(1, 0, 100)
    builder.step(2, 100, 200)
    builder.exchange("hcom_allReduce__001_0_1", 80, 160)
    builder.kernel("a", 90, 120)
    first, second = rows(builder)
    # All 80 us of the exchange count in the first step. Alone, it is 80-90 in the first step and 120-160 in the second.
    assert values(first)[1:4] == (80, 10, 70)
    assert values(second)[1:4] == (0, 40, -40)


@pytest.mark.parametrize("suffix", ["_ascend_pt", "_ascend_ms"])
def test_without_steps_the_whole_run_is_one(tmp_path, rows, suffix):
    builder = AscendBuilder(tmp_path, suffix)
    builder.call("aten::mm", 5, 9)
    builder.kernel("a", 10, 30)
    builder.exchange("hcom_allReduce__001_0_1", 20, 50)
    (row,) = rows(builder)
    assert (row["Step"], *values(row)[:5]) == (0, 20, 30, 20, 10, 0)


def test_step_that_launched_nothing(tmp_path, rows):
    builder = two_steps(tmp_path, "_ascend_pt")
    builder.step(3, 300, 400)
    assert values(rows(builder)[2]) == (0, 0, 0, 0, 0, 0, 0)


def test_steps_without_launches_are_those_of_the_host(tmp_path, rows):
    builder = AscendBuilder(tmp_path, "_ascend_pt")
    builder.step(1, 0, 100)
    builder.step(2, 100, 200)
    builder.kernel("a", 10, 30)
    builder.kernel("b", 95, 130)
    builder.kernel("c", 140, 150)
    assert [values(row)[0] for row in rows(builder)] == [55, 10]
