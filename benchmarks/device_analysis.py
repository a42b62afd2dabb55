"""Measure the time and memory to analyse a run on a GPU, from the store to all files.

The program writes a made-up store record by record, in the order in which CUPTI delivers records. Each training step
has some thousand kernels on two streams, exchanges on a third stream, copies, sets, waits, allocations and overheads.
Two threads launch this work from operators in modules. The figures a record count the device's records only.

usage: device_analysis.py [MILLIONS OF RECORDS ...]
"""

import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field

import numpy as np
import pairs

#: numbers of operators and of modules in a step
OPERATORS, MODULES = 934, 60
#: duration of a step in nanoseconds
STEP_NS = 12_000_000
SLOT = np.dtype(
    [
        *(("start", "<u8"), ("end", "<u8"), ("arg", "<u8"), ("name", "<u4")),
        *(("kind", "u1"), ("category", "u1"), ("flags", "u1"), ("extra", "u1")),
    ]
)
#: number of slots in a segment of 4 MiB, the size of the recorder's segments
CAPACITY = (4 << 20) // SLOT.itemsize - 4
HIGH = 2**32


@dataclass
class Thread:
    """The records (slots of 32 bytes) that a thread writes in one step; their times count from the begin of the step.

    Attributes:
        number: the number of the thread in the store.
        tid: the number of the thread in the operating system.
        slots: the slots as tuples with the fields of `SLOT`.
        correlated: for each slot, whether its `arg` is a correlation id or the number of the step. These numbers
            increase from step to step.
        timed: for each slot, whether its first two fields hold times.
    """

    number: int
    tid: int
    slots: list[tuple[int, ...]] = field(default_factory=list)
    correlated: list[bool] = field(default_factory=list)
    timed: list[bool] = field(default_factory=list)

    def add(self, *slot: int, correlated: bool = False, timed: bool = True) -> None:
        """Add a slot (a record); its fields are start, end, arg, name, kind, category, flags and extra."""
        self.slots.append(slot)
        self.correlated.append(correlated)
        self.timed.append(timed)


