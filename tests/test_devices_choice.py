"""Of two interfaces to a device, the one that the options need records it, if its library exists."""

from types import SimpleNamespace

import pytest
from ms_profiler.job.devices import devices
from ms_profiler.job.devices.aclprof import Aclprof
from ms_profiler.job.devices.devices import Devices
from ms_profiler.job.recorder.tracing import Kinds, Outcome
from ms_profiler.options import resolve
from test_source import Recording, Session as OneSource, Tracing


class Beside(Aclprof):
    """A second interface to the same device, which can serve every option."""

    name = "beside"
    files = False
    covers = ()
    what = "kernels of the NPU"

    def serves(self, recordings):
        return True

    def reason(self, recordings):
        return ""


class Session(OneSource):
    """A session with recordings that request records of a device, and with two made-up interfaces."""

    def __init__(self, *chosen, **answers):
        super().__init__(None, recordings=0)
        self.recordings = [Recording(resolve(options)[0]) for options in chosen]
        self.home, self.limit = self.recordings[0], 2 * 10**9
        self.identity = SimpleNamespace(rank=1)
        self.steps.recording = True
        self.calls = []
        self.made = {
            "aclprof": Tracing(**answers),
            "beside": Tracing(),
        }
        self.device = Devices(self)

    def at(self, count):
        self.steps.count = count
        for source in self.device.sources:
            source.stepped(count)

    def start(self):
        """Begin the next recording."""
        self.device._rivals()
        for source in self.device.sources:
            source.start()

    @property
    def requests(self):
        return {name: tracing.requests for name, tracing in self.made.items()}


@pytest.fixture(autouse=True)
def two(monkeypatch):
    """Register two made-up interfaces, neither of which loads a library."""
    for kind in (Aclprof, Beside):
        monkeypatch.setattr(kind, "tracing", lambda self, _, session=None: session.made[self.name])
        monkeypatch.setattr(kind, "libraries", lambda _: ["lib.so"])
        monkeypatch.setattr(kind, "left_to", lambda *_: "")
    monkeypatch.setattr(devices, "INTERFACES", (Aclprof, Beside))


TAKEN = ["attach", ("record", Kinds.BASIC)]


def test_without_options_of_aclprof_the_cheaper_interface_is_used():
    session = Session({})
    session.start()
    assert session.requests == {"aclprof": [], "beside": TAKEN}
    (recording,) = session.recordings
    assert recording.info.device_sources == {"NPU": {"interface": "beside", "why": ""}}
    assert recording.said == []


def test_options_of_aclprof_choose_it_and_the_reason_is_recorded():
    session = Session({"l2_cache": True, "profiler_level": "Level1"})
    session.start()
    session.at(1)
    assert session.requests == {"aclprof": TAKEN, "beside": []}
    (recording,) = session.recordings
    why = "msPTI does not serve these options: aic_metrics PipeUtilization, l2_cache"
    assert recording.info.device_sources == {"NPU": {"interface": "aclprof", "why": why}}
    assert "l2_cache" in recording.took_back
    assert recording.said == [f"the NPU is recorded by aclprof: {why}"]
    assert (session.noted, recording.noted) == ({}, {})


def test_without_the_library_of_aclprof_the_other_interface_records():
    session = Session({"l2_cache": True}, attach=Outcome.MISSING)
    session.start()
    assert session.requests == {"aclprof": ["attach"], "beside": TAKEN}
    assert session.noted == {Aclprof().what: f"there is no aclprof; {Aclprof.package}"}
    assert session.recordings[0].info.device_sources["NPU"]["interface"] == "beside"


@pytest.mark.parametrize("what", ["attach", "record"])
def test_where_it_fails_the_other_one_is_left_alone(what):
    """The other interface uses the same entries of the driver, so it would fail for the same reason."""
    session = Session({"l2_cache": True}, **{what: Outcome.FAILED})
    session.start()
    session.at(1)
    session.at(2)
    assert session.requests["beside"] == []
    assert list(session.noted) == [Aclprof().what]
    assert session.recordings[0].info.device_sources == {}


def test_it_is_said_once_which_one_it_is():
    """ms-profiler reports its choice once, even if a profiler of the script uses the device in between."""
    session = Session({"l2_cache": True})
    session.start()
    session.device.release()
    session.device.resume()
    assert session.requests["aclprof"] == [*TAKEN, "detach", *TAKEN]
    assert len(session.recordings[0].said) == 1


def test_a_later_recording_uses_the_interface_that_is_active():
    session = Session({})
    session.start()
    session.recordings.append(Recording(resolve({"l2_cache": True})[0]))
    session.start()
    session.at(1)
    assert session.requests == {"aclprof": [], "beside": TAKEN}
    why = "beside recorded the device already, and aclprof cannot record beside it"
    assert session.noted == {Aclprof().what: why}


def test_a_second_recording_learns_where_the_files_are():
    session = Session({"l2_cache": True})
    session.start()
    session.recordings.append(Recording(resolve({"l2_cache": True})[0]))
    session.start()
    assert session.recordings[0].noted == {}
    assert session.recordings[1].noted == {Aclprof().what: "aclprof writes them into results"}
