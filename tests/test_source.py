"""The device source, with a fake tracing interface, attaches and detaches the interface at the right time, and records.

It leaves the device to a profiler of the script.
"""

import os
import posix
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
from ms_profiler.job.devices.cupti import DAEMON, Cupti
from ms_profiler.job.devices.mspti import Mspti
from ms_profiler.job.devices.source import DeviceSource
from ms_profiler.job.recorder.tracing import Kinds, Outcome, TraceCounts
from ms_profiler.job.schedule import Schedule
from ms_profiler.job.sources import NEVER

WHAT = Cupti().what
NOTHING = TraceCounts(*[0] * len(TraceCounts.__dataclass_fields__))


class Tracing:
    """A tracing interface that notes its calls; `answers` holds the outcomes that are not DONE."""

    def __init__(self, in_use=True, counts=NOTHING, left_out="", **answers):
        self.in_use, self._counts, self._left_out, self._answers = in_use, counts, left_out, answers
        self.requests = []

    def _answer(self, what, argument=None):
        self.requests.append((what, argument) if argument is not None else what)
        return self._answers.get(what, Outcome.DONE)

    def ready(self):
        return self.in_use

    def attach(self, library):
        return self._answer("attach"), "reasons"

    def record(self, kinds):
        outcome = self._answer("record", kinds)
        return outcome, self._left_out if outcome is Outcome.DONE else "reasons"

    def flush(self):
        return self._answer("flush")

    def detach(self):
        return self._answer("detach")

    def counts(self):
        return self._counts


class Recording:
    """The part of a recording that a source uses."""

    result = "results"

    def __init__(self, settings):
        self.options = settings
        self.info = SimpleNamespace(messages=[], device_sources={})
        self.took_back, self.noted, self.said = (), {}, []

    def collected(self, options):
        self.took_back = options

    def say(self, line):
        self.said.append(line)

    def note(self, message):
        self.info.messages.append(message)

    def not_collected(self, what, why):
        self.noted[what] = why


class Session:
    """The part of a session that a source uses."""

    def __init__(self, tracing, schedule=None, recordings=1, interface=None, left_running="", **options):
        clock = SimpleNamespace(now=lambda: 0, intern=lambda text: 0, record=lambda *_: True)
        self.recorder = SimpleNamespace(tracing=lambda _: tracing, **vars(clock))
        self.process = SimpleNamespace(recorder_reason="no such file", pid=os.getpid())
        self.identity = SimpleNamespace(rank=1)
        defaults = {
            "activities": ("CPU", "NPU"),
            "given": frozenset(),
            "profiler_level": "Level0",
            "cuda_graphs": "nodes",
            "profile_memory": False,
        }
        settings = SimpleNamespace(**defaults | options)
        self.recordings = [Recording(settings) for _ in range(recordings)]
        self.home = self.recordings[0] if self.recordings else None
        self.steps = SimpleNamespace(count=0, number=0, schedule=schedule)
        self.noted = {}
        self.left_running = left_running
        self.device = DeviceSource(self, interface or Cupti())

    def not_collected(self, what, why):
        self.noted[what] = why

    def guard(self, _):
        return nullcontext()

    def at_step(self, call, follows=True):
        """Call nothing at steps."""

    def at(self, count):
        """Advance to a step; return the step of the source's next call, and whether this call took long."""
        self.steps.count = self.steps.number = count
        self.steps.recording = self.steps.schedule is None or self.steps.schedule.records(count)
        return self.device.stepped(count)


@pytest.fixture
def begin(monkeypatch):
    """Return a function that makes a session and starts its device source."""
    monkeypatch.setattr(Cupti, "libraries", lambda _: ["libcupti.so.12"])
    monkeypatch.setattr(Mspti, "libraries", lambda _: ["libmspti.so"])
    monkeypatch.delenv(DAEMON, raising=False)

    def begin(tracing, **how):
        session = Session(tracing, **how)
        session.steps.recording = session.steps.schedule is None or session.steps.schedule.records(0)
        session.device.start()
        return session

    return begin


def test_in_use_it_is_taken_at_once_and_given_back(begin):
    tracing = Tracing()
    session = begin(tracing)
    assert tracing.requests == ["attach", ("record", Kinds.BASIC)]
    assert session.at(1) == (NEVER, False)
    session.device.stop()
    assert tracing.requests[2:] == ["detach"]
    session.device.start()
    assert tracing.requests[3:] == ["attach", ("record", Kinds.BASIC)]
    assert session.noted == {}


