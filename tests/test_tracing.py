"""Native device tracing works with a fake CUPTI that has no device."""

import subprocess

import pytest
from fakes_built import fakes  # noqa: F401
from ms_profiler.job.recorder.python import PythonRecorder
from ms_profiler.job.recorder.tracing import Kinds, Outcome
from ms_profiler.store.device_format import Device, Source
from ms_profiler.store.format import Kind
from traced import records, run  # noqa: F401


def test_without_a_driver_in_use_nothing_is_touched(run):  # noqa: F811
    found, calls, _ = run("""
cuda = ctypes.CDLL("libcuda.so.1")
before = tracing.ready(), tracing.attach("libcupti.so.12")[0], tracing.record(Kinds.BASIC)[0], tracing.flush()
cuda.cuInit(0)
print(json.dumps([*before, tracing.ready()]))
""")
    assert found == [False, Outcome.IDLE, Outcome.IDLE, Outcome.IDLE, True]
    assert calls == []


def test_a_driver_without_devices_is_none(run):  # noqa: F811
    found, calls, _ = run("driver(); print(json.dumps(tracing.ready()))", FAKE_CUDA_DEVICES="0")
    assert (found, calls) == (False, [])


def test_the_subscription_comes_first_and_all_is_given_back(run):  # noqa: F811
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


def test_records_arrive_with_our_clock(run):  # noqa: F811
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
            (Device.API, "cudaMemcpyAsync_v3020"),
            *2 * [(Device.API, "cudaStreamSynchronize_v3020")],
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


@pytest.mark.parametrize("gate", ["recorder.fine(False)", "recorder.pause(True)"])
def test_records_that_arrive_in_a_step_that_is_not_recorded_are_kept(run, gate):  # noqa: F811
    """CUPTI returns records up to a second after the step that launched their tasks."""
    found, _, store = run(f"""
gpu = traced()
gpu.fake_launch(b"first", 7, 0, 500, 0); gpu.fake_synchronize(7)
{gate}
tracing.detach(); recorder.close()
print(json.dumps(counts()))
""")
    assert found["refused"] == 0
    assert [name for what, kind, name, _ in records(store) if (what, kind) == (Kind.DEVICE, Device.KERNEL)] == ["first"]


@pytest.mark.parametrize("words", ["new", ""])
@pytest.mark.parametrize("kinds", ["BASIC", "BASIC | Kinds.DRIVER"])
def test_launches_of_the_driver_are_recorded_and_questions_are_not(run, words, kinds):  # noqa: F811
    """Call 17 of the runtime is cudaGetDevice; call 5 of the driver is no launch. CUPTI before 12.6 has no choice."""
    record = "struct.pack('=IIQQIIII', {kind}, {number}, 1000, 2000, os.getpid(), 7, 99, 0)"
    emitted = "; ".join(
        f"gpu.fake_emit({record.format(kind=kind, number=number)})" for kind, number in ((5, 17), (5, 211), (4, 5))
    )
    found, calls, store = run(
        f"""
import struct
driver()
tracing.attach("libcupti.so.12")
assert tracing.record(Kinds.{kinds}) == (Outcome.DONE, "")
gpu = cupti()
gpu.fake_launch(b"first", 7, 0, 500, 1); gpu.fake_synchronize(7)
{emitted}
tracing.detach(); recorder.close()
print(json.dumps(counts()))
""",
        words=words,
    )
    every = "DRIVER" in kinds
    kept = [name for what, kind, name, _ in records(store) if (what, kind) == (Kind.DEVICE, Device.API)]
    assert sorted(kept) == sorted(
        ["cuLaunchKernel", "cudaLaunchKernel_v7000", "cudaStreamSynchronize_v3020"]
        + every * ["cuLaunchKernel", "cudaStreamSynchronize_v3020"]
    )
    single = words == "new" and not every
    assert (("Enable", 4) in calls) is not single
    assert found["unknown"] == found["refused"] == 0
    on, off = ({number for name, number in calls if name == f"{word}DriverApi"} for word in ("Enable", "Disable"))
    assert not single or (652 in on and on == off), "what is switched on is switched off again"


def test_another_clock_is_fitted_and_its_uncertainty_reported(run):  # noqa: F811
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
        (
            "fails",
            Outcome.FAILED,
            "cuptiGetVersion answered 999; see that the driver is as new as the library",
        ),
        ("ancient", Outcome.FAILED, "libcupti.so.12 is of version 14, and 11.8 is the oldest that is known"),
    ],
)
def test_a_library_in_use_or_unknown_is_left_alone(run, words, outcome, why):  # noqa: F811
    found, calls, _ = run(
        'driver(); print(json.dumps([*tracing.attach("libcupti.so.12"), tracing.record(Kinds.BASIC)[0]]))', words=words
    )
    assert found == [outcome, why, Outcome.IDLE]
    assert [name for name, _ in calls] in (["GetVersion"], ["GetVersion", "Subscribe"])


