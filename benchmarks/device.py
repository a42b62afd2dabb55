"""Measure the cost of tracing a device: a fake CUPTI makes records, which are first thrown away, and then recorded.

usage: device.py [SECONDS] [RECORDS A SECOND]

A rate of 0 means as many records as the fake library can make. There is no real device. So the program measures the
cost of reading and writing records, without the cost of CUPTI itself.
"""

import ctypes
import os
import sys
import tempfile
import threading
import time
from pathlib import Path

import pairs

TESTS = Path(__file__).parent.parent / "tests"
sys.path.insert(0, str(TESTS))

import fakes_built  # noqa: E402 - beside the tests
from ms_profiler.job.recorder.native import NativeRecorder  # noqa: E402
from ms_profiler.job.recorder.tracing import Kinds, Outcome  # noqa: E402
from ms_profiler.store.device_format import Source  # noqa: E402

READER = "ms-profiler-dev"
TICK = os.sysconf("SC_CLK_TCK")


def resident() -> float:
    """Return the resident memory of this process in MB; it includes mapped files."""
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) / 1024


def reader_seconds() -> float:
    """Return the processor seconds of the thread that reads device records; 0 if there is no such thread."""
    for task in Path("/proc/self/task").iterdir():
        if (task / "comm").read_text().strip() == READER:
            fields = (task / "stat").read_text().rpartition(")")[2].split()
            return (int(fields[11]) + int(fields[12])) / TICK
    return 0.0


class Watch(threading.Thread):
    """A thread that notes the highest resident memory of this process, in MB, read four times a second."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.most, self.done = 0.0, threading.Event()

    def run(self) -> None:
        while not self.done.wait(0.25):
            self.most = max(self.most, resident())


def generate(gpu: ctypes.CDLL, seconds: float, rate: int) -> tuple[int, float, float, float]:
    """Let the fake CUPTI make records for some seconds.

    Returns:
        The number of records, the wall time and the processor time in seconds, and the growth of the process's memory
        in MB.
    """
    watch = Watch()
    before, begun, used = resident(), time.perf_counter(), time.process_time()
    watch.start()
    made, part = 0, rate // 10 * 2 if rate else 200_000
    while time.perf_counter() - begun < seconds:
        gpu.fake_generate(ctypes.c_uint64(part), ctypes.c_uint64(rate))
        made += part
    took, cpu = time.perf_counter() - begun, time.process_time() - used
    watch.done.set()
    watch.join()
    return made, took, cpu, watch.most - before


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0
    rate = int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000
    print(pairs.machine())
    with tempfile.TemporaryDirectory() as directory:
        folder = fakes_built.build(Path(directory))
        store = folder / "store"
        store.mkdir()
        # load the driver first, with global symbols, because the fake CUPTI looks for the driver by its name
        ctypes.CDLL(str(folder / "libcuda.so.1"), mode=ctypes.RTLD_GLOBAL).cuInit(0)
        gpu = ctypes.CDLL(str(folder / "libcupti.so.12"))
        gpu.fake_throw_away()
        made, took, cpu, grown = generate(gpu, seconds, rate)
        print(f"generated alone: {made / took / 1e6:.2f} M/s, {cpu / made * 1e6:.3f} s of a processor a million")
        recorder = NativeRecorder()
        recorder.open(str(store))
        tracing = recorder.tracing(Source.CUPTI)
        outcome, why = tracing.attach(str(folder / "libcupti.so.12"))
        assert outcome is Outcome.DONE, why
        tracing.record(Kinds.BASIC)
        made, took, cpu, grown = generate(gpu, seconds, rate)
        reading = reader_seconds()
        tracing.detach()
        counts, stats = tracing.counts(), recorder.stats()
        recorder.close()
        print(f"read and written: {made / took / 1e6:.2f} M/s, {cpu / made * 1e6:.3f} s of a processor a million")
        print(f"the thread that reads: {reading / counts.records * 1e6:.3f} s a million")
        missing = counts.dropped + counts.lost + counts.refused + counts.unfinished
        print(f"records {counts.records}, missing {missing}, {stats.bytes / counts.records:.1f} bytes on disk a record")
        print(f"memory grew by {grown:.1f} MB at most, in {took:.0f} s")


if __name__ == "__main__":
    main()
