"""For every kind of msPTI's records, ms-profiler reads the fields from msPTI's places, as its header packs them."""

import struct

import pytest
from fakes_built import ascend_fakes  # noqa: F401
from ms_profiler.store.device_format import Device
from ms_profiler.store.format import Kind
from traced import records, run_ascend  # noqa: F401

#: values of a field that is the address of a text
TEXT, OTHER = "text", "other"
#: (kind, size of the record, offset of its begin and end, {offset: field}, stored record). A field is (value, width) or
#: a text. A stored record is (type, name, (device, stream), amount, detail, correlation, thread).
EVERY_KIND = [
    (2, 56, 4, {20: (1, 4), 24: (3, 4), 28: (99, 8), 36: OTHER, 44: TEXT}, ("KERNEL", TEXT, (1, 3), 0, OTHER, 99, 0)),
    (3, 48, 4, {20: (5, 4), 24: (77, 4), 28: (99, 8), 36: TEXT}, ("API", TEXT, None, 0, "", 99, 77)),
    (4, 56, 4, {20: (1, 4), 24: (3, 4), 36: TEXT, 44: OTHER}, ("COMMUNICATION", TEXT, (1, 3), 0, OTHER, 0, 0)),
    (
        5,
        64,
        20,
        {4: (1, 4), 8: (1, 4), 12: (99, 8), 36: (4096, 8), 44: (8192, 8), 52: (5, 4), 56: (1, 4), 60: (3, 4)},
        ("MEMORY", "device memory", (1, 3), 8192, "release", 99, 0),
    ),
    (
        6,
        56,
        16,
        {4: (3, 4), 8: (4096, 8), 32: (1, 4), 36: (3, 4), 40: (99, 8), 48: (1, 1)},
        ("SET", "Memset", (1, 3), 4096, "", 99, 0),
    ),
    (
        7,
        56,
        16,
        {4: (3, 4), 8: (4096, 8), 32: (1, 4), 36: (3, 4), 40: (2**40 + 99, 8)},
        ("COPY", "Memcpy", (1, 3), 4096, "DtoH", 99, 0),
    ),
    (
        9,
        72,
        24,
        {4: (11, 4), 8: (100, 8), 16: (1, 4), 20: (3, 4), 40: OTHER, 48: TEXT, 56: OTHER, 64: (99, 8)},
        ("COMMUNICATION", TEXT, (1, 3), 200, OTHER, 99, 0),
    ),
]
NUMBERS = {1: "=B", 4: "=I", 8: "=Q"}
#: ns from the begin to the end of each record; the program adds the wall clock's current time to both
LONG = 2000


def made(kind, size, time, fields):
    """Return a record in a form for the program: its bytes in hex, the offset of its times, and {offset: text}."""
    record = bytearray(size)
    struct.pack_into("=I", record, 0, kind)
    texts = {}
    for offset, field in fields.items():
        if isinstance(field, str):
            texts[offset] = field
        else:
            struct.pack_into(NUMBERS[field[1]], record, offset, field[0])
    return record.hex(), time, texts


PROGRAM = """
npu = traced(Kinds.BASIC | Kinds.MEMORY)
for kind in range(1, 13):
    npu.msptiActivityEnable(kind)
kept = {{name: ctypes.create_string_buffer(name.encode()) for name in ("text", "other")}}
for content, time, texts in {records!r}:
    record = bytearray.fromhex(content)
    begin = npu.fake_now()
    record[time:time + 16] = bytes(U64(begin)) + bytes(U64(begin + {long}))
    for offset, name in texts.items():
        record[offset:offset + 8] = bytes(U64(ctypes.addressof(kept[name])))
    npu.fake_emit(bytes(record), len(record))
tracing.detach(); recorder.close()
print(json.dumps(counts()))
"""


def read(store):
    """Return the stored fields of each record, and the duration of each record in ns."""
    rows, seen, lengths = records(store), [], []
    for at, (what, kind, name, row) in enumerate(rows):
        if what != Kind.DEVICE:
            continue
        lengths.append(row["end_ns"] - row["start_ns"])
        following = rows[at + 1] if at + 1 < len(rows) else (None,)
        placed = following[0] == Kind.DEVICE_PLACE
        where = (following[3]["start_ns"] % 2**32, following[3]["start_ns"] >> 32) if placed else None
        amount, detail = (following[3]["arg"], following[2]) if placed else (0, "")
        seen.append((kind.name, name, where, amount, detail, row["arg"] % 2**32, row["arg"] >> 32))
    return seen, lengths


def test_every_kind_of_record_is_read_from_its_place(run_ascend, ascend_fakes):  # noqa: F811
    program = PROGRAM.format(records=[made(*row[:4]) for row in EVERY_KIND], long=LONG)
    found, _, store = run_ascend(program, LD_PRELOAD=str(ascend_fakes / "libmspti.so"))
    assert (found["records"], found["unknown"], found["unreadable"]) == (len(EVERY_KIND), 0, 0)
    seen, lengths = read(store)
    assert seen == [expected for *_, expected in EVERY_KIND]
    assert all(abs(length - LONG) <= 2 for length in lengths)


@pytest.mark.parametrize(("kind", "size"), [(8, 24), (10, 48), (11, 48), (12, 48)])
def test_records_of_other_kinds_are_skipped(run_ascend, kind, size):  # noqa: F811
    rows = [(kind, size, 4, {}), EVERY_KIND[0][:4]]
    found, _, store = run_ascend(PROGRAM.format(records=[made(*row) for row in rows], long=LONG))
    assert (found["records"], found["unknown"], found["unreadable"]) == (1, 1, 0)
    assert read(store)[0] == [EVERY_KIND[0][-1]]


def test_the_table_has_every_type():
    assert {expected[0] for *_, expected in EVERY_KIND} <= set(Device.__members__)
