"""Write stores slot by slot, sound or damaged, from the file format alone and without the recorder."""

import json
import os
import struct
from dataclasses import asdict
from pathlib import Path

from graph_builder import FLOAT32, kept, node, tensor
from ms_profiler.store import format as fmt, layout, run_info
from ms_profiler.store.device_format import Device, Source
from ms_profiler.store.format import Category, Kind, StepSource

#: wall time in ns at the moment RAW_NS of the raw clock
WALL_NS = 1_760_000_000_123_456_789
RAW_NS = 5_000_000_000_000


class SegmentBuilder:
    """Build the bytes of one segment file."""

    def __init__(self, index, pid, *, control=False, capacity=0, magic=fmt.MAGIC, version=fmt.FORMAT_VERSION):
        self.index, self.pid, self.capacity = index, pid, capacity
        self.flags = fmt.SEGMENT_CONTROL if control else 0
        self.magic, self.version = magic, version
        self.dropped = self.dropped_limit = self.unnamed = 0
        self.slots = bytearray()

    def add(self, kind, start=0, end=0, arg=0, name=0, category=0, flags=0, extra=0):
        self.slots += fmt.SLOT.pack(start, end, arg, name, kind, category, flags, extra)

    def content(self):
        header = fmt.HEADER.pack(
            self.magic,
            self.version,
            fmt.HEADER_SIZE,
            fmt.SLOT_SIZE,
            self.flags,
            self.capacity or len(self.slots) // fmt.SLOT_SIZE,
            self.pid,
            self.index,
            RAW_NS,
            self.dropped,
            self.dropped_limit,
            self.unnamed,
            b"",
        )
        room = max(self.capacity - len(self.slots) // fmt.SLOT_SIZE, 0)
        return header + bytes(self.slots) + bytes(room * fmt.SLOT_SIZE)


class ThreadBuilder:
    """Write the event segments of one thread; times are nanoseconds since the start of the run."""

    def __init__(self, process, number, name, native_tid):
        self.process, self.number, self.name, self.native_tid = process, number, name, native_tid
        self.segment = process.new_segment(capacity=4096)
        self.head(self.segment)

    def head(self, segment):
        segment.add(
            Kind.THREAD, RAW_NS, self.native_tid, self.number, self.process.string(self.name) if self.name else 0
        )

    def new_segment(self):
        self.segment = self.process.new_segment(capacity=4096)
        self.head(self.segment)

    def span(self, name, category, start, end, arg=0, flags=0):
        name = name if isinstance(name, int) else self.process.string(name)
        self.segment.add(Kind.SPAN, RAW_NS + start, RAW_NS + end, arg, name, category, flags)

    def open(self, name, category, start):
        self.segment.add(Kind.OPEN, RAW_NS + start, 0, 0, self.process.string(name), category)

    def instant(self, name, category, time, arg=0):
        self.segment.add(Kind.INSTANT, RAW_NS + time, RAW_NS + time, arg, self.process.string(name), category)

    def window(self, index, start, end, kernels, *, jump=0, shapes=True):
        """Record a window of the kernel recorder; with `end` None, the recorder never wrote the window out.

        Args:
            index: the number of the window.
            start: the begin of the window.
            end: the end of the window, or None.
            kernels: (name, start, duration, shapes) or (name, start, duration, shapes, lane) of each kernel.
            jump: the nanoseconds by which the wall clock was set before the kernels.
            shapes: whether the kernel recorder wrote the file with the shapes.
        """
        self.instant("kernel window", Category.PROFILER, start, index)
        lines, noted = {}, []
        for name, begin, duration, dimensions, *lane in sorted(kernels, key=lambda kernel: kernel[1]):
            text = f"{WALL_NS + begin + jump},{duration / 1e6:.6g},{lane[0] if lane else 0} "
            lines[name] = lines.get(name, "") + text
            last = name.rpartition("/")[2]
            primitive, dash, _ = last.rpartition("-")
            noted.append(f"{primitive};{last if dash else ''};3156159895;{dimensions if dash else ''}\n")
        files = self.process.windows.setdefault(index, {})
        if lines:
            files["cpu_op_execute_timestamp_0.txt"] = "".join(f"{name};HostCpuOps;{lines[name]}\n" for name in lines)
            files["cpu_op_detail_info_0.csv"] = "".join(f"Host,{name}\n" for name in ("full_op_name", *lines))
        if lines and shapes:
            files["cpu_framework_0.txt"] = "".join(noted)
        if end is not None:
            self.instant("kernel window end", Category.PROFILER, end, index)
            self.span("kernel drain", Category.PROFILER, end - 1000, end + 1000, arg=len(kernels))

    def counter(self, name, time, value):
        bits = struct.unpack("=Q", struct.pack("=d", value))[0]
        self.segment.add(Kind.COUNTER, RAW_NS + time, RAW_NS + time, bits, self.process.string(name))

    def device(
        self, kind, name, start, end, correlation, *, thread=0, place=None, amount=0, detail="", source=Source.CUPTI
    ):
        """Write a device record; `place` is (device, stream, context, graph)."""
        name, flags = self.process.string(name) if name else 0, int(source)
        head = (RAW_NS + start, RAW_NS + end, correlation | thread << 32, name, kind, flags)
        self.segment.add(Kind.DEVICE, *head, extra=place is not None)
        if place is not None:
            device, stream, context, graph = place
            words = (device | stream << 32, context | graph << 32, amount, self.process.string(detail) if detail else 0)
            self.segment.add(Kind.DEVICE_PLACE, *words, kind, flags)

    def launch(self, name, called, start, duration, correlation, *, stream=7, device=0):
        """Write the record of a kernel, and of the 1 us call on this thread that launched it."""
        self.device(Device.API, "cudaLaunchKernel_v7000", called, called + 1000, correlation, thread=self.native_tid)
        self.device(Device.KERNEL, name, start, start + duration, correlation, place=(device, stream, 1, 0), amount=8)

    def look(self, time, before, ran, waited_us=fmt.NOT_READ):
        """Write a reading of the thread's processor time.

        Args:
            time: the time of the reading.
            before: the time of the reading before it.
            ran: the processor time of the thread so far, in ns.
            waited_us: the time in us that the thread waited for a processor since the last reading with this number.
        """
        self.segment.add(Kind.PROCESSOR, RAW_NS + time, RAW_NS + before, ran, waited_us)

    def metric(self, name, time, value, tid=0):
        """Write the value of a counter of the system; `tid` is the thread that it counts, 0 without a thread."""
        self.segment.add(Kind.METRIC, RAW_NS + time, tid, value, self.process.string(name))

    def step(self, number, start, end, source=StepSource.SCRIPT, flags=0):
        self.segment.add(Kind.STEP, RAW_NS + start, RAW_NS + end, number, 0, source, flags)


class ProcessBuilder:
    """Build the folder of one process: the control segment 0, the threads' segments, and the process's record."""

    def __init__(self, pid, **info):
        self.pid = pid
        self.segments = []
        self.windows = {}
        self.graphs = []
        self.strings = {}
        self.control = self.new_segment(control=True, capacity=1024)
        self.info = run_info.ProcessInfo(pid=pid, recorder="native", state="ended", end="exit")
        for key, value in info.items():
            setattr(self.info, key, value)
        self.anchor(0)

    def new_segment(self, **options):
        segment = SegmentBuilder(len(self.segments), self.pid, **options)
        self.segments.append(segment)
        return segment

    def string(self, text):
        if text not in self.strings:
            number = self.strings[text] = len(self.strings) + 1
            payload = text.encode()
            extra = -(-len(payload) // fmt.SLOT_SIZE)
            self.control.add(Kind.STRING, RAW_NS, 0, len(payload), number, extra=extra)
            self.control.slots += payload.ljust(extra * fmt.SLOT_SIZE, b"\0")
        return self.strings[text]

    def anchor(self, raw, offset=0, half_width=100):
        """Write an anchor: the wall time at `raw` ns after the run's start, moved by `offset` ns."""
        self.control.add(Kind.ANCHOR, RAW_NS + raw, WALL_NS + raw + offset, half_width)

    def thread(self, number=1, name="MainThread", native_tid=None):
        return ThreadBuilder(self, number, name, self.pid if native_tid is None else native_tid)


class StoreBuilder:
    """Build a whole result directory."""

    def __init__(self, parent, name="host_4242_20260101000000123_ascend_ms", **info):
        self.path = Path(parent) / name
        self.processes = []
        self.info = run_info.RunInfo(
            product_version="0.1.0",
            pid=4242,
            host="host",
            boot_id="boot",
            process_start=1,
            started_wall=WALL_NS / 1e9,
            started_ns=RAW_NS,
            options={"start": True, "output_path": "./data"},
            python="3.11.7",
            framework={"name": "mindspore", "version": "2.10.0", "mode": "pynative", "device": "CPU"},
            hooks={"mindspore.nn.Cell.__call__": "applied"},
            steps={"source": "script", "why": "step() is called"},
            cost={"span_ns": 200.0, "idle_ns": 50.0, "start_ns": 1e7},
        )
        for key, value in info.items():
            setattr(self.info, key, value)

    def process(self, pid=4242, **info):
        process = ProcessBuilder(pid, **info)
        self.processes.append(process)
        return process

    def write(self):
        """Write all files and return the directory."""
        framework = Path(layout.framework_dir(str(self.path)))
        framework.mkdir(parents=True, exist_ok=True)
        (framework / layout.RUN_INFO).write_text(json.dumps(asdict(self.info)))
        for process in self.processes:
            folder = framework / f"process_{process.pid}"
            folder.mkdir(exist_ok=True)
            (folder / layout.PROCESS_INFO).write_text(json.dumps(asdict(process.info)))
            for segment in process.segments:
                (folder / layout.segment_name(segment.index)).write_bytes(segment.content())
            for index, files in process.windows.items():
                window = Path(layout.window_dir(str(folder), index))
                window.mkdir(parents=True, exist_ok=True)
                for name, content in files.items():
                    (window / name).write_text(content)
            for index, content in enumerate(process.graphs):
                path = Path(layout.graph_path(str(folder), index))
                path.parent.mkdir(exist_ok=True)
                path.write_bytes(content)
        return self.path

    def segment_path(self, process, index):
        return self.path / layout.FRAMEWORK / f"process_{process.pid}" / layout.segment_name(index)


MS = 1_000_000


def training(parent, steps=20, name="host_4242_20260101000000123_ascend_ms", rank=0, **info):
    """Build a training run whose steps take 10 ms: 3 ms data, 2 forward, 4 backward, 0.5 optimizer, 0.5 other.

    The first step begins with another 100 ms of compilation.
    """
    store = StoreBuilder(parent, name, rank=rank, **info)
    process = store.process()
    thread = process.thread()
    start = 50 * MS
    for number in range(steps):
        begin = start
        if number == 0:
            thread.span("compile train_step", Category.COMPILE, start, start + 100 * MS)
            start += 100 * MS
        thread.span("next", Category.DATA, start, start + 3 * MS)
        thread.span("forward", Category.FORWARD, start + 3 * MS, start + 5 * MS)
        thread.span("Net", Category.MODULE, start + 3 * MS, start + 5 * MS)
        thread.span("Dense fc1", Category.MODULE, start + 3 * MS, start + 4 * MS)
        thread.span("backward", Category.BACKWARD, start + 5 * MS, start + 9 * MS)
        thread.span("MatMul", Category.OP, start + 6 * MS, start + 7 * MS)
        thread.span("Momentum", Category.OPTIMIZER, start + 9 * MS, start + 9 * MS + MS // 2)
        start += 10 * MS
        thread.step(number, begin, start)
    process.anchor(start + MS)
    process.info.ended_ns = RAW_NS + start + MS
    return store


FORWARD = "Default/network-Loss/_backbone-Net/fc-Dense/MatMul-op0"
BACKWARD = "Gradients/Default/network-Loss/_backbone-Net/fc-Dense/Grad_MatMul/MatMul-op0"
UPDATE = "Default/optimizer-Momentum/ApplyMomentum-op0"


def layer(width=8):
    """Return the description of a graph with three operators: a dense layer, its gradient and its update."""
    weight = tensor(FLOAT32, width, width)
    return kept(
        [
            ("", "TrainOneStepCell", ["fc.weight"]),
            ("network", "Loss", []),
            ("network._backbone", "Net", []),
            ("network._backbone.fc", "Dense", ["fc.weight"]),
        ],
        node("1", "Load", ["fc.weight"], weight, "Default/network-Loss/_backbone-Net/fc-Dense/Load-op0"),
        node("2", "MatMul", ["x", "1"], tensor(FLOAT32, 4, width), FORWARD),
        node("3", "MatMul", ["x", "1"], weight, BACKWARD),
        node("4", "ApplyMomentum", ["fc.weight", "3"], weight, UPDATE),
        parameters=[("x", tensor(FLOAT32, 4, width)), ("fc.weight", weight)],
    )


def compiled(parent, steps=20, windows=2, name="host_4242_20260101000000123_ascend_ms", rank=0, **info):
    """Build a training run in graph mode; each step of 10 ms has 8 ms of graph with kernels of 2, 3 and 0.5 ms."""
    info = {"framework": {"name": "mindspore", "version": "2.10.0", "mode": "graph", "device": "CPU"}, **info}
    store = StoreBuilder(parent, name, rank=rank, **info)
    process = store.process()
    thread = process.thread()
    process.graphs.append(layer())
    start, kernels, opened, index = 50 * MS, [], 49 * MS, 0
    for number in range(steps):
        thread.span("next", Category.DATA, start, start + MS)
        thread.span("graph Net", Category.GRAPH, start + MS, start + 9 * MS)
        kernels += [
            (FORWARD, start + 2 * MS, 2 * MS, "input_1:[4, 8];input_2:[8, 8];input_3:NoShape;"),
            (BACKWARD, start + 4 * MS, 3 * MS, "input_1:[4, 8];input_2:[8, 8];"),
            (UPDATE, start + 8 * MS, MS // 2, "input_1:[8, 8];input_2:[8, 8];"),
        ]
        thread.step(number, start, start + 10 * MS)
        start += 10 * MS
        if (number + 1) % (steps // windows) == 0:
            thread.window(index, opened, start + 2000, kernels)
            index, kernels, opened, start = index + 1, [], start + 4000, start + MS
    process.anchor(start + MS)
    process.info.ended_ns = RAW_NS + start + MS
    return store


def launching(store):
    """Add three steps to a store; in each, two operators launch a kernel each, and a third kernel has no launch."""
    process = store.process()
    thread = process.thread()
    for number in range(3):
        start = number * MS
        thread.span("MatMul", Category.OP, start + 100, start + 200)
        thread.span("ReLU", Category.OP, start + 300, start + 400)
        thread.step(number, start, start + MS)
    kernels = [("MatMul", 150, 10, ""), ("ReLU", 350, 10, ""), ("Mul", 500, 10, "")]
    shifted = [(name, start * MS + at, length, "") for start in range(3) for name, at, length, _ in kernels]
    thread.window(0, 0, 3 * MS, shifted)
    process.anchor(4 * MS)
    return store


def write_training(parent, **options):
    """Write the run of `training` and return its directory."""
    return training(parent, **options).write()


def folder_of(path):
    """Return the folder of the output files in a result directory."""
    return Path(os.fspath(path)) / layout.OUTPUT
