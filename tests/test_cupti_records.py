"""For every kind of CUPTI's records, ms-profiler reads the fields from CUPTI's places."""

import struct

from fakes_built import fakes  # noqa: F401
from ms_profiler.store.device_format import Device
from ms_profiler.store.format import Kind
from traced import records, run  # noqa: F401

#: (kind, offset of the times, {offset of a field: its value}, stored record). A stored record is (type, name, (device,
#: stream, context, graph), amount, detail, correlation). The offsets are those of CUPTI's headers 11.8 to 13.5.
KERNEL = {40: 1, 44: 2, 48: 3, 52: 5, 56: 6, 60: 7, 92: 99, 156: 4}
COPY = {8: 4096, 32: 1, 36: 2, 40: 3, 44: 99}
EVERY_KIND = [
    (3, 16, KERNEL, ("KERNEL", "", (1, 3, 2, 4), 210, "", 99)),
    (10, 16, KERNEL, ("KERNEL", "", (1, 3, 2, 4), 210, "", 99)),
    (1, 16, COPY | {4: 8, 72: 4}, ("COPY", "Memcpy", (1, 3, 2, 4), 4096, "DtoD", 99)),
    (2, 16, COPY | {4: 8, 72: 4}, ("SET", "Memset", (1, 3, 2, 4), 4096, "", 99)),
    (22, 16, COPY | {4: 10, 44: 7, 60: 99}, ("COPY", "Memcpy", (1, 3, 2, 0), 4096, "PtoP", 99)),
    (5, 8, {4: 211, 28: 77, 32: 99}, ("API", "cudaLaunchKernel_v7000", None, 77, "", 99)),
    (4, 8, {4: 307, 28: 77, 32: 99}, ("API", "cuLaunchKernel", None, 77, "", 99)),
    (38, 8, {4: 3, 24: 99, 28: 2, 32: 3}, ("SYNC", "stream synchronize", (0, 3, 2, 0), 0, "", 99)),
    (17, 24, {4: 4 << 16}, ("OVERHEAD", "module load", None, 0, "", 0)),
    (51, 8, {4: 99, 24: 1, 28: 4, 32: 2, 36: 3}, ("GRAPH", "CUDA graph", (1, 3, 2, 4), 0, "", 99)),
    (
        49,
        32,
        {4: 2, 8: 3, 12: 99, 24: 8192, 52: 1, 56: 2, 60: 3},
        ("MEMORY", "device memory", (1, 3, 2, 0), 8192, "release", 99),
    ),
]


def test_every_kind_of_record_is_read_from_its_place(run):  # noqa: F811
    """The test writes the fields of 8 bytes first, because no other field overlaps them."""
    made = []
    for kind, time, fields, _ in EVERY_KIND:
        record = bytearray(256)
        struct.pack_into("=QQ", record, time, 1000, 1000 if kind == 49 else 3000)
        if kind == 49:
            struct.pack_into("=Q", record, time + 8, 0)
        for offset, value in {0: kind, **fields}.items():
            struct.pack_into("=I", record, offset, value)
        made.append(record.hex())
    found, calls, store = run(
        f"""
driver(); tracing.attach("libcupti.so.12")
assert tracing.record(Kinds.BASIC | Kinds.DRIVER | Kinds.GRAPHS)[0] == Outcome.DONE
gpu = cupti()
gpu.cuptiActivityEnable(3)
for record in {made!r}:
    gpu.fake_emit(bytes.fromhex(record))
tracing.detach(); recorder.close()
print(json.dumps(counts()))
"""
    )
    assert found["records"] == len(EVERY_KIND)
    assert {("Enable", 4), ("Enable", 51)} <= set(calls)
    rows = records(store)
    seen = []
    for index, (what, kind, name, row) in enumerate(rows):
        if what != Kind.DEVICE:
            continue
        assert (row["start_ns"], row["end_ns"]) == (1000, 1000 if kind == Device.MEMORY else 3000)
        if index + 1 < len(rows) and rows[index + 1][0] == Kind.DEVICE_PLACE:
            _, _, detail, place = rows[index + 1]
            where = (*unpacked(place["start_ns"]), *unpacked(place["end_ns"]))
            seen.append((kind.name, name, where, place["arg"], detail, row["arg"]))
        else:
            correlation, thread = unpacked(row["arg"])
            seen.append((kind.name, name, None, thread, "", correlation))
    assert seen == [expected for *_, expected in EVERY_KIND]


def unpacked(word):
    return word % 2**32, word >> 32
