"""Threads record correctly in every recorder, even if signal handlers interrupt them."""

import signal
import threading

from ms_profiler.job.recorder.python import PythonRecorder
from ms_profiler.job.recorder.segment_file import SegmentFile
from recorders import finish, run_thread
from store_check import ABANDONED, SPAN

pytest_plugins = ["recorder_fixtures"]


class TestThreads:
    def test_each_has_its_number_and_name(self, recorder, folder):
        recorder.open(str(folder))
        tids = {}
        gate = threading.Barrier(8)

        def work(number):
            recorder.thread_name(f"worker {number} 寿")
            gate.wait(10)
            tids[number] = threading.get_native_id()
            for _ in range(500):
                recorder.end(recorder.begin(recorder.intern(f"of {number}"), 1))

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        store = finish(recorder, folder)
        assert len(store.threads) == 8
        for number in range(8):
            spans = store.spans(f"of {number}")
            assert len(spans) == 500
            (thread,) = {span.thread for span in spans}
            assert store.threads[thread] == {(tids[number], f"worker {number} 寿")}

    def test_names_come_from_the_system_unless_given(self, recorder, folder):
        recorder.open(str(folder))

        def work():
            recorder.instant(recorder.intern("before"), 1)
            recorder.thread_name("given later")
            recorder.instant(recorder.intern("after"), 1)

        run_thread(work)
        store = finish(recorder, folder)
        with open("/proc/self/comm") as stream:
            system = stream.read().strip()
        (names,) = store.threads.values()
        assert {name for _, name in names} == {system, "given later"}
        assert [record.name for record in store.records] == ["before", "after"]

    def test_names_are_cut_between_characters(self, recorder, folder):
        """ms-profiler cuts a name after 255 bytes, between characters.

        The system cuts after 15 bytes, even within a character.
        """
        recorder.open(str(folder))

        def work():
            with open(f"/proc/self/task/{threading.get_native_id()}/comm", "wb") as stream:
                stream.write("线程名字是这样".encode())
            recorder.instant(recorder.intern("x"), 1)
            recorder.thread_name("a" + "寿" * 100)
            recorder.instant(recorder.intern("x"), 1)

        run_thread(work)
        (names,) = finish(recorder, folder).threads.values()
        texts = {name for _, name in names}
        assert "线程名字是" in texts
        assert texts & {"a" + "寿" * 84, "a" + "寿" * 100} and not any("\ufffd" in name for name in texts)

    def test_an_ended_thread_leaves_its_segment_to_the_next(self, recorder, folder):
        recorder.open(str(folder))
        for number in range(100):
            run_thread(lambda number=number: recorder.instant(recorder.intern("x"), 1, number))
        store = finish(recorder, folder)
        assert [record.arg for record in store.records] == list(range(100))
        assert len(store.threads) == 100
        assert store.capacities == [2048]

    def test_an_ended_thread_abandons_its_spans(self, recorder, folder):
        recorder.open(str(folder), first_slots=8)

        def work():
            for number in range(20):
                recorder.begin(recorder.intern("left"), 1, number)

        run_thread(work)
        ended = recorder.now()
        run_thread(lambda: recorder.instant(recorder.intern("next"), 1))
        store = finish(recorder, folder)
        left = store.named("left")
        assert {(record.kind, record.flags) for record in left} == {(SPAN, ABANDONED)}
        assert [record.arg for record in left] == list(range(20))
        assert all(record.end <= ended for record in left)

    def test_it_shares_nothing_between_threads(self, recorder, folder):
        """With many threads and small segments, every span is stored under its own thread and properly nested."""
        recorder.open(str(folder), first_slots=8)
        count = 4000 if recorder.kind == "native" else 500

        def work(number):
            name = recorder.intern(f"thread {number}")
            for index in range(count):
                outer = recorder.begin(name, 1, index)
                recorder.end(recorder.begin(recorder.intern(f"string {number} {index % 70}"), 2, index))
                recorder.end(outer)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        store = finish(recorder, folder)
        for number in range(6):
            spans = store.spans(f"thread {number}")
            assert sorted(span.arg for span in spans) == list(range(count))
            assert len({span.thread for span in spans}) == 1
            inner = {span.arg: span for span in store.spans() if span.name.startswith(f"string {number} ")}
            for span in spans:
                assert span.start <= inner[span.arg].start <= inner[span.arg].end <= span.end
        assert store.dropped == 0

    def test_a_signal_handler_may_fill_segments_while_a_full_segment_is_counted(self, folder, monkeypatch):
        recorder, events, running = PythonRecorder(), SegmentFile.events, []
        recorder.open(str(folder), first_slots=8)
        name = recorder.intern("x")

        def interrupted(segment):
            if not running:
                running.append(segment)
                for _ in range(100):
                    recorder.instant(name, 1)
                running.clear()
            return events.fget(segment)

        for _ in range(4):
            recorder.instant(name, 1)
        monkeypatch.setattr(SegmentFile, "events", property(interrupted))
        for _ in range(20):
            recorder.instant(name, 1)
        monkeypatch.undo()
        finish(recorder, folder)

    def test_signal_handlers_may_record_too(self, recorder, folder):
        """Signal handlers run between any two lines of Python, and interrupt system calls. Their records are right."""
        recorder.open(str(folder), first_slots=8)
        counts = {"job": 0, "handler": 0}

        def work(label, number):
            token = recorder.begin(recorder.intern(label), 1, counts[label])
            recorder.instant(recorder.intern(f"{label} {number}"), 1)
            recorder.end(token)
            counts[label] += 1

        def handle(*_):
            work("handler", counts["handler"] % 100)
            signal.setitimer(signal.ITIMER_REAL, 0.0002)  # the next signal only now, so that none pile up

        before = signal.signal(signal.SIGALRM, handle)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.0002)
            while counts["handler"] < 300:
                work("job", counts["job"] % 100)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        store = finish(recorder, folder)
        for label, count in counts.items():
            spans = store.spans(label)
            assert sorted(span.arg for span in spans) == list(range(count))
            assert {span.flags for span in spans} == {0}
        assert len(store.records) == 2 * sum(counts.values())
        assert store.dropped == 0
