"""Native tracing of an NPU handles each known failure of msPTI; the library is made up and has no device."""

import pytest
from fakes_built import ASCEND, ascend_fakes, build  # noqa: F401
from ms_profiler.job.recorder.tracing import Outcome
from ms_profiler.store.device_format import Device, Source
from ms_profiler.store.format import Kind
from traced import records, run_ascend  # noqa: F401

KINDS = {"MARKER": 1, "KERNEL": 2, "API": 3, "HCCL": 4, "MEMORY": 5, "MEMSET": 6, "MEMCPY": 7, "COMMUNICATION": 9}


@pytest.fixture
def run(run_ascend):  # noqa: F811
    """Return a function that runs a program with the fake libraries of CANN."""
    return run_ascend


def heads(store):
    """Return (type, name) of each device record in a store, in order."""
    return [(kind, name) for what, kind, name, _ in records(store) if what == Kind.DEVICE]


def of(calls, name):
    return [argument for call, argument in calls if call == name]


def test_without_the_runtime_in_use_nothing_is_touched(run):
    found, calls, _ = run("""
before = tracing.ready(), tracing.attach("libmspti.so")[0], tracing.record(Kinds.BASIC)[0], tracing.flush()
driver()
mapped = "libmspti" in open("/proc/self/maps").read()
print(json.dumps([*before, mapped, tracing.ready()]))
""")
    assert found == [False, Outcome.IDLE, Outcome.IDLE, Outcome.IDLE, False, True]
    assert calls == []


def test_a_driver_without_devices_is_none(run):
    found, calls, _ = run("driver(); print(json.dumps(tracing.ready()))", FAKE_NPUS="0")
    assert (found, calls) == (False, [])


def test_the_subscription_comes_first_and_is_given_back(run):
    found, calls, _ = run("traced(); print(tracing.detach().value); recorder.close()")
    assert found == Outcome.DONE
    names = [name for name, _ in calls]
    assert names[:3] == ["Subscribe", "RegisterCallbacks", "Enable"]
    assert of(calls, "Enable") == [KINDS[name] for name in ("KERNEL", "API", "COMMUNICATION", "MARKER")]
    assert sorted(of(calls, "Disable")) == sorted(of(calls, "Enable"))
    assert names[-2:] == ["FlushAll", "Unsubscribe"]
    assert max(at for at, name in enumerate(names) if name == "Disable") < names.index("Unsubscribe") - 1


def test_records_arrive_with_our_clock(run):
    found, _, store = run("""
npu = traced()
before = recorder.now()
wall = npu.fake_now()
npu.fake_kernel(b"MatMulV2", b"KERNEL_AICORE", 7, 0, 500)
npu.fake_exchange(b"hcom_allReduce__1", b"hccl_world_group", 1024, 20, 0, 300)
npu.fake_marker(1, 5, b"here", b"default", -1)
npu.fake_synchronize()
tracing.detach()
after = recorder.now()
recorder.close()
print(json.dumps([before, after, os.getpid(), counts()]))
""")
    before, after, thread, counted = found
    assert sorted(heads(store)) == sorted(
        [
            (Device.KERNEL, "MatMulV2"),
            (Device.COMMUNICATION, "hcom_allReduce__1"),
            (Device.MARKER, "here"),
            (Device.API, "LaunchKernel"),
            (Device.API, "HcclAllReduce"),
        ]
    )
    assert counted["records"] == 5
    assert sum(counted[name] for name in ("unknown", "unfinished", "unreadable", "lost", "dropped")) == 0
    rows = records(store)
    where = {name: index for index, (what, _, name, _) in enumerate(rows) if what == Kind.DEVICE}
    slack = counted["uncertainty_ns"] + 1000
    assert 0 < slack < 10**8
    for what, _, _, row in rows:
        if what == Kind.DEVICE:
            assert before - slack < row["start_ns"] <= row["end_ns"] < after + slack
            assert row["flags"] == Source.MSPTI
    kernel, place = rows[where["MatMulV2"]][3], rows[where["MatMulV2"] + 1]
    assert abs(kernel["end_ns"] - kernel["start_ns"] - 500) < 100
    assert (place[2], place[3]["start_ns"] >> 32) == ("KERNEL_AICORE", 7)
    assert rows[where["LaunchKernel"]][3]["arg"] == thread << 32 | kernel["arg"]
    exchange = rows[where["hcom_allReduce__1"] + 1]
    assert (exchange[2], exchange[3]["arg"]) == ("hccl_world_group", 4096)
    assert rows[where["here"]][3]["arg"] == thread << 32 | 5
    assert rows[where["here"] + 1][2] == "default"


