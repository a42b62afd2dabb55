"""A session sends aclprof the right requests and the right folder, and does not use aclprof where it must not."""

from types import SimpleNamespace

import pytest
from ms_profiler.job.devices import aclprof, npu
from ms_profiler.job.devices.aclprof import Aclprof
from ms_profiler.job.devices.aclprof_plan import Data, Metrics
from ms_profiler.options import resolve


@pytest.fixture
def session(tmp_path, monkeypatch):
    """Return a session with one recording, on a machine with an NPU that the main thread does not use."""
    (tmp_path / "davinci0").touch()
    monkeypatch.setattr(npu, "FOLDER", str(tmp_path))
    monkeypatch.setattr(aclprof, "device", lambda: None)
    recording = SimpleNamespace(options=resolve({"l2_cache": True})[0], result="/results/a_ascend_ms")
    aside = []
    made = SimpleNamespace(
        home=recording,
        recordings=[recording],
        limit=600_000_000,
        limited_by="max_disk",
        identity=SimpleNamespace(device_id=3),
        steps=SimpleNamespace(count=0),
        targets={"Ascend"},
        left_running="",
        recorder=SimpleNamespace(set_aside=lambda size: aside.append(size)),
        aside=aside,
        noted={},
    )
    made.not_collected = made.noted.__setitem__
    return made


def test_it_records_into_the_directory_of_the_first_recording(session):
    order = Aclprof().tracing(None, session)._plan()
    assert (order.folder, order.device) == ("/results/a_ascend_ms", 3)
    assert (order.plan.data, order.plan.metrics) == (Data.ACL_API | Data.TASK_TIME_L0 | Data.L2CACHE, Metrics.NONE)
    assert [request.value for request in order.plan.requests] == ["300MB"]
    assert session.aside == [300_000_000]


def test_begun_anew_it_has_the_rest_of_its_room(session, tmp_path):
    session.home.result = str(tmp_path)
    data = tmp_path / "PROF_000001_1_FAKE" / "device_0" / "data"
    data.mkdir(parents=True)
    with (data / "large").open("wb") as stream:
        stream.truncate(60_000_000)
    assert Aclprof().tracing(None, session)._plan().plan.requests[0].value == "240MB"
    assert session.aside == [300_000_000], "what it wrote before is part of what others leave to it"
    with (data / "larger").open("wb") as stream:
        stream.truncate(50_000_000)
    assert Aclprof().left_to(session) == "max_disk leaves 190 MB for aclprof, which needs 200 MB or more"


def test_the_device_of_the_calling_thread_counts(session, monkeypatch):
    monkeypatch.setattr(aclprof, "device", lambda: 6)
    assert Aclprof().tracing(None, session)._plan().device == 6


def test_refused_options_are_noted(session):
    Aclprof().tracing(None, session)._refused(["pcie", "sys_interconnection"], "no")
    assert session.noted == {"pcie": "no", "sys_interconnection": "no"}


def test_a_framework_that_computes_on_it_uses_it_once_a_step_has_ended(session):
    used = Aclprof().tracing(None, session)._used
    assert not used()
    session.steps.count = 1
    assert used()
    session.targets = {"CPU"}
    assert not used()


def test_it_is_left_alone_where_it_has_no_room_on_the_disk(session):
    assert Aclprof().left_to(session) == ""
    session.limit = 398_000_000
    assert Aclprof().left_to(session) == "max_disk leaves 199 MB for aclprof, which needs 200 MB or more"
    session.limited_by = "a tenth of the free disk space"
    assert Aclprof().left_to(session).startswith("a tenth of the free disk space leaves 199 MB")


def test_it_is_left_to_mindspores_own_profiler(session, monkeypatch):
    session.left_running = "takeover is false"
    assert Aclprof().left_to(session) == "MindSpore's own profiler has it: takeover is false"


def test_without_an_npu_there_is_no_message(session, monkeypatch, tmp_path):
    monkeypatch.setattr(npu, "FOLDER", str(tmp_path / "none"))
    session.left_running = "takeover is false"
    assert Aclprof().left_to(session) == ""


@pytest.mark.parametrize(("preloaded", "chosen"), [("", True), ("/opt/lib64/libmspti.so", False)])
def test_memory_goes_to_msptis_library_where_that_is_preloaded(monkeypatch, preloaded, chosen):
    monkeypatch.setenv("LD_PRELOAD", preloaded)
    assert Aclprof().serves([resolve({"profile_memory": True})[0]]) is chosen
