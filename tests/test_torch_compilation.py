"""The reason of a recompilation is recorded without the values of the script's arguments."""

from contextlib import nullcontext
from types import SimpleNamespace

import pytest
from ms_profiler.job.frameworks.torch import closures, compilation


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        (
            "0/0: tensor 'x' size mismatch at index 0. expected 2, actual 3",
            "tensor 'x' size mismatch at index 0. expected 2, actual 3",
        ),
        ("0/5: GLOBAL_STATE changed: grad_mode ", "GLOBAL_STATE changed: grad_mode"),
        ("0/1: 2 <= x.size()[0]  # if flag: x=x+n  # train.py:11 in forward", "2 <= x.size()[0]"),
        ("0/3: name == 'secret'        # if name == 'a':  # train.py:9\nUser stack", "name has another value"),
        ("1/2_1: L['key'] is not None", "L['key'] has another value"),
        ("0/0: ___check_type_id(L['x'], 139659049296768), type=<class 'tuple'>", "L['x']: check type id"),
        (
            "0/5: tensor 's.w' requires_grad mismatch. expected requires_grad=1. Guard failed on a parameter, consider",
            "tensor 's.w' requires_grad mismatch. expected requires_grad=1",
        ),
        ("0/0: " + "tensor " + "x" * 900, "tensor " + "x" * 193),
    ],
)
def test_causes_hold_sizes_and_no_values(reason, cause):
    assert compilation.cause(reason) == cause


class FakeSession:
    """A session that keeps a list of the spans that begin and end."""

    def __init__(self):
        self.spans = []
        self.recorder = self

    def guard(self, what):
        return nullcontext()

    def intern(self, text):
        return text

    def begin(self, name, category):
        self.spans.append(name)
        return len(self.spans)

    def end(self, token, flags=0):
        self.spans.append(token)


def lazily(name):
    return SimpleNamespace(callback_trigger=SimpleNamespace(name=name))


@pytest.mark.parametrize(
    ("arguments", "inside", "spans"),
    [
        ((lazily("LAZY_BACKWARD"),), False, ["compile lazy backward", 1]),
        ((lazily("DYNAMO"),), True, [0]),
        # until PyTorch 2.7, callbacks have no arguments, so that the kind of compilation is unknown
        ((), False, ["compile graph", 1]),
        ((), True, [0]),
    ],
)
def test_callbacks_of_a_compilation_are_called_as_the_version_calls_them(monkeypatch, arguments, inside, spans):
    session, passed = FakeSession(), []
    compiling = compilation._Compiling()
    monkeypatch.setattr(compilation, "_compiling", compiling)
    # functions are hidden from Dynamo with functions of PyTorch, which this test does not import
    monkeypatch.setattr(closures, "unseen", lambda function: function)
    if inside:
        compiling.running.append(["function", ""])
    hooks = compilation.Compilation(session)
    for make in (hooks.starts, hooks.ends):

        def original(handler, *args):
            passed.append((handler, *args))

        make(original)("handler", *arguments)
    assert passed == [("handler", *arguments)] * 2
    assert session.spans == spans