def test_checks_for_a_device_become_rarer(begin):
    tracing = Tracing(in_use=False)
    session = begin(tracing)
    looked = [count for count in range(1, 40) if session.at(count)[0] == 2 * count]
    assert looked == [1, 2, 4, 8, 16, 32]
    tracing.in_use = True
    assert session.at(63) == (64, False)
    assert session.at(64) == (65, True)
    assert session.noted == {
        f"{WHAT} before step 64": "CUDA was first found in use there, by a check between two steps"
    }


def test_a_gpu_is_recorded_only_on_request(begin):
    tracing = Tracing()
    session = begin(tracing, activities=("CPU",), given=frozenset({"activities"}))
    assert session.at(1) == (NEVER, False)
    assert (tracing.requests, session.noted) == ([], {})


@pytest.mark.parametrize(("in_use", "noted"), [(False, {WHAT: "the job did not use CUDA in this process"}), (True, {})])
def test_a_requested_gpu_that_is_not_used_is_reported(begin, monkeypatch, in_use, noted):
    monkeypatch.setattr("ms_profiler.job.devices.driver.missing", lambda *_: "")
    session = begin(Tracing(in_use), activities=("CPU", "GPU"), given=frozenset({"activities"}))
    session.device.stop()
    assert session.noted == noted


def test_a_requested_gpu_without_the_extension_is_reported(begin):
    session = begin(None, activities=("GPU",), given=frozenset({"activities"}))
    assert session.noted == {WHAT: "the extension does not load: no such file"}


def test_kineto_on_demand_has_it_for_itself(begin, monkeypatch):
    monkeypatch.setenv(DAEMON, "1")
    tracing = Tracing()
    session = begin(tracing)
    assert tracing.requests == []
    assert "Kineto records them on demand" in session.noted[WHAT]
    assert session.recordings[0].info.messages == []


def test_a_schedule_is_followed_a_step_ahead_and_a_step_behind(begin):
    tracing = Tracing()
    session = begin(tracing, schedule=Schedule(active=2, wait=3))
    assert tracing.requests == ["attach"]
    seen = []
    for count in range(1, 10):
        assert session.at(count) == (count + 1, False)
        seen.append([kinds for _, kinds in tracing.requests[1:]])
        del tracing.requests[1:]
    on, off = [Kinds.BASIC], [Kinds.NOTHING]
    # steps 3 and 4 are recorded, and 8 and 9
    assert seen == [[], on, [], [], [], off, on, [], []]


def test_options_choose_the_recorded_kinds(begin):
    tracing = Tracing()
    begin(tracing, profiler_level="Level2", cuda_graphs="launches")
    assert tracing.requests[1] == ("record", Kinds.BASIC | Kinds.DRIVER | Kinds.GRAPHS)


def test_between_two_results_it_continues(begin):
    tracing = Tracing()
    session = begin(tracing, recordings=2)
    session.device.stop()
    assert tracing.requests[2:] == ["flush"]


def test_a_profiler_of_the_scripts_has_it_from_its_preparation_on(begin):
    tracing = Tracing()
    session = begin(tracing)
    session.device.release()
    session.device.release()  # the script's profiler prepares, then starts
    session.device.look()
    assert tracing.requests[2:] == ["detach"]
    session.device.resume()
    assert tracing.requests[3:] == ["attach", ("record", Kinds.BASIC)]


@pytest.mark.parametrize("what", ["record", "flush", "detach"])
def test_a_library_that_hangs_is_not_called_again(begin, what):
    tracing = Tracing(**{what: Outcome.HANGS})
    session = begin(tracing, recordings=2 if what == "flush" else 1)
    session.device.stop()
    asked = len(tracing.requests)
    session.device.start()
    session.at(1)
    session.device.release()
    session.device.resume()
    assert len(tracing.requests) == asked
    assert session.noted[WHAT] == "CUPTI did not answer for ten seconds; ms-profiler does not call it again"


def test_a_library_that_is_missing_leaves_room_for_another(begin, monkeypatch):
    monkeypatch.setattr(Cupti, "libraries", lambda _: ["a.so", "b.so"])
    tracing = Tracing(attach=Outcome.MISSING)
    session = begin(tracing)
    assert tracing.requests == ["attach", "attach"]
    assert session.noted == {WHAT: f"there is no CUPTI; {Cupti.package}"}


def test_missing_records_are_reported_at_the_end(begin):
    fields = dict.fromkeys(TraceCounts.__dataclass_fields__, 0)
    counts = TraceCounts(**fields | {"dropped": 3, "lost": 4, "stopped": 1, "uncertainty_ns": 90, "unreadable": 2})
    session = begin(Tracing(counts=counts))
    session.device.stop()
    assert session.noted == {
        "3 records of the GPU": "CUPTI dropped them",
        "4 records of the GPU": "they came faster than they could be read",
        "the rest of 2 buffers of CUPTI": "they cannot be read",
        f"later {WHAT}": "CUPTI held more than 48 MB of buffers and returned none, so recording was ended",
        "exact times of the GPU": "CUPTI refused our clock; the uncertainty of CUPTI's clock is 90 ns",
    }


