"""Measure the cost of one span that Python code records, alone and beside a busy thread."""

import statistics
import tempfile
import threading
import time

import pairs
from ms_profiler.job.recorder import create
from ms_profiler.store.format import Category

CALLS = 20_000
ROUNDS = 25


def main() -> None:
    print(pairs.machine())
    for native in (True, False):
        recorder, reason = create(prefer_native=native)
        if native and recorder.kind != "native":
            print(f"native recorder not in use: {reason}")
            continue
        with tempfile.TemporaryDirectory() as folder:
            recorder.open(folder)
            measure(recorder)
            recorder.close()


def measure(recorder) -> None:
    name = recorder.intern("work")
    begin, end, category = recorder.begin, recorder.end, int(Category.MODULE)

    def work(value):
        return value

    def bare() -> float:
        start = time.perf_counter_ns()
        for index in range(CALLS):
            work(index)
        return (time.perf_counter_ns() - start) / CALLS

    def spans() -> float:
        start = time.perf_counter_ns()
        for index in range(CALLS):
            token = begin(name, category)
            work(index)
            end(token)
        return (time.perf_counter_ns() - start) / CALLS

    ratio, same, added = pairs.compare(bare, spans, ROUNDS)
    more = f"+{statistics.median(added):.0f} ns a span"
    pairs.report(f"{recorder.kind} recorder: a call with a span", ratio, same, more)
    if recorder.kind == "native":
        beside(recorder, name, category)


def beside(recorder, name, category) -> None:
    """Print the ratio of a span's median time beside a busy thread to its time without that thread."""

    def singles() -> float:
        times = []
        for _ in range(CALLS // 4):
            start = time.perf_counter_ns()
            recorder.end(recorder.begin(name, category))
            times.append(time.perf_counter_ns() - start)
        return statistics.median(times)

    def busy() -> float:
        stop = threading.Event()

        def spin():
            while not stop.is_set():
                sum(range(100))

        thread = threading.Thread(target=spin)
        thread.start()
        try:
            return singles()
        finally:
            stop.set()
            thread.join()

    ratio, same, _ = pairs.compare(singles, busy, 9)
    pairs.report("native recorder: median span beside a busy thread", ratio, same)


if __name__ == "__main__":
    main()
