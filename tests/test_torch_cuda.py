"""Calls of `torch.cuda` look for a GPU at the right intervals."""

import sys
import types

import pytest
from ms_profiler.job.devices import devices
from ms_profiler.job.devices.cupti import DAEMON, Cupti
from ms_profiler.job.devices.mspti import Mspti
from ms_profiler.job.frameworks.base import Plugin
from ms_profiler.job.frameworks.torch import cuda
from ms_profiler.job.guard import Guard
from ms_profiler.job.recorder.tracing import Outcome
from ms_profiler.job.sources import Sources
from recorders import make
from test_source import Session as OneSource, Tracing

CALLS = 10_000
#: outcomes after which no further attempt is made to attach the GPU
FINAL = (Outcome.DONE, Outcome.OWNED, Outcome.FAILED, Outcome.MISSING, Outcome.HANGS)


class Counted(Tracing):
    """A tracing interface that counts how often it is asked whether its device is in use."""

    looks = 0

    def ready(self):
        self.looks += 1
        return super().ready()


class Looked(devices.Devices):
    """The devices of a session; they count the attempts to attach a device."""

    looks = 0

    def look(self, activity):
        self.looks += 1
        super().look(activity)


class Session(OneSource):
    """A session with all kinds of devices; an error in it fails the test."""

    def __init__(self, made):
        self.made = made
        super().__init__(None)
        self.recorder.wrap = make("native").wrap
        self.sources = Sources(self.guard)
        self.devices = Looked(self)
        self.steps.recording = True

    def guard(self, what):
        return Guard(self.failed, what)

    def failed(self, what, reason):
        raise AssertionError(what) from reason


@pytest.fixture
def begin(monkeypatch):
    """Return a function that makes a session with a made-up GPU and hooks a made-up `torch.cuda`, and returns both."""
    monkeypatch.delenv(DAEMON, raising=False)
    monkeypatch.setattr(devices, "INTERFACES", (Cupti, Mspti))
    for kind in (Cupti, Mspti):
        monkeypatch.setattr(kind, "libraries", lambda _: ["lib.so"])
        monkeypatch.setattr(kind, "left_to", lambda *_: "")
        monkeypatch.setattr(kind, "tracing", lambda self, _, host: host.made[self.activity])

    def begin(gpu, initialises=lambda: None):
        module = types.ModuleType("torch.cuda")
        module._lazy_init = initialises
        monkeypatch.setitem(sys.modules, "torch.cuda", module)
        session = Session({"GPU": gpu, "NPU": Counted(in_use=False)})
        plugin = Plugin("torch", [cuda.targets])
        plugin.apply(session)
        assert plugin.state == {"torch.cuda._lazy_init": "applied"}
        return session, module

    return begin


def called(module):
    for _ in range(CALLS):
        module._lazy_init()


def test_checks_for_an_absent_device_become_rarer(begin):
    gpu = Counted(in_use=False)
    session, module = begin(gpu)
    called(module)
    assert session.devices.looks == gpu.looks == CALLS.bit_length()  # after calls 1, 2, 4 ... 8192
    gpu.in_use = True
    called(module)
    assert (gpu.looks, gpu.requests[0]) == (CALLS.bit_length() + 1, "attach")
    called(module)
    assert session.devices.looks == gpu.looks == CALLS.bit_length() + 1
    assert session.made["NPU"].looks == 0


@pytest.mark.parametrize("outcome", FINAL, ids=lambda outcome: outcome.name)
def test_after_a_final_answer_there_are_no_further_checks(begin, outcome):
    gpu = Counted(attach=outcome)
    session, module = begin(gpu)
    called(module)
    assert (session.devices.looks, gpu.looks, gpu.requests[0]) == (1, 1, "attach")
    assert session.made["NPU"].looks == 0


def test_without_cuda_there_is_no_check_and_the_job_gets_its_error(begin):
    def initialises():
        raise AssertionError("Torch not compiled with CUDA enabled")

    gpu = Counted()
    _, module = begin(gpu, initialises)
    for _ in range(10):
        with pytest.raises(AssertionError, match="not compiled with CUDA"):
            module._lazy_init()
    assert (gpu.looks, gpu.requests) == (0, [])
