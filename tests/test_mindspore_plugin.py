"""A missing target of a hook is only noted as missing, and the replacement of a function is a function."""

import gc
import pickle
import sys
import types
import weakref

import pytest
from conftest import PROGRAMS
from events import events, of, steps
from ms_profiler.job.frameworks import base
from ms_profiler.job.frameworks.mindspore import plugin
from ms_profiler.job.guard import Guard
from ms_profiler.job.recorder.python import PythonRecorder
from ms_profiler.job.sources import Sources
from ms_profiler.job.steps import Steps
from ms_profiler.store.format import Category, StepSource


class Session:
    """Stand in for the part of a session that declares hooks."""

    owner = False
    redirects = False
    devices = None

    def wants(self, activity):
        return False

    def __init__(self):
        self.recorder = PythonRecorder()
        self.steps = Steps(self.recorder)
        self.failures = []
        self.sources = Sources(self.guard)
        self.at_start, self.at_end = self.sources.start.append, self.sources.end.append

    def at_step(self, call, follows=True):
        self.sources.step.append(call)

    def failed(self, what, reason):
        self.failures.append((what, reason))

    def guard(self, what):
        return Guard(self.failed, what)


@pytest.fixture
def modules():
    """Return a framework of two modules that define a function of the same name, and a module with copies of them."""
    made = {name: types.ModuleType(name) for name in ("unframework", "unframework.a", "unframework.b", "unframework.c")}
    for name in ("a", "b"):
        code = f"def work(x, *, y=1):\n    '''Work.'''\n    return ('{name}', x, y)\n"
        code += "class Thing:\n    @staticmethod\n    def static(x):\n        return x\n    def method(self, x):\n"
        code += "        return (self, x)\n"
        exec(compile(code, name, "exec"), vars(made[f"unframework.{name}"]))
    made["unframework.c"].work = made["unframework.b"].work
    made["unframework"].work = made["unframework.a"].work
    sys.modules.update(made)
    yield made
    for name in made:
        sys.modules.pop(name, None)


def declared(log):
    def wrapper(wrapped, instance, args, kwargs):
        log.append((instance, args, kwargs))
        return wrapped(*args, **kwargs)

    targets = [
        base.Target("unframework.a", "work", wrapper, copies=True),
        base.Target("unframework.b", "work", wrapper, copies=True),
        base.Target("unframework.a", "Thing.static", wrapper),
        base.Target("unframework.a", "Thing.method", wrapper),
        base.Target("unframework.a", "gone", wrapper, group="unframework.some"),
        base.Target("unframework.b", "Thing.method", wrapper, group="unframework.some"),
        base.Target("unframework.a", "Thing.gone", wrapper),
        base.Target("unframework.a", "Thing.__call__", wrapper),  # only the class's metaclass has this attribute
        base.Target("unframework.gone", "work", wrapper),
    ]
    return lambda session: targets


def test_functions_and_their_copies_are_replaced(modules):
    before = {name: dict(vars(module)) for name, module in modules.items()}
    log = []
    hooks = base.Plugin("unframework", [declared(log)])
    hooks.apply(Session())
    a, b = modules["unframework.a"], modules["unframework.b"]
    assert modules["unframework"].work is a.work is not b.work is modules["unframework.c"].work
    assert modules["unframework"].work(1, y=2) == ("a", 1, 2) and modules["unframework.c"].work(3) == ("b", 3, 1)
    thing = a.Thing()
    assert thing.method(4) == (thing, 4) and a.Thing.static(5) == thing.static(5) == 5
    assert log == [
        (None, (1,), {"y": 2}),
        (None, (3,), {}),
        (thing, (4,), {}),
        (None, (5,), {}),
        (None, (5,), {}),
    ]
    for function in (a.work, a.Thing.method, a.Thing.static):
        assert type(function) is types.FunctionType and function.__wrapped__
    a.work.__module__ = "unframework.a"  # an attribute that exec does not set
    assert pickle.loads(pickle.dumps(a.work)) is a.work
    assert hooks.state == {
        "unframework.a.work": "applied",
        "unframework.b.work": "applied",
        "unframework.a.Thing.static": "applied",
        "unframework.a.Thing.method": "applied",
        "unframework.some": "applied",
        "unframework.a.Thing.gone": "missing: unframework.a.Thing has no gone",
        "unframework.a.Thing.__call__": "missing: unframework.a.Thing has no __call__",
        "unframework.gone.work": "missing: module unframework.gone is not loaded",
    }
    hooks.undo()
    for name, module in modules.items():
        assert all(vars(module)[key] is value for key, value in before[name].items())


def test_hooks_hold_no_module_beyond_its_life(modules):
    hooks = base.Plugin("unframework", [declared([])])
    hooks.apply(Session())
    del sys.modules["unframework.a"]
    reference = weakref.ref(modules.pop("unframework.a"))
    gc.collect()
    assert reference() is None
    hooks.undo()  # undoes the hooks that are left


def test_parts_that_another_version_lacks_are_missing_and_no_error(monkeypatch):
    context = types.ModuleType("mindspore.context")
    context.GRAPH_MODE, context._get_mode = 0, lambda: 1
    monkeypatch.setitem(sys.modules, "mindspore.context", context)
    assert not [name for name in sys.modules if name.startswith("mindspore.") and name != "mindspore.context"]
    hooks, session = plugin.MindSpore(), Session()
    hooks.apply(session)
    assert session.failures == []
    assert len(hooks.state) > 60
    assert {text.partition(":")[0] for text in hooks.state.values()} == {"missing"}


@pytest.mark.slow
def test_optimizers_of_all_families_make_one_step_together(job):
    run = job(PROGRAMS / "optimizers.py", options={"analyse": "off"}, env={"MS_PROFILER_RAISE": "1"})
    assert run.code == 0, run.err
    found = events(run.result)
    assert of(found, Category.OPTIMIZER) == {
        "Adam": 4,
        "Adam#2": 4,
        "Adam#3": 4,
        "Momentum": 4,
        "AdamW": 4,
        "SGD": 4,
    }
    assert [step.category for step in steps(found)] == [StepSource.OPTIMIZER_CYCLE] * 4