def test_a_fork_child_leaves_its_parents_alone(begin, monkeypatch):
    tracing = Tracing()
    session = begin(tracing)
    asked = list(tracing.requests)
    monkeypatch.setattr(posix, "getpid", lambda: -1)
    session.device.release()
    session.device.resume()
    session.device.look()
    session.device.stop()
    assert not session.device.waits
    assert (tracing.requests, session.noted) == (asked, {})


NPU = "kernels of the NPU"


def test_an_npu_is_recorded_by_default(begin):
    tracing = Tracing()
    session = begin(tracing, interface=Mspti())
    assert tracing.requests == ["attach", ("record", Kinds.BASIC)]
    session.device.stop()
    assert session.noted == {}
    tracing = Tracing()
    begin(tracing, interface=Mspti(), activities=("CPU", "GPU"), given=frozenset({"activities"}))
    assert tracing.requests == []


def test_a_requested_npu_that_is_absent_is_reported(begin, monkeypatch):
    monkeypatch.setattr("ms_profiler.job.devices.driver.load", absent)
    session = begin(Tracing(False), interface=Mspti(), given=frozenset({"activities"}))
    why = (
        "there is no driver (libascend_hal.so: no such file); install Ascend's driver and source CANN's set_env.sh, or "
        "leave NPU out of activities"
    )
    assert session.noted == {NPU: why}
    assert session.recordings[0].info.messages == [f"{NPU} are not recorded: {why}"]


def absent(libraries):
    """Fail as if these libraries did not exist."""
    raise OSError(f"{libraries[-1]}: no such file")


def test_memory_is_requested_with_the_option_or_a_preloaded_library(begin, monkeypatch):
    monkeypatch.delenv("LD_PRELOAD", raising=False)
    tracing = Tracing(left_out="memory (not preloaded)")
    session = begin(tracing, interface=Mspti(), profile_memory=True)
    assert tracing.requests[1] == ("record", Kinds.BASIC | Kinds.MEMORY)
    why = "msPTI refuses memory (not preloaded); start the job with `ms-profiler run`, which preloads it"
    assert session.noted == {"some records of the NPU": why}
    monkeypatch.setenv("LD_PRELOAD", "/cann/lib64/libmspti.so")
    tracing = Tracing()
    begin(tracing, interface=Mspti())
    assert tracing.requests[1] == ("record", Kinds.BASIC | Kinds.MEMORY)


def test_frameworks_own_profiler_has_the_npu_for_itself(begin):
    tracing = Tracing()
    why = "MindSpore's own profiler keeps running: takeover is false"
    session = begin(tracing, interface=Mspti(), left_running=why)
    assert (tracing.requests, session.noted) == ([], {NPU: why})


def test_the_owner_of_mspti_is_named(begin, monkeypatch):
    session = begin(Tracing(attach=Outcome.OWNED), interface=Mspti())
    assert session.noted == {NPU: "msPTI belongs to another profiler or debugger of this process"}
    monkeypatch.setitem(__import__("sys").modules, "torch_npu", os)
    tracing = Tracing()
    session = begin(tracing, interface=Mspti())
    session.device.release()
    tracing._answers["attach"] = Outcome.OWNED
    session.device.resume()
    assert session.noted[NPU] == "msPTI belongs to PyTorch's own profiler"


def test_times_of_an_npu_are_of_the_wall_clock(begin):
    fields = dict.fromkeys(TraceCounts.__dataclass_fields__, 0)
    session = begin(Tracing(counts=TraceCounts(**fields | {"uncertainty_ns": 90})), interface=Mspti())
    session.device.stop()
    why = "msPTI takes times from the wall clock, with an uncertainty of 90 ns"
    assert session.noted == {"exact times of the NPU": why}


def test_a_fork_child_that_uses_a_gpu_reports_that_it_is_not_recorded(begin, monkeypatch):
    tracing = Tracing(in_use=False)
    session = begin(tracing)
    monkeypatch.setattr(posix, "getpid", lambda: -1)
    session.device.look()
    assert session.noted == {}
    tracing.in_use = True
    session.reopen = lambda: reopened.append(True)
    reopened = []
    session.device.look()
    session.device.look()
    assert reopened == [True]
    assert list(session.noted) == ["kernels of the GPU"]
    assert session.noted["kernels of the GPU"].startswith("a fork child does not record its GPU")
    assert tracing.requests == []