@pytest.mark.parametrize(("driver", "outcome"), [("12090", "before 13.0, and this one is of CUDA 12.9"), ("13000", "")])
def test_13_2_is_not_called_beside_a_driver_it_crashes_with(run, tmp_path, driver, outcome):  # noqa: F811
    """The stand-in has the functions that only CUPTI 13.2 has; each of them ends the process with code 42."""
    names = ["GetVersion", "Subscribe", "Unsubscribe", "ActivityRegisterCallbacks", "ActivityEnable", "ActivityDisable"]
    names += ["ActivityGetNextRecord", "ActivityFlushAll", "ActivityGetNumDroppedRecords", "ActivityEnable_v2"]
    library = tmp_path / "libcupti.so.13"
    source = "\n".join(["void _exit(int);", *(f"int cupti{name}(void) {{ _exit(42); return 0; }}" for name in names)])
    command = ["cc", "-shared", "-fPIC", "-xc", "-", "-o", str(library)]
    subprocess.run(command, input=source, text=True, check=True)
    program = f"driver(); print(json.dumps(tracing.attach({str(library)!r})))"
    found, _, _ = run(program, expect=0 if outcome else 42, FAKE_CUDA_VERSION=driver)
    if outcome:
        assert found[0] == Outcome.FAILED
        assert outcome in found[1]


def test_a_library_that_is_not_there_is_not_the_last_one(run):  # noqa: F811
    found, _, _ = run(
        'driver(); print(json.dumps([tracing.attach("libnone.so.1"), tracing.attach("libcuda.so.1"),'
        ' tracing.attach("libcupti.so.12")]))'
    )
    (missing, why), (other, what), (there, _) = found
    assert (missing, other, there) == (Outcome.MISSING, Outcome.MISSING, Outcome.DONE)
    assert "libnone.so.1" in why
    assert what == "libcuda.so.1 has no cuptiGetVersion"


def test_13_2_is_not_called_without_a_driver(run):  # noqa: F811
    _, calls, _ = run('tracing.attach("libcupti.so.12")', words="crashes")
    assert calls == []
    found, _, _ = run("traced(); print(tracing.detach().value)", words="crashes")
    assert found == Outcome.DONE


def test_when_kernels_are_refused_nothing_is_recorded(run):  # noqa: F811
    found, calls, _ = run(
        'driver(); tracing.attach("libcupti.so.12"); print(json.dumps([tracing.record(Kinds.BASIC),'
        " tracing.detach()]))",
        words="no-kernels",
    )
    assert found == [[Outcome.FAILED, "cuptiActivityEnable answered 15, CUPTI_ERROR_OF_THE_FAKE"], Outcome.DONE]
    assert [kind for name, kind in calls if name == "Enable"] == [10]


def test_strange_records_are_counted_and_the_others_stored(run):  # noqa: F811
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


def test_running_kernels_are_awaited_at_the_end(run):  # noqa: F811
    """At the end, the recorder waits half a second for running kernels."""
    found, _, store = run("""
gpu = traced()
gpu.fake_launch(b"behind", 7, 0, 80 * 10**6, 0)
tracing.detach(); recorder.close()
print(json.dumps(counts()))
""")
    assert (found["records"], found["unfinished"]) == (2, 0)
    (kernel,) = [row for what, kind, _, row in records(store) if (what, kind) == (Kind.DEVICE, Device.KERNEL)]
    assert kernel["end_ns"] - kernel["start_ns"] == 80 * 10**6


def test_a_fork_child_calls_nothing_and_ends(run):  # noqa: F811
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


def test_it_can_be_taken_again(run):  # noqa: F811
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


@pytest.mark.slow
def test_a_library_that_hangs_does_not_hold_up_the_end(run):  # noqa: F811
    found, _, _ = run(
        "traced(); print(json.dumps([tracing.detach(), tracing.flush(), tracing.ready()])); sys.stdout.flush();"
        " os._exit(0)",
        words="hangs",
    )
    assert found == [Outcome.HANGS, Outcome.HANGS, False]


def test_without_the_extension_there_is_no_tracing():
    assert PythonRecorder().tracing(Source.CUPTI) is None
    assert {outcome.name for outcome in Outcome} == {"DONE", "IDLE", "OWNED", "FAILED", "HANGS", "MISSING"}


def test_the_names_of_outcomes_and_kinds_are_those_of_the_extension():
    from ms_profiler import _native

    declared = {name[10:]: getattr(_native.lib, name) for name in dir(_native.lib) if name.startswith("MSP_TRACE_")}
    ours = {**Outcome.__members__, **Kinds.__members__}
    assert ours.pop("NOTHING") == 0
    assert declared == ours
