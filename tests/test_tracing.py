"""The native side of device tracing, with a CUPTI that has no device behind it."""

import ctypes
import json
import os
import struct
import subprocess
import sys

import polars as pl
import pytest
from conftest import environment
from fakes_built import fakes  # noqa: F401
from ms_profiler.analysis.clock import Clock
from ms_profiler.analysis.columns import COLUMNS
from ms_profiler.analysis.columns.slots import Wanted
from ms_profiler.analysis.readers import slots
from ms_profiler.job.recorder.python import PythonRecorder
from ms_profiler.job.recorder.tracing import Kinds, Outcome
from ms_profiler.store import reader
from ms_profiler.store.device_format import Device
from ms_profiler.store.format import Kind

#: what a program begins with: a recorder, its tracing, and both fakes
HEAD = """
import ctypes, json, os, sys
from ms_profiler.job.recorder.native import NativeRecorder
from ms_profiler.job.recorder.tracing import Kinds, Outcome
recorder = NativeRecorder()
tracing = recorder.tracing
recorder.open(sys.argv[1])
def driver():
    library = ctypes.CDLL("libcuda.so.1")
    library.cuInit(0)
    return library
def cupti():
    library = ctypes.CDLL("libcupti.so.12")
    library.fake_launch.argtypes = [ctypes.c_char_p, ctypes.c_uint32, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_int]
    library.fake_now.restype = ctypes.c_uint64
    return library
def traced():
    driver()
    assert tracing.attach("libcupti.so.12") == (Outcome.DONE, "")
    assert tracing.record(Kinds.BASIC) == (Outcome.DONE, "")
    return cupti()
def counts():
    found = tracing.counts()
    return {name: getattr(found, name) for name in found.__dataclass_fields__}
"""


