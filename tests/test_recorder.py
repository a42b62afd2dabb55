"""Sessions, spans and events work in every recorder: native or Python, mapped or written."""

import sys
import threading
import time

import pytest
from ms_profiler.job.recorder import create
from recorders import finish, run_thread
from store_check import ABANDONED, COUNTER, INSTANT, OPEN, OPERANDS, RAISED, SPAN, STEP, UNRECORDED, read_store

pytest_plugins = ["recorder_fixtures"]


class TestLifecycle:
    def test_nothing_happens_before_open_and_after_close(self, recorder, folder):
        def use():
            name = recorder.intern("x")
            assert recorder.begin(name, 1) == 0
            recorder.end(0)
            recorder.end(1234567)
            recorder.instant(name, 1)
            recorder.counter(name, 1.5)
            assert recorder.record(SPAN, 1, 0, name, 1, 2, 3) is False
            recorder.anchor()
            recorder.thread_name("x")
            recorder.close()

        use()
        recorder.open(str(folder))
        recorder.end(recorder.begin(recorder.intern("y"), 1))
        recorder.close()
        before = {path.name: path.read_bytes() for path in folder.iterdir()}
        use()
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
        assert recorder.stats().records == 1

    def test_open_says_why_it_cannot(self, recorder, folder):
        with pytest.raises(FileNotFoundError):
            recorder.open(str(folder / "missing"))
        (folder / "file").touch()
        with pytest.raises(NotADirectoryError):
            recorder.open(str(folder / "file"))
        (folder / "file").rename(folder / "000000.seg")
        with pytest.raises(FileExistsError):
            recorder.open(str(folder))
        assert recorder.begin(recorder.intern("x"), 1) == 0

    def test_it_follows_no_link(self, recorder, folder, tmp_path):
        (folder / "000000.seg").symlink_to(tmp_path / "elsewhere")
        with pytest.raises(OSError, match="exists"):
            recorder.open(str(folder))
        assert not (tmp_path / "elsewhere").exists()

    def test_a_second_open_closes_the_first(self, recorder, tmp_path):
        stores = [tmp_path / "first", tmp_path / "second"]
        token = 0
        for number, path in enumerate(stores):
            path.mkdir()
            recorder.open(str(path))
            recorder.end(token)  # the token of the first store has no effect
            recorder.end(recorder.begin(recorder.intern("in both"), 1, number))
            token = recorder.begin(recorder.intern("left open"), 1, number)
        recorder.close()
        for number, path in enumerate(stores):
            records = read_store(path).records
            assert [(record.name, record.arg) for record in records] == [("in both", number), ("left open", number)]
            assert {record.kind for record in records} == {SPAN}

    def test_a_relative_folder_survives_a_change_of_directory(self, recorder, folder, monkeypatch):
        monkeypatch.chdir(folder.parent)
        recorder.open(folder.name, first_slots=16)
        monkeypatch.chdir("/")
        for _ in range(1000):
            recorder.end(recorder.begin(recorder.intern("x"), 1))
        assert len(finish(recorder, folder).spans("x")) == 1000

    def test_the_calling_thread_ends_its_spans_at_close(self, recorder, folder):
        recorder.open(str(folder))
        for _ in range(3):
            recorder.begin(recorder.intern("open"), 1)
        store = finish(recorder, folder)
        assert [(record.kind, record.flags) for record in store.records] == [(SPAN, 0)] * 3

    def test_another_threads_spans_stay_open_at_close(self, recorder, folder):
        recorder.open(str(folder))
        begun, closed = threading.Event(), threading.Event()

        def work():
            token = recorder.begin(recorder.intern("open"), 1)
            begun.set()
            closed.wait(10)
            recorder.end(token)
            recorder.end(recorder.begin(recorder.intern("too late"), 1))

        thread = threading.Thread(target=work)
        thread.start()
        assert begun.wait(10)
        recorder.close()
        closed.set()
        thread.join()
        store = finish(recorder, folder)
        assert [(record.name, record.kind) for record in store.records] == [("open", OPEN)]

    def test_create_gives_the_native_one(self):
        recorder, reason = create()
        assert (recorder.kind, reason) == ("native", "")
        recorder, reason = create(prefer_native=False)
        assert (recorder.kind, reason) == ("python", "not requested")

    def test_create_says_why_the_native_one_is_not_in_use(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "ms_profiler.job.recorder.native", None)
        recorder, reason = create()
        assert recorder.kind == "python"
        assert "ms_profiler.job.recorder.native" in reason
        assert "\n" not in reason

    def test_a_python_without_gil_does_not_load_the_native_one(self, monkeypatch):
        monkeypatch.delitem(sys.modules, "ms_profiler.job.recorder.native")
        monkeypatch.setattr(sys, "abiflags", "t")
        recorder, reason = create()
        assert recorder.kind == "python"
        assert "does not load" in recorder.connect_operators(b"", 0, 0, 0, 0, 0)
        assert "free-threaded" in reason