def test_records_of_a_preloaded_library(run, ascend_fakes):  # noqa: F811
    program = """
npu = traced(Kinds.BASIC | Kinds.MEMORY)
npu.fake_copy(2, 4096, 9, 200)
npu.fake_synchronize()
tracing.detach(); recorder.close()
print(json.dumps(counts()["records"]))
"""
    found, _, store = run(program, LD_PRELOAD=str(ascend_fakes / "libmspti.so"))
    assert found == 4
    assert sorted(heads(store)) == sorted(
        [(Device.API, "MemcpyAsync"), (Device.COPY, "Memcpy"), (Device.MEMORY, "device memory"), (Device.SET, "Memset")]
    )
    assert {name for what, _, name, _ in records(store) if what == Kind.DEVICE_PLACE} == {"", "HtoD", "allocate"}
    found, _, _ = run(program)
    assert found == 1


@pytest.mark.parametrize(
    ("words", "left"),
    [
        ("", "memory (not preloaded), sets (not preloaded), copies (not preloaded)"),
        ("old", "communication (answered 1), memory (not preloaded), sets (not preloaded), copies (not preloaded)"),
        ("no-calls", "calls (answered 999), memory (not preloaded), sets (not preloaded), copies (not preloaded)"),
    ],
)
def test_a_refused_kind_is_left_out_and_reported(run, words, left):
    found, _, store = run(
        """
driver(); tracing.attach("libmspti.so")
outcome, why = tracing.record(Kinds.BASIC | Kinds.MEMORY)
npu = mspti()
npu.fake_kernel(b"Add", b"KERNEL_AIVEC", 7, 0, 500)
npu.fake_synchronize()
tracing.detach(); recorder.close()
print(json.dumps([outcome, why]))
""",
        words=words,
    )
    assert found == [Outcome.DONE, left]
    assert (Device.KERNEL, "Add") in heads(store)


def test_an_older_version_has_another_kind_of_communication(run, ascend_fakes):  # noqa: F811
    _, calls, store = run(
        """
npu = traced()
npu.fake_exchange(b"hcom_allReduce__1", b"group", 1024, 20, 0, 300)
npu.fake_synchronize()
tracing.detach(); recorder.close()
""",
        words="old",
        LD_PRELOAD=str(ascend_fakes / "libmspti.so"),
    )
    assert (Device.COMMUNICATION, "hcom_allReduce__1") in heads(store)
    assert KINDS["HCCL"] in of(calls, "Disable")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("no-kernels", "msptiActivityEnable answered 999 for kernels"),
        ("all-preloaded", "msptiActivityEnable answered 6 for kernels; start the job with `ms-profiler run`"),
    ],
)
def test_when_kernels_are_refused_nothing_is_recorded(run, words, why):
    found, calls, _ = run(
        'driver(); tracing.attach("libmspti.so"); print(json.dumps([tracing.record(Kinds.BASIC), tracing.detach()]))',
        words=words,
    )
    assert found == [[Outcome.FAILED, why], Outcome.DONE]
    assert of(calls, "Enable") == [KINDS["KERNEL"]]


@pytest.mark.parametrize(
    ("words", "outcome", "why"),
    [
        ("owned", Outcome.OWNED, "msptiSubscribe answered 2"),
        ("fails", Outcome.FAILED, "msptiSubscribe answered 999"),
    ],
)
def test_a_library_in_use_or_unknown_is_left_alone(run, words, outcome, why):
    found, calls, _ = run(
        'driver(); print(json.dumps([*tracing.attach("libmspti.so"), tracing.record(Kinds.BASIC)[0]]))', words=words
    )
    assert found == [outcome, why, Outcome.IDLE]
    assert [name for name, _ in calls] == ["Subscribe"]