@pytest.fixture
def run(fakes, tmp_path):  # noqa: F811
    """Return a function that runs a program with the fakes; it returns what that printed as JSON, and its log."""

    def run(program, *, words="", expect=0, **variables):
        store, log = tmp_path / f"process_{len(list(tmp_path.iterdir())) + 1}", tmp_path / "log"
        store.mkdir()
        env = environment(
            LD_LIBRARY_PATH=str(fakes), FAKE_CUPTI=words, FAKE_CUPTI_LOG=str(log), **{"PYTHONPATH": "", **variables}
        )
        done = subprocess.run(
            [sys.executable, "-c", HEAD + program, str(store)],
            env=env,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        assert done.returncode == expect, done.stderr
        assert done.stderr == ""
        lines = [line.split() for line in log.read_text().splitlines()] if log.exists() else []
        calls = [(call, int(argument)) for _, call, argument in lines]
        return json.loads(done.stdout) if done.stdout else None, calls, store

    return run


ANY = Wanted(pl.Series([], dtype=pl.UInt32), 0, Clock(((0, 0),), 0), 0, (0, 0), (0, 0), True)


def records(store):
    """Return the device slots of a store as they stand: kind, type, name, and the three words, in order."""
    counts = reader.ReadCounts()
    process = reader.read_process(str(store), counts)
    rows = []
    for batch in slots.batches(process, counts):
        for row in COLUMNS.coarse([segment.piece for segment in batch], ANY, 1).table.iter_rows(named=True):
            if row["kind"] in (Kind.DEVICE, Kind.DEVICE_PLACE):
                text = process.strings.get(row["id"], "")
                rows.append((Kind(row["kind"]), Device(row["category"]), text, row))
    return rows


def test_without_a_driver_in_use_nothing_is_touched(run):
    found, calls, _ = run("""
cuda = ctypes.CDLL("libcuda.so.1")
before = tracing.ready(), tracing.attach("libcupti.so.12")[0], tracing.record(Kinds.BASIC)[0], tracing.flush()
cuda.cuInit(0)
print(json.dumps([*before, tracing.ready()]))
""")
    assert found == [False, Outcome.IDLE, Outcome.IDLE, Outcome.IDLE, True]
    assert calls == []


def test_a_driver_without_devices_is_none(run):
    found, calls, _ = run("driver(); print(json.dumps(tracing.ready()))", FAKE_CUDA_DEVICES="0")
    assert (found, calls) == (False, [])


def test_the_subscription_comes_first_and_all_is_given_back(run):
    found, calls, _ = run("traced(); print(tracing.detach().value); recorder.close()")
    assert found == Outcome.DONE
    names = [name for name, _ in calls]
    assert names[:2] == ["GetVersion", "Subscribe"]
    assert names.index("RegisterTimestampCallback") < names.index("RegisterCallbacks") < names.index("Enable")
    assert ("SetThreadIdType", 1) in calls
    enabled = [kind for name, kind in calls if name == "Enable"]
    assert enabled[0] == 10 and 3 not in enabled, "the other kind of kernels runs them one after the other"
    assert {kind for name, kind in calls if name == "Disable"} == set(enabled)
    assert calls[-4:] == [("FlushAll", 1), ("RegisterTimestampCallback", 0), ("SetThreadIdType", 0), ("Unsubscribe", 1)]


def test_records_arrive_with_our_clock(run):
    found, _, store = run("""
gpu = traced()
before = recorder.now()
start = gpu.fake_now() + 1000
gpu.fake_launch(b"first", 7, start, 500, 0)
gpu.fake_copy(1, ctypes.c_uint64(4096), 9, ctypes.c_uint64(200))
gpu.fake_synchronize(7); gpu.fake_synchronize(9)
tracing.detach()
after = recorder.now()
recorder.close()
print(json.dumps([before, start, after, os.getpid(), counts()]))
""")
    before, start, after, thread, counted = found
    rows = records(store)
    heads = [(kind, name) for what, kind, name, _ in rows if what == Kind.DEVICE]
    assert sorted(heads) == sorted(
        [
            (Device.KERNEL, "first"),
            (Device.API, "cudaLaunchKernel_v7000"),
            (Device.COPY, "Memcpy"),
            *3 * [(Device.API, "cudaStreamSynchronize_v3020")],
            *2 * [(Device.SYNC, "stream synchronize")],
        ]
    )
    assert (counted["records"], counted["uncertainty_ns"], counted["version"]) == (len(heads), 0, 26)
    where = {name: index for index, (_, _, name, _) in enumerate(rows)}
    kernel = rows[where["first"]][3]
    place = rows[where["first"] + 1]
    assert (kernel["start_ns"], kernel["end_ns"]) == (start, start + 500)
    assert before < start < after
    assert place[0] == Kind.DEVICE_PLACE
    assert (place[3]["start_ns"] >> 32, place[3]["end_ns"], place[3]["arg"]) == (7, 1, 8)
    api = rows[where["cudaLaunchKernel_v7000"]][3]
    assert api["arg"] == thread << 32 | kernel["arg"]
    copy = rows[where["Memcpy"] + 1]
    assert (copy[2], copy[3]["arg"]) == ("HtoD", 4096)


#: fields of a record by their offsets, and what is kept of it: type, name, (device, stream, context, graph), amount,
#: detail, correlation. The offsets are those of CUPTI's headers, 11.8 to 13.5.
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


def test_every_kind_of_record_is_read_from_its_place(run):
    """Fields of 8 bytes, which none of the others overlap, are written first."""
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


def test_another_clock_is_fitted_and_its_uncertainty_told(run):
    found, _, store = run(
        """
gpu = traced()
before = recorder.now()
gpu.fake_launch(b"first", 7, 0, 500, 0)
gpu.fake_synchronize(7)
tracing.detach()
after = recorder.now()
recorder.close()
print(json.dumps([before, after, counts()]))
""",
        words="own-clock",
    )
    before, after, counted = found
    assert 0 < counted["uncertainty_ns"] < 10**9
    (kernel,) = [row for what, _, name, row in records(store) if what == Kind.DEVICE and name == "first"]
    slack = counted["uncertainty_ns"] + 1000
    assert before - slack < kernel["start_ns"] < kernel["end_ns"] < after + slack
    assert abs(kernel["end_ns"] - kernel["start_ns"] - 500) < slack


@pytest.mark.parametrize(
    ("words", "outcome", "why"),
    [
        ("owned", Outcome.OWNED, "cuptiSubscribe answered 39, CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED"),
        ("fails", Outcome.FAILED, "cuptiGetVersion answered 999"),
        ("ancient", Outcome.FAILED, "libcupti.so.12 is of version 14, and 11.8 is the oldest that is known"),
    ],
)
def test_what_cannot_be_taken_is_left_alone(run, words, outcome, why):
    found, calls, _ = run(
        'driver(); print(json.dumps([*tracing.attach("libcupti.so.12"), tracing.record(Kinds.BASIC)[0]]))', words=words
    )
    assert found == [outcome, why, Outcome.IDLE]
    assert [name for name, _ in calls] in (["GetVersion"], ["GetVersion", "Subscribe"])


def test_a_library_that_is_not_there_is_not_the_last_one(run):
    found, _, _ = run(
        'driver(); print(json.dumps([tracing.attach("libnone.so.1"), tracing.attach("libcuda.so.1"),'
        ' tracing.attach("libcupti.so.12")]))'
    )
    (missing, why), (other, what), (there, _) = found
    assert (missing, other, there) == (Outcome.MISSING, Outcome.MISSING, Outcome.DONE)
    assert "libnone.so.1" in why
    assert what == "libcuda.so.1 has no cuptiGetVersion"


def test_13_2_is_not_called_without_a_driver(run):
    _, calls, _ = run('tracing.attach("libcupti.so.12")', words="crashes")
    assert calls == []
    found, _, _ = run("traced(); print(tracing.detach().value)", words="crashes")
    assert found == Outcome.DONE


def test_when_kernels_are_refused_nothing_is_recorded(run):
    found, calls, _ = run(
        'driver(); tracing.attach("libcupti.so.12"); print(json.dumps([tracing.record(Kinds.BASIC),'
        " tracing.detach()]))",
        words="no-kernels",
    )
    assert found == [[Outcome.FAILED, "cuptiActivityEnable answered 15, CUPTI_ERROR_OF_THE_FAKE"], Outcome.DONE]
    assert [kind for name, kind in calls if name == "Enable"] == [10]


def test_strange_records_are_counted_and_the_others_kept(run):
    found, _, store = run("""
gpu = traced()
gpu.fake_strange()
gpu.fake_launch(None, 7, 0, 100, 0)
gpu.fake_launch(b"after", 7, 0, 100, 0)
gpu.fake_synchronize(7)
gpu.fake_damage()
gpu.fake_launch(b"never ends", 7, 0, 3600 * 10**9, 0)
tracing.detach(); recorder.close()
print(json.dumps(counts()))
""")
    assert (found["unknown"], found["unfinished"], found["unreadable"], found["lost"]) == (1, 1, 1, 0)
    kernels = [name for what, kind, name, _ in records(store) if what == Kind.DEVICE and kind == Device.KERNEL]
    assert kernels == ["", "after"]


def test_kernels_of_other_threads_and_many_buffers(run):
    found, _, store = run("""
import threading
gpu = traced()
names = [b"kernel %d" % number for number in range(3)]
def work(stream):
    for _ in range(20000):
        gpu.fake_launch(names[stream], stream, 0, 10, 0)
threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
for number in range(3): gpu.fake_synchronize(number)
tracing.detach(); recorder.close()
print(json.dumps([counts(), [thread.native_id for thread in threads]]))
""")
    counted, threads = found
    assert counted["lost"] == counted["dropped"] == counted["unfinished"] == 0
    rows = records(store)
    calls = {row["arg"] % 2**32: row["arg"] >> 32 for what, kind, _, row in rows if kind == Device.API}
    launched = [
        (name, calls[row["arg"]]) for what, kind, name, row in rows if (what, kind) == (Kind.DEVICE, Device.KERNEL)
    ]
    assert len(launched) == 60000
    assert set(launched) == {(f"kernel {number}", thread) for number, thread in enumerate(threads)}


#: launches while no buffer comes back, and what becomes of them
TOO_MANY = 250000


@pytest.mark.parametrize("words", ["new", ""])
def test_what_does_not_fit_is_counted(run, words):
    """Buffers that do not come back: newer libraries are refused more, older ones get scratch ones, up to a limit."""
    found, calls, _ = run(
        f"""
gpu = traced()
gpu.fake_keep(1)
for _ in range({TOO_MANY}): gpu.fake_launch(b"one", 7, 0, 10, 0)
gpu.fake_keep(0)
gpu.fake_synchronize(7)
tracing.detach(); recorder.close()
print(json.dumps(counts()))
""",
        words=words,
    )
    kept = found["records"] + found["lost"]
    assert found["records"] > 300000
    if words:
        assert (found["lost"], found["stopped"]) == (0, 0)
        assert found["dropped"] == 2 * TOO_MANY + 2 - kept > 0
    else:
        assert (found["dropped"], found["stopped"]) == (0, 1)
        assert 0 < found["lost"] < 2 * TOO_MANY + 2 - found["records"]
        assert [name for name, _ in calls].count("Disable") == 8


def test_a_fork_child_calls_nothing_and_ends(run):
    found, calls, _ = run("""
gpu = traced()
pid = os.fork()
if pid == 0:
    done = [tracing.ready(), tracing.attach("libcupti.so.12")[0], tracing.flush(), tracing.detach()]
    sys.exit(done == [False, Outcome.IDLE, Outcome.IDLE, Outcome.IDLE])
status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
gpu.fake_launch(b"after", 7, 0, 10, 0)
gpu.fake_synchronize(7)
tracing.detach()
print(json.dumps([status, counts()["records"]]))
""")
    assert found == [1, 4]
    assert [name for name, _ in calls].count("Subscribe") == 1


def test_it_can_be_taken_again(run):
    found, calls, _ = run("""
for _ in range(2):
    gpu = traced()
    gpu.fake_launch(b"again", 7, 0, 10, 0)
    gpu.fake_synchronize(7)
    tracing.detach()
print(json.dumps(counts()))
""")
    assert found["records"] == 8
    assert [name for name, _ in calls].count("Unsubscribe") == 2


def test_a_library_that_hangs_does_not_hold_up_the_end(run):
    found, _, _ = run(
        "traced(); print(json.dumps([tracing.detach(), tracing.flush(), tracing.ready()])); sys.stdout.flush();"
        " os._exit(0)",
        words="hangs",
    )
    assert found == [Outcome.HANGS, Outcome.HANGS, False]


def test_without_the_extension_there_is_no_tracing():
    assert PythonRecorder().tracing is None
    assert {outcome.name for outcome in Outcome} == {"DONE", "IDLE", "OWNED", "FAILED", "HANGS", "MISSING"}


def test_the_names_of_outcomes_and_kinds_are_those_of_the_extension():
    from ms_profiler import _native

    declared = {name[10:]: getattr(_native.lib, name) for name in dir(_native.lib) if name.startswith("MSP_TRACE_")}
    ours = {**Outcome.__members__, **Kinds.__members__}
    assert ours.pop("NOTHING") == 0
    assert declared == ours


def test_libraries_of_the_fakes_are_what_a_vendor_exports(fakes):  # noqa: F811
    assert ctypes.CDLL(str(fakes / "libcupti.so.12"), mode=os.RTLD_LOCAL).cuptiActivityGetNextRecord