class TestSpans:
    def test_nesting(self, recorder, folder):
        recorder.open(str(folder))
        names = [recorder.intern(text) for text in ("outer", "middle", "inner")]
        before = recorder.now()
        tokens = [recorder.begin(name, category, 7) for category, name in enumerate(names)]
        for token in reversed(tokens):
            recorder.end(token)
        after = recorder.now()
        outer, middle, inner = finish(recorder, folder).records
        assert [record.name for record in (outer, middle, inner)] == ["outer", "middle", "inner"]
        assert [record.category for record in (outer, middle, inner)] == [0, 1, 2]
        times = [outer.start, middle.start, inner.start, inner.end, middle.end, outer.end]
        assert before <= times[0]
        assert times == sorted(times)
        assert times[-1] <= after
        assert {record.kind for record in (outer, middle, inner)} == {SPAN}
        assert {record.arg for record in (outer, middle, inner)} == {7}

    def test_flags_and_large_values(self, recorder, folder):
        recorder.open(str(folder))
        name = recorder.intern("x")
        recorder.end(recorder.begin(name, 0x41, 2**64 - 1), RAISED)
        recorder.end(recorder.begin(name, 255, -1), 0)
        recorder.end(recorder.begin(name, 0, 2**64 + 5), 0)
        records = finish(recorder, folder).records
        assert [(record.arg, record.category, record.flags) for record in records] == [
            (2**64 - 1, 0x41, RAISED),
            (2**64 - 1, 255, 0),
            (5, 0, 0),
        ]

    def test_an_outer_end_abandons_the_spans_inside(self, recorder, folder):
        recorder.open(str(folder))
        name = recorder.intern("x")
        outer, middle, inner = (recorder.begin(name, 1, number) for number in range(3))
        recorder.end(outer, RAISED)
        recorder.end(inner)
        recorder.end(middle)
        records = finish(recorder, folder).records
        assert [record.flags for record in records] == [RAISED, ABANDONED, ABANDONED]
        assert len({record.end for record in records}) == 1

    def test_tokens_work_once(self, recorder, folder):
        recorder.open(str(folder))
        name = recorder.intern("x")
        used = recorder.begin(name, 1, 1)
        recorder.end(used)
        running = recorder.begin(name, 1, 2)
        recorder.end(used)  # `running` has its place now
        recorder.end(0)
        recorder.end(running + 1)
        recorder.end(2**31 - 1)
        recorder.instant(name, 1)
        recorder.end(running)
        first, second, instant = finish(recorder, folder).records
        assert second.end >= instant.start
        assert (first.flags, second.flags) == (0, 0)

    def test_tokens_of_another_thread_are_refused(self, recorder, folder):
        recorder.open(str(folder))
        name = recorder.intern("x")
        token = recorder.begin(name, 1, 1)

        def work():
            mine = recorder.begin(name, 1, 2)
            recorder.end(token)
            recorder.instant(name, 1)
            recorder.end(mine)

        run_thread(work)
        recorder.instant(name, 2)
        recorder.end(token)
        records = finish(recorder, folder).records
        ends = {record.arg: record.end for record in records if record.kind == SPAN}
        times = {record.category: record.start for record in records if record.kind == INSTANT}
        assert ends[2] >= times[1]
        assert ends[1] >= times[2]

    def test_interleaved_spans_of_generators(self, recorder, folder):
        recorder.open(str(folder))

        def work(name):
            token = recorder.begin(recorder.intern(name), 1)
            try:
                yield
            finally:
                recorder.end(token)

        first, second = work("first"), work("second")
        next(first)
        next(second)
        first.close()
        third = work("third")
        next(third)
        second.close()  # was closed with the first, must not end the third
        recorder.instant(recorder.intern("mark"), 1)
        third.close()
        store = finish(recorder, folder)
        (mark,) = store.named("mark")
        flags = {record.name: record.flags for record in store.records}
        assert flags == {"first": 0, "second": ABANDONED, "third": 0, "mark": 0}
        assert store.spans("third")[0].end >= mark.start

    def test_depth(self, recorder, folder):
        recorder.open(str(folder))
        name = recorder.intern("x")
        tokens = [recorder.begin(name, 1, depth) for depth in range(520)]
        assert all(tokens[:512])
        assert tokens[512:] == [0] * 8
        for token in reversed(tokens):
            recorder.end(token)
        assert recorder.begin(name, 1, 1000) > 0
        store = finish(recorder, folder)
        assert [record.arg for record in store.records] == [*range(512), 1000]
        assert {record.flags for record in store.records} == {0}
        assert (store.dropped, store.dropped_limit) == (8, 0)

    def test_a_span_may_last_longer_than_its_segment(self, recorder, folder):
        recorder.open(str(folder), first_slots=8)
        name = recorder.intern("x")
        outer = recorder.begin(name, 1, 1)
        for _ in range(3000):
            middle = recorder.begin(name, 1, 2)
            for _ in range(3):
                recorder.end(recorder.begin(name, 1, 3))
            recorder.end(middle)
        recorder.end(outer)
        store = finish(recorder, folder)
        assert [sum(record.arg == value for record in store.spans()) for value in (1, 2, 3)] == [1, 3000, 9000]
        assert len(store.records) == 12001
        assert max(record.end for record in store.records) == store.records[0].end

    def test_cost(self, recorder, folder):
        recorder.open(str(folder))
        token = recorder.begin(recorder.intern("x"), 1)
        assert 10 < recorder.span_cost() < 1e7
        assert recorder.stats().records == 1
        recorder.end(token)
        assert len(finish(recorder, folder).records) == 1


