"""Build results like those of MindSpore's and PyTorch's profilers for Ascend.

Every time in these results is computed by hand, so that a test knows the right answer.
"""

import csv
import json
import sqlite3
from dataclasses import dataclass, field
from pathlib import Path

#: microseconds since the epoch at which the runs start
BASE = 1_700_000_000_000_000
PID = 4242
#: Process numbers of the device's rows in a trace. As in a real result, they differ from the host's process number.
HARDWARE, HCCL, CANN, OVERLAP, MEMORY = (3_000_000_000 + number for number in range(1, 6))
NAMES = {PID: "Python", HARDWARE: "Ascend Hardware", HCCL: "HCCL", CANN: "CANN", MEMORY: "NPU MEM"}
#: the value of a missing rank; below it, the numbers of transports and links in databases
NO_RANK = 2**32 - 1
TRANSPORTS = {0: "SDMA", 1: "RDMA", 2: "LOCAL"}
LINKS = {0: "ON_CHIP", 1: "HCCS", 2: "PCIE", 4: "SIO", 5: "HCCS_SW", 65535: "INVALID_TYPE"}


@dataclass
class AscendBuilder:
    """Collect a run's tasks, with times in microseconds from its start, and write them as text or as a database.

    Attributes:
        suffix: "_ascend_ms" or "_ascend_pt".
        driven: indexes of the kernels that a call of the driver launched 1 us after the run's start; the database has
            no such calls.
    """

    folder: Path
    suffix: str = "_ascend_pt"
    rank: int = 0
    steps: list = field(default_factory=list)
    kernels: list = field(default_factory=list)
    exchanges: list = field(default_factory=list)
    calls: list = field(default_factory=list)
    parts: list = field(default_factory=list)
    held: list = field(default_factory=list)
    driven: tuple = ()

    def part(self, plane, kind, start, end, source=0, target=NO_RANK, size=0, link="INVALID_TYPE", transport="SDMA"):
        """Add a part of the last exchange; `start` and `end` are in us, `size` in bytes."""
        row = (len(self.exchanges) - 1, plane, kind, start, end, source, target, size, link, transport)
        self.parts.append(row)

    def hold(self, time, kilobytes):
        """Add how many kilobytes of the device's memory the application held at a time in us."""
        self.held.append((time, kilobytes))

    def step(self, number, start, end):
        self.steps.append((number, start, end))

    def kernel(self, name, start, end, launch=None, stream=2, kind="MatMul", core="AI_CORE"):
        self.kernels.append((name, start, end, launch, stream, kind, core))

    def exchange(self, name, start, end, launch=None, group="77"):
        self.exchanges.append((name, start, end, launch, group))

    def call(self, name, start, end, thread=PID):
        self.calls.append((name, start, end, thread))

    @property
    def path(self):
        return self.folder / f"host_{PID}_20260101000000123{self.suffix}"

    def text(self, trace=True, table=True, typed=True, hardware=True):
        """Write `trace_view.json` and `kernel_details.csv`."""
        output = self._output()
        if trace:
            (output / "trace_view.json").write_text(json.dumps(list(self.events(hardware))))
        if table:
            with (output / "kernel_details.csv").open("w", newline="") as stream:
                writer = csv.writer(stream)
                columns = ["Stream ID"] if typed else []
                columns += ["Name", "Type", "Accelerator Core", "Start Time(us)", "Duration(us)", "Wait Time(us)"]
                writer.writerow(columns)
                for name, start, end, _, lane, kind, core in self.kernels:
                    known = (lane, name, kind, core) if typed else (name, "N/A", "N/A")
                    writer.writerow([*known, f"{absolute(start)}\t", f"{end - start:.3f}", "0"])
        return self.path

    def events(self, hardware=True):
        """Yield the events of the trace."""
        for pid, name in NAMES.items():
            yield {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}}
            label = "CPU" if pid in (PID, CANN) else "NPU"
            yield {"ph": "M", "name": "process_labels", "pid": pid, "tid": 0, "args": {"labels": label}}
        yield self._span(CANN, PID, "Node@launch", 1, 2, level="node")
        for number, start, end in self.steps:
            yield self._span(PID, PID, f"ProfilerStep#{number}", start, end, cat="cpu_op")
        for name, start, end, thread in self.calls:
            yield self._span(PID, thread, name, start, end, cat="cpu_op")
        groups = {}
        for index, (name, start, end, launch, group) in enumerate(self.exchanges):
            lane = groups.setdefault(group, 10 * len(groups))
            if lane == 10 * (len(groups) - 1):
                title = {"name": f"Group {group} Communication"}
                yield {"ph": "M", "name": "thread_name", "pid": HCCL, "tid": lane, "args": title}
                for number in range(3):
                    plane = {"name": f"Plane {number}"}
                    yield {"ph": "M", "name": "thread_name", "pid": HCCL, "tid": lane + 1 + number, "args": plane}
            yield self._span(HCCL, lane, name, start, end, count=100)
            own = [part[1:] for part in self.parts if part[0] == index]
            if not own:
                yield self._span(HCCL, lane + 1, "Notify_Wait", start, end)
            for number, kind, since, until, source, target, size, link, transport in own:
                details = {"src rank": source, "dst rank": target, "size(Byte)": size, "link type": link}
                details["transport type"] = transport
                yield self._span(HCCL, lane + 1 + number, kind, since, until, **details)
            yield from self._flow(f"e{index}", launch, start, HCCL, lane)
        for index, (name, start, end, launch, lane, _, core) in enumerate(self.kernels):
            if hardware:
                yield self._span(HARDWARE, lane, name, start, end, **{"Task Type": core, "Physic Stream Id": lane})
            yield from self._flow(f"k{index}", launch, start, HARDWARE, lane)
            if index in self.driven:
                yield from self._flow(f"d{index}", 1, start, HARDWARE, lane, "HostToDevice", (CANN, PID))
        for time, kilobytes in self.held:
            counter = {"ph": "C", "pid": MEMORY, "tid": 0, "ts": absolute(time)}
            yield {**counter, "name": "APP/Memory", "args": {"KB": float(kilobytes)}}
            yield {**counter, "name": "Device/Memory", "args": {"KB": 1.0}}
        if hardware:
            kind = {"Task Type": "EVENT_WAIT_SQE", "Physic Stream Id": 2}
            yield self._span(HARDWARE, 2, "EVENT_WAIT", 0, 1, **kind)

    def database(self):
        """Write the database."""
        path = self._output() / f"ascend_{'pytorch' if self.suffix == '_ascend_pt' else 'mindspore'}_profiler_0.db"
        texts = {}

        def text(value):
            return texts.setdefault(value, len(texts))

        connection = sqlite3.connect(path)
        connection.executescript(
            """CREATE TABLE STRING_IDS (id INTEGER PRIMARY KEY, value TEXT);
            CREATE TABLE TASK (startNs INTEGER, endNs INTEGER, connectionId INTEGER, globalTaskId INTEGER,
                streamId INTEGER);
            CREATE TABLE COMPUTE_TASK_INFO (name INTEGER, globalTaskId INTEGER PRIMARY KEY, taskType INTEGER,
                opType INTEGER, inputShapes INTEGER);
            CREATE TABLE COMMUNICATION_OP (opName INTEGER, startNs INTEGER, endNs INTEGER, connectionId INTEGER,
                groupName INTEGER, opType INTEGER, opId INTEGER PRIMARY KEY);
            CREATE TABLE COMMUNICATION_TASK_INFO (globalTaskId INTEGER, taskType INTEGER, planeId INTEGER,
                srcRank INTEGER, dstRank INTEGER, transportType INTEGER, size INTEGER, linkType INTEGER, opId INTEGER);
            CREATE TABLE ENUM_HCCL_TRANSPORT_TYPE (id INTEGER PRIMARY KEY, name TEXT);
            CREATE TABLE ENUM_HCCL_LINK_TYPE (id INTEGER PRIMARY KEY, name TEXT);
            CREATE TABLE NPU_MEM (type INTEGER, ddr NUMERIC, hbm NUMERIC, timestampNs INTEGER);
            CREATE TABLE STEP_TIME (id INTEGER, startNs INTEGER, endNs INTEGER);
            CREATE TABLE CANN_API (startNs INTEGER, endNs INTEGER, type INTEGER, globalTid INTEGER,
                connectionId INTEGER, name INTEGER);
            CREATE TABLE PYTORCH_API (startNs TEXT, endNs TEXT, globalTid INTEGER, connectionId INTEGER, name INTEGER,
                type INTEGER);
            CREATE TABLE CONNECTION_IDS (id INTEGER, connectionId INTEGER);
            CREATE TABLE ENUM_API_TYPE (id INTEGER PRIMARY KEY, name TEXT);
            CREATE TABLE RANK_DEVICE_MAP (rankId INTEGER, deviceId INTEGER);
            INSERT INTO ENUM_API_TYPE VALUES (50001, 'op'), (50003, 'trace'), (10000, 'node');
            INSERT INTO RANK_DEVICE_MAP VALUES (0, 3);"""
        )
        thread = (PID << 32) + PID
        for row in self.steps:
            connection.execute("INSERT INTO STEP_TIME VALUES (?, ?, ?)", (row[0], ns(row[1]), ns(row[2])))
        for name, start, end, own in self.calls:
            row = (str(ns(start)), str(ns(end)), (PID << 32) + own, None, text(name), 50001)
            connection.execute("INSERT INTO PYTORCH_API VALUES (?, ?, ?, ?, ?, ?)", row)
        for index, (name, start, end, launch, lane, kind, core) in enumerate(self.kernels):
            connection.execute("INSERT INTO TASK VALUES (?, ?, ?, ?, ?)", (ns(start), ns(end), index, index, lane))
            row = (text(name), index, text(core), text(kind), text('"8,8"'))
            connection.execute("INSERT INTO COMPUTE_TASK_INFO VALUES (?, ?, ?, ?, ?)", row)
            self._launch(connection, index, launch, thread, text("aten::op"))
        # an event: a task that computes nothing
        connection.execute("INSERT INTO TASK VALUES (?, ?, ?, ?, ?)", (ns(0), ns(1), 900, 900, 2))
        for index, (name, start, end, launch, group) in enumerate(self.exchanges, 1000):
            row = (text(name), ns(start), ns(end), index, text(group), text("hcom_"), index)
            connection.execute("INSERT INTO COMMUNICATION_OP VALUES (?, ?, ?, ?, ?, ?, ?)", row)
            self._launch(connection, index, launch, thread, text("c10d::op"))
        for task, (exchange, plane, kind, start, end, source, target, size, link, transport) in enumerate(
            self.parts, 2000
        ):
            connection.execute("INSERT INTO TASK VALUES (?, ?, NULL, ?, 9)", (ns(start), ns(end), task))
            numbers = key(TRANSPORTS, transport), size, key(LINKS, link), 1000 + exchange
            row = (task, text(kind), plane, source, target, *numbers)
            connection.execute("INSERT INTO COMMUNICATION_TASK_INFO VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
        connection.executemany("INSERT INTO ENUM_HCCL_TRANSPORT_TYPE VALUES (?, ?)", TRANSPORTS.items())
        connection.executemany("INSERT INTO ENUM_HCCL_LINK_TYPE VALUES (?, ?)", LINKS.items())
        for time, kilobytes in self.held:
            row = (text("app"), 0, kilobytes * 1024, ns(time))
            connection.execute("INSERT INTO NPU_MEM VALUES (?, ?, ?, ?)", row)
        connection.executemany("INSERT INTO STRING_IDS VALUES (?, ?)", [(row, value) for value, row in texts.items()])
        connection.commit()
        connection.close()
        return self.path

    def _launch(self, connection, index, launch, thread, name):
        if launch is None:
            return
        connection.execute("INSERT INTO CONNECTION_IDS VALUES (?, ?)", (index, index))
        row = (str(ns(launch)), str(ns(launch) + 500), thread, index, name, 50001)
        connection.execute("INSERT INTO PYTORCH_API VALUES (?, ?, ?, ?, ?, ?)", row)

    def _output(self):
        output = self.path / "ASCEND_PROFILER_OUTPUT"
        output.mkdir(parents=True, exist_ok=True)
        (self.path / f"profiler_info_{self.rank}.json").write_text('{"rank_id": 0}')
        return output

    @staticmethod
    def _span(pid, tid, name, start, end, cat="", **args):
        times = {"ts": absolute(start), "dur": end - start}
        return {"ph": "X", "name": name, "pid": pid, "tid": tid, **times, "cat": cat, "args": args}

    @staticmethod
    def _flow(number, launch, start, pid, tid, category="async_npu", source=(PID, PID)):
        if launch is not None:
            common = {"name": category, "cat": category, "id": number}
            yield {"ph": "s", "pid": source[0], "tid": source[1], "ts": absolute(launch), **common}
            yield {"ph": "f", "bp": "e", "pid": pid, "tid": tid, "ts": absolute(start), **common}


def absolute(microseconds):
    """Return a time as these tools write it: text, three decimals."""
    return f"{BASE + int(microseconds)}.{round(microseconds % 1 * 1000):03d}"


def key(names, name):
    """Return the number under which a table of names has a name."""
    return next(number for number, known in names.items() if known == name)


def ns(microseconds):
    return BASE * 1000 + round(microseconds * 1000)


def sample(folder):
    """Return the builder of a run with one step of two kernels, an exchange and three calls."""
    made = AscendBuilder(folder)
    made.step(1, 0, 100)
    made.call("aten::mm", 4, 8, thread=4300)
    made.call("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 1, 3)
    made.call("Optimizer.step#SGD.step", 50, 60)
    made.kernel("MatMul1", 10, 30.25, launch=5, stream=2, kind="MatMul", core="AI_CORE")
    made.kernel("Add1", 30, 40, launch=6, stream=3, kind="Add", core="AI_VECTOR_CORE")
    made.exchange("hcom_allReduce__077_0_1", 20, 50, launch=7, group="g")
    return made


LAUNCHES = [int(absolute(time).replace(".", "")) for time in (5, 7, 6)]
#: the tasks of `sample`: stream, name, type, core, group, whether it is an exchange, begin of its launch in ns
TASKS = [
    (2, "MatMul1", "MatMul", "AI_CORE", None, False, LAUNCHES[0]),
    (0, "hcom_allReduce__077_0_1", "hcom_allReduce_", "HCCL", "g", True, LAUNCHES[1]),
    (3, "Add1", "Add", "AI_VECTOR_CORE", None, False, LAUNCHES[2]),
]


def exchanging(folder, suffix="_ascend_pt"):
    """Return the builder of a run with one exchange.

    The exchange waited 4 us for another rank. It moved 4 MB to that rank and 40 MB to another one.
    """
    made = AscendBuilder(folder, suffix)
    made.step(7, 0, 100)
    made.kernel("MatMul1", 10, 30, launch=5)
    made.exchange("hcom_allReduce__077_0_1", 20, 50, launch=6, group="77")
    made.part(0, "Memcpy", 20, 21, target=0, size=1_000_000, link="ON_CHIP")
    made.part(1, "Notify_Record", 20, 21, target=1)
    made.part(1, "Notify_Wait", 21, 25, target=1, transport="LOCAL")
    made.part(1, "Memcpy", 25, 30, target=1, size=2_000_000, link="HCCS")
    made.part(1, "Notify_Wait", 30, 32, target=1, transport="LOCAL")
    made.part(1, "Reduce_Inline", 32, 40, target=1, size=2_000_000, link="HCCS")
    made.part(2, "Memcpy", 25, 35, target=2, size=40_000_000, link="HCCS_SW")
    made.hold(5, 2048)
    made.hold(15, 3072)
    return made