def test_a_library_that_is_not_there_is_not_the_last_one(run):
    found, _, _ = run(
        'driver(); print(json.dumps([tracing.attach("libnone.so.1"), tracing.attach("libprofapi.so"),'
        ' tracing.attach("libmspti.so")]))'
    )
    (missing, why), (other, what), (there, _) = found
    assert (missing, other, there) == (Outcome.MISSING, Outcome.MISSING, Outcome.DONE)
    assert "libnone.so.1" in why
    assert what == "libprofapi.so has no msptiSubscribe"


def test_strange_records_are_counted_and_the_others_stored(run):
    found, _, store = run("""
npu = traced()
npu.fake_kernel(None, None, 7, 0, 100)
npu.fake_kernel(b"before", b"KERNEL_AICORE", 7, 0, 100)
npu.fake_synchronize()
npu.fake_return_empty()
asked_by_another = bytes(U32(2)) + bytes(52)
npu.fake_emit(asked_by_another, 56)  # a kernel that has no end
tracing.flush()
npu.fake_emit(bytes(U32(10)) + bytes(44), 48)  # not enabled: the library keeps it
npu.msptiActivityEnable(10)
npu.fake_emit(bytes(U32(10)) + bytes(44), 48)  # enabled by somebody else
npu.fake_emit(bytes(U32(77)) + bytes(52), 56)  # of a kind to come: what is behind it cannot be found
npu.fake_kernel(b"behind it", None, 7, 0, 100)
tracing.flush()
npu.fake_kernel(b"after", b"KERNEL_AICORE", 7, 0, 100)
npu.fake_synchronize()
tracing.detach(); recorder.close()
print(json.dumps(counts()))
""")
    assert (found["unknown"], found["unfinished"], found["unreadable"], found["lost"]) == (1, 1, 1, 0)
    kernels = [name for kind, name in heads(store) if kind == Device.KERNEL]
    assert kernels[:2] == ["", "before"] and kernels[-1] == "after"


def test_numbers_of_64_bits_are_stored_by_their_lower_half(run):
    _, _, store = run("""
npu = traced()
npu.fake_count_from(2**32 - 1)
for _ in range(3):
    npu.fake_kernel(b"again", b"KERNEL_AICORE", 7, 0, 100)
npu.fake_synchronize()
tracing.detach(); recorder.close()
""")
    rows = [(kind, row["arg"] & 0xFFFFFFFF) for what, kind, _, row in records(store) if what == Kind.DEVICE]
    for kind in (Device.KERNEL, Device.API):
        assert sorted(number for what, number in rows if what == kind) == [0, 1, 2**32 - 1]


def test_full_buffers_come_back_on_threads_of_their_own(run):
    found, _, _ = run("""
npu = traced()
for _ in range(100_000):
    npu.fake_kernel(b"one of many", b"KERNEL_AICORE", 7, 1, 1)
npu.fake_settle()
tracing.detach(); recorder.close()
print(json.dumps([counts()["records"] + counts()["lost"], npu.fake_dropped()]))
""")
    assert found == [200_000, 0]


def test_a_buffer_that_comes_back_late_does_no_harm(run):
    found, _, store = run("""
npu = traced()
npu.fake_keep(1)
npu.fake_kernel(b"late", b"KERNEL_AICORE", 7, 0, 100)
npu.fake_synchronize()
first = tracing.detach().value
npu.fake_keep(0)
traced()
npu.fake_kernel(b"after", b"KERNEL_AICORE", 7, 0, 100)
npu.fake_synchronize()
print(json.dumps([first, tracing.detach()]))
recorder.close()
""")
    assert found == [Outcome.DONE, Outcome.DONE]
    assert {name for kind, name in heads(store) if kind == Device.KERNEL} == {"late", "after"}