class TestEvents:
    def test_instants_and_counters(self, recorder, folder):
        recorder.open(str(folder))
        before = recorder.now()
        recorder.instant(recorder.intern("mark"), 13, 42)
        for value in (0.1, -3, float("inf"), 2**53):
            recorder.counter(recorder.intern("memory"), value)
        after = recorder.now()
        mark, *counters = finish(recorder, folder).records
        assert (mark.kind, mark.category, mark.arg, mark.name) == (INSTANT, 13, 42, "mark")
        assert before <= mark.start == mark.end <= after
        assert [counter.value for counter in counters] == [0.1, -3.0, float("inf"), 2.0**53]
        assert {(counter.kind, counter.category, counter.name) for counter in counters} == {(COUNTER, 0, "memory")}

    def test_records_with_given_times(self, recorder, folder):
        recorder.open(str(folder))
        name = recorder.intern("step")
        assert recorder.record(STEP, 3, UNRECORDED, name, 100, 200, 7) is True
        assert recorder.record(SPAN, 0x41, RAISED, name, 50, 2**63, 2**64 - 1) is True
        for kind in (0, 1, 6, 7, 8, 9, 255):  # slots that are no events, or not complete
            assert recorder.record(kind, 0, 0, name, 1, 2, 3) is False
        assert recorder.record(OPERANDS, 0x41, 0, name, 60, 1 << 32 | 77, 5 << 40) is True
        step, span, operands = finish(recorder, folder).records
        assert (operands.kind, operands.start, operands.end, operands.arg) == (OPERANDS, 60, 1 << 32 | 77, 5 << 40)
        assert (step.kind, step.category, step.flags, step.start, step.end, step.arg) == (
            STEP,
            3,
            UNRECORDED,
            100,
            200,
            7,
        )
        assert (span.kind, span.category, span.flags, span.start, span.end) == (SPAN, 0x41, RAISED, 50, 2**63)

    def test_anchors(self, recorder, folder):
        recorder.open(str(folder))
        recorder.anchor()
        recorder.close()
        store = read_store(folder)
        assert len(store.anchors) >= 3  # one each from open, from the call and from close
        offset = time.clock_gettime_ns(time.CLOCK_REALTIME) - recorder.now()
        for raw, real, half_width in store.anchors:
            assert half_width < 50_000_000
            assert abs(real - raw - offset) < 60_000_000_000

    def test_now_is_the_raw_clock(self, recorder):
        before = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
        now = recorder.now()
        assert before <= now <= time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)


def test_after_a_quiet_time_it_is_known_whether_the_thread_ran(recorder, folder):
    recorder.open(str(folder))
    name = recorder.intern("span")
    token = recorder.begin(name, 1)
    time.sleep(0.03)
    recorder.end(token)
    token = recorder.begin(name, 1)
    busy = time.thread_time_ns() + 20_000_000
    while time.thread_time_ns() < busy:
        pass
    recorder.end(token)
    recorder.close()
    store = read_store(folder)
    first, slept, *_, ran = store.looks  # there are more if the machine is busy
    assert slept[0] - slept[1] >= 30_000_000
    assert (slept[0] - first[0]) - (slept[2] - first[2]) >= 25_000_000
    assert ran[2] - slept[2] >= 20_000_000
    assert recorder.stats().records == 2


def test_steps_that_are_not_sampled_have_few_looks_and_a_long_one_has_its_own(recorder, folder):
    if recorder.kind != "native":
        pytest.skip("the recorder in Python looks at all steps")
    recorder.open(str(folder))
    recorder.fine(False)
    name, steps = recorder.intern("step"), []

    def step(length):
        begin = recorder.now()
        while recorder.now() < begin + length:
            pass
        steps.append((begin, recorder.now()))
        recorder.record(STEP, 0, 0, name, *steps[-1], len(steps))

    for _ in range(200):
        step(500_000)
    step(20_000_000)
    for _ in range(4):
        step(500_000)
    recorder.close()
    times = [look[0] for look in read_store(folder).looks]
    (_, ended), after = steps[200], steps[201][1]
    assert sum(ended <= time < after for time in times) == 1
    longer = sum(end - begin >= 2_000_000 for begin, end in steps[:200])  # on a busy machine
    usual = sum(time < ended for time in times)
    assert 1 <= usual <= (ended - steps[0][0]) / 32_000_000 + longer + 2
