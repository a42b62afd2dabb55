"""Hooks find targets that have another place or name in other versions of MindSpore than the installed one.

`make test-versions` runs these versions.
"""

import sys
import types

import pytest
from ms_profiler.job.frameworks import base
from ms_profiler.job.frameworks.mindspore import pynative, recompute, sync
from ms_profiler.job.recorder import python_wrapper
from ms_profiler.job.sources import Sources


class Recorder:
    """Note which spans begin and end, by name."""

    def __init__(self):
        self.names = [""]
        self.log = []

    def intern(self, name):
        self.names.append(name)
        return len(self.names) - 1

    def begin(self, name, category, arg=0):
        self.log.append(f"begin {self.names[name]}")
        return name

    def end(self, token, flags=0):
        self.log.append(f"end {self.names[token]}")

    def now(self):
        return 0

    def wrap(self, function, **settings):
        return python_wrapper.wrap(self, function, **settings)


class Guard:
    def __enter__(self):
        pass

    def __exit__(self, *_):
        return False


class Session:
    """Stand in for the part of a session that these hooks use."""

    def __init__(self):
        self.recorder = Recorder()
        self.sources = Sources(self.guard)
        self.steps = types.SimpleNamespace(
            began=lambda at, forward: None, call_began=lambda at: None, call_ended=lambda which, at: None
        )

    def guard(self, what):
        return Guard()

    def failed(self, what, reason):
        raise AssertionError(what) from reason


def applied(session, concern):
    """Apply the hooks of one module of ms-profiler, and return the names of those that found their targets."""
    hooks = base.Plugin("mindspore", [concern.targets])
    hooks.apply(session)
    return [name for name, state in hooks.state.items() if state == "applied"]


@pytest.fixture
def module(monkeypatch):
    """Return a function that replaces a module of MindSpore by a module made from source text."""

    def make(name, source):
        made = types.ModuleType(name)
        exec(compile(source, name, "exec"), vars(made))
        for value in vars(made).values():
            if isinstance(value, (type, types.FunctionType)):
                value.__module__ = name
        monkeypatch.setitem(sys.modules, name, made)
        return made

    return make


METHODS = """
class GradOperation:
    def _pynative_forward_run(self, fn, grad, weights, *args, **kwargs):
        return fn(*args, **kwargs)
class _Grad:
    def _pynative_forward_run(self, fn, grad, weights, *args, **kwargs):
        return fn(*args, **kwargs)
"""
OUTER = """
class GradOperation:
    pass
def _pynative_forward_run(fn, grad, *args):
    return fn(*args)
"""
INNER = """
def _pynative_func_grad_forward(fn, *args):
    return fn(*args)
def _pynative_forward_run(fn, grad, *args):
    return _pynative_func_grad_forward(fn, *args)
"""


@pytest.mark.parametrize(
    ("source", "hooked"),
    [
        (METHODS, ["GradOperation._pynative_forward_run", "_Grad._pynative_forward_run"]),
        (OUTER, ["_pynative_forward_run"]),
        (INNER, ["_pynative_func_grad_forward"]),
    ],
    ids=["methods", "function", "two functions"],
)
def test_forward_passes_are_found_by_version(module, source, hooked):
    gradients = module(pynative.GRADIENTS, source)
    session = Session()
    prefix = f"{pynative.GRADIENTS}."
    assert [name.removeprefix(prefix) for name in applied(session, pynative) if name.startswith(prefix)] == hooked
    if source is METHODS:
        assert gradients._Grad()._pynative_forward_run(pow, None, None, 2, 3) == 8
        assert gradients.GradOperation()._pynative_forward_run(pow, None, None, 2, exp=2) == 4
    else:
        assert gradients._pynative_forward_run(pow, None, 2, 3) == 8
        assert gradients._pynative_forward_run(pow, None, 2, 2) == 4
    assert session.recorder.log == ["begin forward", "end forward"] * 2


STATE = """
class _RecomputeCell:
    def bprop(self):
        pass
class _RecomputeState:
    def __init__(self, recompute_fn):
        self.recompute_fn = recompute_fn
def without_reentrance(block):
    def recompute_function(*inputs):
        assert running()
        results.append(block(*inputs))
    return _RecomputeState(recompute_function)
results = []
"""


def test_recomputation_without_reentrance_is_found_in_its_state(module):
    made = module(recompute.MODULE, STATE)
    made.running = recompute.running
    session = Session()
    assert applied(session, recompute) == [
        f"{recompute.MODULE}._RecomputeCell.bprop",
        f"{recompute.MODULE}._RecomputeState.__init__",
    ]

    def block(x, y):
        return x + y

    state = made.without_reentrance(block)
    assert session.recorder.log == [] and not recompute.running()
    state.recompute_fn(1, 2)
    assert made.results == [3] and not recompute.running()
    name = f"recompute {block.__qualname__}"
    assert session.recorder.log == [f"begin {name}", f"end {name}"]


@pytest.mark.parametrize(
    ("method", "given", "result"),
    [
        ("def asnumpy(self): return 5", {}, 5),
        ("def asnumpy(self, copy=5): return copy", {"copy": 6}, 6),
        ("def asnumpy(self, *, copy=5): return copy", {"copy": 6}, 6),
        ("def asnumpy(self, **given): return given['copy']", {"copy": 6}, 6),
    ],
)
def test_a_read_takes_the_arguments_that_its_version_has(module, method, given, result):
    made = module(sync.TENSOR, f"class Tensor:\n    {method}\n")
    session = Session()
    assert f"{sync.TENSOR}.Tensor.asnumpy" in applied(session, sync)
    assert made.Tensor().asnumpy(**given) == result
    assert session.recorder.log == ["begin Tensor.asnumpy", "end Tensor.asnumpy"]
