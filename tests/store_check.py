"""Read the files of a recorder by the format alone, and reject every byte that the format does not allow."""

import os
import re
import struct
from dataclasses import dataclass, field

HEADER = struct.Struct("=QIIIIQIIQQQ64s")
SLOT = struct.Struct("=QQQIBBBB")
MAGIC = int.from_bytes(b"MSPSTOR1", "little")
OPEN, SPAN, INSTANT, COUNTER, STEP, STRING, ANCHOR, THREAD = range(1, 9)
OPERANDS = 11
PROCESSOR = 12
RAISED, ABANDONED, UNRECORDED = 1, 2, 4


@dataclass
class Record:
    """One event of a store, with times in ns."""

    kind: int
    category: int
    flags: int
    name: str
    start: int
    end: int
    arg: int
    thread: int
    segment: int

    @property
    def value(self):
        """Return the value of a counter, which `arg` contains as the bits of a double."""
        return struct.unpack("=d", struct.pack("=Q", self.arg))[0]


@dataclass
class Store:
    """The content of the store of one process.

    `torn` counts slots that a killed process had not completed. `unborn` counts files that it had made but whose header
    it had not completed.
    """

    records: list[Record] = field(default_factory=list)
    strings: dict[int, str] = field(default_factory=dict)
    anchors: list[tuple[int, int, int]] = field(default_factory=list)
    threads: dict[int, set[tuple[int, str]]] = field(default_factory=dict)  # number -> (tid, name)
    looks: list[tuple[int, int, int, int]] = field(default_factory=list)  # (time, time of the look before, ran, waited)
    capacities: list[int] = field(default_factory=list)  # slots of each event segment, in order
    dropped: int = 0
    dropped_limit: int = 0
    bytes: int = 0
    torn: int = 0
    unborn: int = 0

    def spans(self, name=None):
        """Return the ended spans with a name, or all ended spans."""
        return [record for record in self.records if record.kind == SPAN and name in (None, record.name)]

    def named(self, name):
        """Return all events with a name."""
        return [record for record in self.records if record.name == name]


def read_store(folder, pid=None, killed=False):
    """Read and check the folder of one process, and return its content.

    Args:
        folder: the directory of the segments.
        pid: the pid of the writer; this process by default.
        killed: whether the writer may have been killed while it wrote a slot or made a file.
    """
    store = Store()
    names = sorted(os.listdir(folder))
    contents = []
    for name in names:
        assert re.fullmatch(r"\d{6}\.seg", name), name
        path = os.path.join(folder, name)
        assert os.stat(path).st_mode & 0o7777 == 0o640
        with open(path, "rb") as stream:
            content = stream.read()
        store.bytes += len(content)
        if killed and not any(content[:8]):  # the recorder writes the magic last
            assert not any(content[128:]), f"{name}: slots without a header"
            store.unborn += 1
            continue
        contents.append((name, content, _check_header(name, content, os.getpid() if pid is None else pid, store)))
    assert contents, f"{folder} is empty"
    assert contents[0][0] == "000000.seg"
    assert contents[0][2], "segment 0 is not the control stream"
    for name, content, control in contents:
        if control:
            _read_control(name, content, store, killed)
    runs = []
    for name, content, control in contents:
        if not control:
            runs += _read_events(name, content, store, killed)
    # A segment may be older than its first use, and several threads may use it one after another.
    store.records = [record for _, records in sorted(runs, key=lambda run: run[0]) for record in records]
    return store


def _check_header(name, content, pid, store):
    magic, version, header_size, slot_size, flags, capacity, writer, index, created, dropped, limit, rest = (
        HEADER.unpack(content[:128])
    )
    assert (magic, version, header_size, slot_size, rest) == (MAGIC, 1, 128, 32, bytes(64)), name
    assert flags in (0, 1), name
    assert len(content) <= 128 + capacity * 32 and len(content) % 32 == 0, name  # closing cuts off the unused slots
    assert writer == pid, name
    assert index == int(name[:6])
    assert created > 0
    assert limit <= dropped
    if index == 0:
        store.dropped, store.dropped_limit = dropped, limit
    else:
        assert dropped == 0, f"{name}: drops belong into segment 0"
    if not flags:
        store.capacities.append(capacity)
    return bool(flags)


def _slots(name, content, store, killed):
    """Yield (number, slot) up to the first uncommitted slot, and check that no data follows it."""
    position = 128
    while position < len(content):
        slot = SLOT.unpack_from(content, position)
        if slot[4] == 0:
            break
        yield (position - 128) // 32, slot
        position += 32 * (1 + slot[7])
    rest = content[position:]
    if not any(rest):
        return
    assert killed, f"{name}: bytes behind the last committed slot"
    # The rest may be one slot without its last word, or the payload of a string whose head was not committed.
    assert not any(rest[28:32]), f"{name}: a committed slot behind one that is not"
    store.torn += 1


def _read_control(name, content, store, killed):
    for number, (start, end, arg, identity, kind, category, flags, extra) in _slots(name, content, store, killed):
        assert start > 0, (name, number)
        assert (category, flags) == (0, 0), (name, number)
        if kind == STRING:
            assert end == 0
            assert 1 <= arg <= 8160
            assert extra == -(-arg // 32), (name, number)
            assert identity >= 1
            assert identity not in store.strings, f"string {identity} twice"
            begin = 128 + (number + 1) * 32
            payload = content[begin : begin + extra * 32]
            assert len(payload) == extra * 32
            assert not any(payload[arg:])
            store.strings[identity] = payload[:arg].decode()
        else:
            assert kind == ANCHOR, (name, number, kind)
            assert (identity, extra) == (0, 0)
            assert 0 < arg < 10**9
            store.anchors.append((start, end, arg))


def _read_events(name, content, store, killed):
    """Return (time, records) for each thread that wrote to the segment; the time is that of its first slot."""
    runs = []
    thread, known, last_begin = 0, -1, 0
    for number, (start, end, arg, identity, kind, category, flags, extra) in _slots(name, content, store, killed):
        if kind == PROCESSOR:
            values = (name, number, known, start, end, arg, category, flags)
            # a new thread may have used no processor time yet that the system has counted, so `arg` may be 0
            assert known >= 0 and 0 < end <= start and arg >= 0 and (category, flags) == (0, 0), values
            store.looks.append((start, end, arg, identity))
            continue
        assert identity == 0 or identity in store.strings, f"{name} slot {number}: no string {identity}"
        assert extra == 0
        assert flags & ~(RAISED | ABANDONED | UNRECORDED) == 0
        label = store.strings.get(identity, "")
        if kind == THREAD:
            assert start > 0
            assert end > 0
            assert arg > 0
            thread, known, last_begin = arg, number, 0
            store.threads.setdefault(arg, set()).add((end, label))
            runs.append((start, []))
            continue
        assert kind in (OPEN, SPAN, INSTANT, COUNTER, STEP, OPERANDS), (name, number, kind)
        assert known >= 0, f"{name} slot {number}: no thread yet"
        if kind == OPEN:
            assert end == 0 or killed
            store.torn += end != 0
        else:
            assert end >= start
        if kind == OPEN:
            assert start >= last_begin, f"{name} slot {number}: spans out of order"
            last_begin = start
        runs[-1][1].append(Record(kind, category, flags, label, start, end, arg, thread, int(name[:6])))
    return runs
