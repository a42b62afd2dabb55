"""The script's own profiler finds the device's interfaces free; ms-profiler takes them back after its end."""

import ast
import importlib.util
import sys
import types
from contextlib import nullcontext
from pathlib import Path

import pytest
from ms_profiler.job.frameworks import base
from ms_profiler.job.frameworks.mindspore import npu_profiler as mindspore_profiler
from ms_profiler.job.frameworks.torch import npu_profiler as torch_profiler
from ms_profiler.job.frameworks.torch.plugin import LATER
from ms_profiler.job.sources import Sources


class Session:
    """Stand in for a session that releases and resumes its device interfaces, and note the order of the calls."""

    def __init__(self):
        self.said = []
        self.sources = Sources(self.guard)
        self.devices = self

    def release(self):
        self.said.append("release")

    def resume(self):
        self.said.append("resume")

    def guard(self, _):
        return nullcontext()

    def failed(self, what, reason):
        raise AssertionError(what) from reason


def made_up(session, begins, ends):
    """Return a profiler class whose methods have a framework's names for the begin and the end."""

    def begin(self, fails=False):
        session.said.append("begins")
        if fails:
            raise RuntimeError("there is no device")

    def end(self):
        session.said.append("ends")

    return type("Profiler", (), {begins: begin, ends: end})


@pytest.fixture(params=[mindspore_profiler.MODULE, *torch_profiler.CLASSES])
def profiler(request, monkeypatch):
    """Return a session, and functions that begin and end a hooked profiler of a framework."""
    session, module = Session(), types.ModuleType(request.param)
    monkeypatch.setitem(sys.modules, request.param, module)
    if request.param == mindspore_profiler.MODULE:
        module.NpuProfiler = made = made_up(session, "__init__", "finalize")
        base.Plugin("mindspore", [mindspore_profiler.targets]).apply(session)
        return session, lambda **how: made(**how), lambda one: one.finalize()
    made = made_up(session, "init_trace", "finalize_trace")
    setattr(module, torch_profiler.CLASSES[request.param], made)
    assert request.param in LATER
    hooks = base.Plugin("torch", [LATER[request.param]])
    hooks.apply(session)
    assert set(hooks.state.values()) == {"applied"}

    def begin(**how):
        one = made()
        one.init_trace(**how)
        return one

    return session, begin, lambda one: one.finalize_trace()


def test_it_is_lent_from_its_preparation_to_its_end(profiler):
    session, begin, end = profiler
    end(begin())
    assert session.said == ["release", "begins", "ends", "resume"]


def test_a_profiler_that_cannot_be_prepared_does_not_take_over(profiler):
    session, begin, _ = profiler
    with pytest.raises(RuntimeError, match="there is no device"):
        begin(fails=True)
    assert session.said == ["release", "begins", "resume"]


def test_the_names_are_those_of_the_mindspore_that_is_here():
    """The test looks the names up in MindSpore's source, because it does not import MindSpore."""
    found = importlib.util.find_spec("mindspore")
    if found is None:
        pytest.skip("needs MindSpore")
    source = Path(found.origin).parent / "profiler" / "platform" / "npu_profiler.py"
    (made,) = [node for node in ast.parse(source.read_text()).body if getattr(node, "name", "") == "NpuProfiler"]
    assert {"__init__", "finalize"} <= {node.name for node in made.body if isinstance(node, ast.FunctionDef)}