def test_a_jump_of_its_clock_is_in_the_uncertainty(run):
    """msPTI aligns its times to the wall clock every seven seconds, so a record may end before its begin."""
    found, _, store = run("""
npu = traced()
npu.fake_marker(2, 1, b"range", b"mine", -1)
npu.fake_jump(-400_000)
npu.fake_marker(4, 1, b"", b"", -1)
start = npu.fake_now()
kernel = bytes(U32(2)) + bytes(U64(start)) + bytes(U64(start - 300_000)) + bytes(36)
npu.fake_emit(kernel, 56)
tracing.detach(); recorder.close()
print(json.dumps(counts()))
""")
    assert (found["records"], found["unfinished"]) == (2, 0)
    for what, _, _, row in records(store):
        if what == Kind.DEVICE:
            assert row["end_ns"] >= row["start_ns"]


@pytest.mark.parametrize("leave", ["sys.exit(7)", "raise SystemExit(7)", "ctypes.CDLL(None).exit(7)", "os._exit(7)"])
def test_a_fork_child_calls_nothing_and_ends(run, leave):
    """The library's destructors would hang in the child. Its output arrives, and it ends."""
    found, calls, store = run(f"""
npu = traced()
reading, writing = os.pipe()
pid = os.fork()
if pid == 0:
    signal.alarm(60)
    os.dup2(writing, 1)
    done = [tracing.ready(), tracing.attach("libmspti.so")[0], tracing.flush(), tracing.detach()]
    print(json.dumps(done), flush={leave.startswith(("os", "ctypes"))})
    {leave}
os.close(writing)
status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
printed = json.loads(os.read(reading, 1000))
npu.fake_kernel(b"after", b"KERNEL_AICORE", 7, 0, 10)
npu.fake_synchronize()
tracing.detach(); recorder.close()
print(json.dumps([status, printed, counts()["records"]]))
""")
    assert found == [7, [False, Outcome.IDLE, Outcome.IDLE, Outcome.IDLE], 2]
    assert of(calls, "Subscribe") == [0]
    assert (Device.KERNEL, "after") in heads(store)


def test_a_fork_child_ends_after_the_interface_was_given_back_too(run):
    found, _, _ = run("""
traced()
tracing.detach()
pid = os.fork()
if pid == 0:
    signal.alarm(60)
    sys.exit(tracing.ready())
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
""")
    assert found == 0


def test_without_us_a_fork_child_of_a_subscriber_hangs(run):
    """The fake library hangs like the real one, so the tests above would fail without ms-profiler's measures."""
    found, _, _ = run("""
driver()
subscriber = ctypes.c_void_p()
mspti().msptiSubscribe(ctypes.byref(subscriber), None, None)
pid = os.fork()
if pid == 0:
    signal.alarm(1)
    sys.exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
""")
    assert found == -14


def test_it_can_be_taken_again(run):
    found, calls, _ = run("""
for _ in range(2):
    npu = traced()
    npu.fake_kernel(b"again", b"KERNEL_AICORE", 7, 0, 10)
    npu.fake_synchronize()
    tracing.detach()
print(json.dumps(counts()))
""")
    assert found["records"] == 4
    assert of(calls, "Unsubscribe") == [1, 1]


@pytest.mark.slow  # takes ten seconds; a fast test does the same with CUPTI
def test_a_library_that_hangs_does_not_hold_up_the_end(run):
    found, _, _ = run(
        "traced(); print(json.dumps([tracing.detach(), tracing.flush(), tracing.ready()])); sys.stdout.flush();"
        " os._exit(0)",
        words="hangs",
    )
    assert found == [Outcome.HANGS, Outcome.HANGS, False]


def test_one_device_at_a_time(run, tmp_path):
    """On a machine with an NPU and a GPU, the first device stays attached, and the other gets a reason."""
    (tmp_path / "both").mkdir()
    build(tmp_path / "both", ASCEND)
    build(tmp_path / "both")
    found, _, store = run(
        """
npu = traced()
ctypes.CDLL("libcuda.so.1").cuInit(0)
other = recorder.tracing(Source.CUPTI)
print(json.dumps([other.ready(), *other.attach("libcupti.so.12")]))
npu.fake_kernel(b"still", b"KERNEL_AICORE", 7, 0, 10)
npu.fake_synchronize()
tracing.detach(); recorder.close()
""",
        LD_LIBRARY_PATH=str(tmp_path / "both"),
    )
    assert found == [True, Outcome.FAILED, "a device of another vendor is traced in this process"]
    assert (Device.KERNEL, "still") in heads(store)