class Strings:
    """The texts of the store with their numbers; a call with a text returns its number."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        return self.numbers.setdefault(text, len(self.numbers) + 1)

    def slots(self) -> bytes:
        """Return the texts in the form of the store's control stream."""
        from ms_profiler.store import format as fmt

        stream = b""
        for text, number in self.numbers.items():
            payload = text.encode()
            extra = -(-len(payload) // fmt.SLOT_SIZE)
            stream += fmt.SLOT.pack(0, 0, len(payload), number, fmt.Kind.STRING, 0, 0, extra)
            stream += payload.ljust(extra * fmt.SLOT_SIZE, b"\0")
        return stream


def host(main: Thread, autograd: Thread, name: Strings) -> list[tuple[int, int]]:
    """Write the host's records of a step on two threads; return the begin in ns and the thread id of each operator."""
    from ms_profiler.store.format import Category, Kind

    main.add(0, 40_000, 0, name("next"), Kind.SPAN, Category.DATA, 0, 0)
    main.add(40_000, 5_000_000, 0, name("forward"), Kind.SPAN, Category.FORWARD, 0, 0)
    main.add(40_500, 4_999_500, 0, name("Net"), Kind.SPAN, Category.MODULE, 0, 0)
    began = []
    for number in range(OPERATORS // 2):
        if number % 8 == 0:
            begin = 41_000 + number * 10_000
            main.add(begin, begin + 78_000, 0, name(f"Linear layers.{number // 8}"), Kind.SPAN, Category.MODULE, 0, 0)
        begin = 42_000 + number * 10_000
        main.add(begin, begin + 9_000, 2 * number + 2, name(f"aten::op_{number % 90}"), Kind.SPAN, Category.OP, 0, 0)
        began.append((begin, main.tid))
    main.add(5_000_000, 10_000_000, 0, name("backward"), Kind.SPAN, Category.BACKWARD, 0, 0)
    for number in reversed(range(OPERATORS // 2)):
        begin = 9_900_000 - number * 10_000
        text = name(f"Op{number % 90}Backward0")
        autograd.add(begin, begin + 9_000, 2 * number + 3, text, Kind.SPAN, Category.OP, 0, 0)
        began.append((begin, autograd.tid))
    main.add(10_000_000, 11_500_000, 0, name("AdamW.step"), Kind.SPAN, Category.OPTIMIZER, 0, 0)
    main.add(11_500_000, 11_900_000, 0, name("item"), Kind.SPAN, Category.SYNC, 0, 0)
    return began


def launched(reader: Thread, began: list[tuple[int, int]], name: Strings) -> int:
    """Write the device records of a step as the thread that reads device records would do, and return their number."""
    from ms_profiler.store.device_format import Device, Source
    from ms_profiler.store.format import Kind

    records = number = 0

    def record(what: Device, text: str, start: int, end: int, tid: int = 0) -> None:
        nonlocal records
        records += 1
        head = (start, end, number | tid << 32, name(text), Kind.DEVICE, what, Source.CUPTI)
        reader.add(*head, int(not tid and what != Device.OVERHEAD), correlated=True)

    def place(what: Device, stream: int, amount: int, detail: str = "") -> None:
        words = (stream << 32, 1, amount, name(detail) if detail else 0)
        reader.add(*words, Kind.DEVICE_PLACE, what, Source.CUPTI, 0, timed=False)

    free = {7: 0, 13: 0, 20: 0}
    for index, (begin, tid) in enumerate(began):
        # each operator launches one kernel, and every sixth operator two; a few operators copy, wait or allocate
        for again in range(1 + (index % 6 == 0)):
            number += 1
            stream = 20 if index % 40 == 39 else 13 if index % 16 == 15 else 7
            text = f"_ZN2at6native{10 + index % 80}elementwise_kernel_{index % 80:02}EPfS1_i"
            kernel = "ncclDevKernel_AllReduce_Sum_f32_RING_LL" if stream == 20 else text
            called = begin + 2_000 + again * 3_000
            start = max(called + 6_000, free[stream])
            free[stream] = end = start + (90_000 if stream == 20 else 7_000 + index % 13 * 300)
            record(Device.API, "cudaLaunchKernel_v7000", called, called + 2_500, tid)
            record(Device.KERNEL, kernel, start, end)
            place(Device.KERNEL, stream, 128 + index % 7)
        if index % 50 == 0:
            number += 1
            record(Device.API, "cudaMemcpyAsync_v3020", begin + 8_000, begin + 8_500, tid)
            record(Device.COPY, "copy", begin + 12_000, begin + 14_000)
            place(Device.COPY, 7, 1 << 20, "HtoD")
        if index % 60 == 0:
            number += 1
            record(Device.API, "cudaMalloc_v3020", begin + 8_500, begin + 8_700, tid)
            record(Device.MEMORY, "device memory", begin + 8_600, begin + 8_600)
            place(Device.MEMORY, 0, 2 << 20, "allocate")
        if index % 90 == 0:
            number += 1
            record(Device.API, "cudaStreamSynchronize_v3020", begin + 8_700, begin + 8_900, tid)
            record(Device.SYNC, "stream synchronize", begin + 8_700, begin + 8_900)
            place(Device.SYNC, 7, 0)
        if index % 300 == 0:
            record(Device.OVERHEAD, "activity buffer request", begin, begin + 1_000)
    return records


def write(folder: str, index: int, thread: Thread, begins: "np.ndarray[tuple[int], np.dtype[np.uint64]]") -> int:
    """Write the records of a thread in all steps to files (segments), and return the number of the next file."""
    from ms_profiler.store import format as fmt, layout

    template = np.array(thread.slots, SLOT)
    timed, correlated = np.array(thread.timed, "<u8"), np.array(thread.correlated, "<u8")
    numbers = int((template["arg"] * correlated % HIGH).max()) + 1
    head = np.zeros(1, SLOT)
    head["kind"], head["arg"], head["end"] = fmt.Kind.THREAD, thread.number, thread.tid
    at_once = max(CAPACITY // len(template), 1)
    for first in range(0, len(begins), at_once):
        some = begins[first : first + at_once]
        steps = np.arange(first, first + len(some), dtype="<u8")
        slots = np.tile(template, len(some))
        moment = (some[:, None] * timed).ravel()
        slots["start"] += moment
        slots["end"] += moment
        slots["arg"] += (steps[:, None] * np.uint64(numbers) * correlated).ravel()
        header = fmt.HEADER.pack(
            *(fmt.MAGIC, fmt.FORMAT_VERSION, fmt.HEADER_SIZE, fmt.SLOT_SIZE, 0, len(slots) + 1),
            *(os.getpid(), index, int(begins[0]), 0, 0, 0, b""),
        )
        with open(os.path.join(folder, layout.segment_name(index)), "wb") as file:
            file.write(header + head.tobytes() + slots.tobytes())
        index += 1
    return index


def generate(folder: str, records: int) -> int:
    """Write a store with about `records` device records, and return their exact number."""
    from ms_profiler.store import format as fmt, layout, run_info
    from ms_profiler.store.format import Kind, StepSource

    pid = os.getpid()
    process = layout.process_dir(folder, pid)
    os.makedirs(process)
    begin = 10**12
    main, autograd, reader = Thread(1, pid), Thread(2, pid + 1), Thread(3, pid + 2)
    name = Strings()
    each = launched(reader, host(main, autograd, name), name)
    main.add(0, STEP_NS, 0, name("script"), Kind.STEP, StepSource.SCRIPT, 0, 0, correlated=True)
    steps = max(records // each, 1)
    begins = begin + np.arange(steps, dtype="<u8") * np.uint64(STEP_NS)
    index = 1
    for thread in (main, autograd, reader):
        index = write(process, index, thread, begins)
    control = fmt.SLOT.pack(begin, 1_760_000_000_000_000_000, 100, 0, Kind.ANCHOR, 0, 0, 0) + name.slots()
    header = (fmt.MAGIC, fmt.FORMAT_VERSION, fmt.HEADER_SIZE, fmt.SLOT_SIZE, fmt.SEGMENT_CONTROL)
    with open(os.path.join(process, layout.segment_name(0)), "wb") as file:
        file.write(fmt.HEADER.pack(*header, len(control) // fmt.SLOT_SIZE, pid, 0, begin, 0, 0, 0, b"") + control)
    framework = {"name": "torch", "version": "2.13.0", "mode": "eager", "device": "a made-up GPU"}
    info = run_info.RunInfo(pid=pid, started_wall=1.76e9, started_ns=begin, framework=framework)
    run_info.write(layout.run_info_path(folder), info)
    ended = run_info.ProcessInfo(
        pid=pid, recorder="native", state="ended", end="exit", ended_ns=begin + (steps + 1) * STEP_NS
    )
    run_info.write(os.path.join(process, layout.PROCESS_INFO), ended)
    return steps * each


def main() -> None:
    if sys.argv[1:2] == ["generate"]:
        print(generate(sys.argv[2], int(sys.argv[3])))
        return
    print(pairs.machine())
    for millions in [float(text) for text in sys.argv[1:]] or [1.0, 10.0]:
        with tempfile.TemporaryDirectory(prefix="ms_profiler_device_") as parent:
            folder = os.path.join(parent, "host_1_20260101000000000_ascend_ms")
            words = [sys.executable, os.path.abspath(__file__), "generate", folder, str(int(millions * 1e6))]
            count = int(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
            took, busy, peak = pairs.analysed(folder)
            each = busy / count * 1e6
            print(f"{count / 1e6:.2f} million records: {took:.1f} s, {each:.2f} us of a processor each, {peak:.0f} MB")


if __name__ == "__main__":
    main()
