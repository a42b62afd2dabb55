"""A function's replacement looks like the function, adds no frame and no level of recursion, and records the calls."""

import copy
import ctypes
import functools
import gc
import inspect
import pickle
import pydoc
import signal
import sys
import threading
import types
import weakref

import pytest
from ms_profiler.job import guard
from ms_profiler.job.guard import is_of_the_job, words
from ms_profiler.job.recorder.native import NativeRecorder
from ms_profiler.job.recorder.python import PythonRecorder
from ms_profiler.store.format import Category


@pytest.fixture(params=[NativeRecorder, PythonRecorder], ids=["native", "python"])
def wrap(request):
    """Return a function that wraps a function; its attribute `errors` lists the errors of our own code."""
    recorder, errors = request.param(), []

    def make(function, **settings):
        return recorder.wrap(function, failed=errors.append, forked=[], **settings)

    make.errors = errors
    make.native = request.param is NativeRecorder
    return make


def add(first, second=2, *more, third=3, **named):
    """Return the arguments."""
    return first, second, more, third, named


class Deep:
    def __call__(self, levels):
        return 0 if not levels else 1 + self(levels - 1)


def test_calls_are_passed_on_as_they_are(wrap):
    calls = []

    def before(*args, **kwargs):
        calls.append((args, kwargs))
        return "state"

    for function in (wrap(add), wrap(add, before=before, after=lambda *call: calls.append(call))):
        assert function(1) == (1, 2, (), 3, {})
        assert function(1, 5, 6, third=4, other=7) == (1, 5, (6,), 4, {"other": 7})
        assert function(first=1) == (1, 2, (), 3, {})
        with pytest.raises(TypeError, match="first"):
            function()
    assert calls[:2] == [((1,), {}), ("state", (1, 2, (), 3, {}), None)]
    assert calls[-1][:2] == ("state", None) and isinstance(calls[-1][2], TypeError)


def test_it_passes_for_the_function(wrap):
    function = wrap(add)
    assert inspect.isfunction(function) and isinstance(function, types.FunctionType)
    assert inspect.signature(function) == inspect.signature(add) and inspect.unwrap(function) is add
    assert inspect.getsource(function) == inspect.getsource(add)
    assert (function.__code__ is add.__code__) == wrap.native
    assert (function.__name__, function.__qualname__, function.__doc__) == ("add", "add", add.__doc__)
    assert functools.wraps(function)(lambda: 0).__wrapped__ is function
    assert pydoc.render_doc(function) == pydoc.render_doc(add)


def test_what_the_job_sets_on_it_is_set_on_the_function():
    def plain(first, second=2, *, third=3):
        """Return the arguments."""
        return first, second, third

    def other(first, second=0, *, third=0):
        return first - second - third

    function = NativeRecorder().wrap(plain, failed=[].append, forked=[])
    assert vars(function) == vars(plain) == {}
    function.__defaults__, function.__kwdefaults__, function.mark = (5,), {"third": 6}, "own"
    assert function(1) == plain(1) == (1, 5, 6)
    assert inspect.getattr_static(function, "mark") == "own"
    names = {"__name__": "new", "__qualname__": "New.new", "__doc__": "Do.", "__module__": "mine"}
    names |= {"__annotations__": {"first": int}}
    for name, value in names.items():
        setattr(function, name, value)
        assert getattr(function, name) == getattr(plain, name) == value
    function.__code__ = other.__code__
    assert function(20) == plain(20) == 9 and str(inspect.signature(function)) == "(first: int, second=5, *, third=6)"
    assert functools.wraps(function)(lambda: 0).__dict__ == {"mark": "own", "__wrapped__": function}
    del function.__defaults__, function.mark
    function.__dict__["further"] = 1
    assert plain.__defaults__ is None and vars(plain) == {"further": 1}
    with pytest.raises(TypeError, match="second"):
        function(1)
    errors = []
    for each in (function, plain):
        with pytest.raises(TypeError) as wrong:
            each.__defaults__ = 5
        with pytest.raises(AttributeError) as absent:
            del each.absent
        errors.append((str(wrong.value), str(absent.value)))
    assert errors[0] == errors[1]


def test_it_is_pickled_and_copied_by_its_name(wrap, monkeypatch):
    function = wrap(add)
    monkeypatch.setattr(sys.modules[__name__], "add", function)
    assert pickle.loads(pickle.dumps(function)) is function
    assert copy.deepcopy([function])[0] is function and copy.copy(function) is function


def test_a_method_of_a_type_in_c_is_pickled_and_copied_as_without_a_wrapper():
    replaced = NativeRecorder().wrap(str.upper, failed=[].append, forked=[])
    assert not hasattr(replaced, "__module__") and replaced.__qualname__ == "str.upper"
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.dumps(replaced, protocol) == pickle.dumps(str.upper, protocol)
    assert replaced.__reduce__() == str.upper.__reduce__()
    assert copy.copy(replaced) == copy.deepcopy(replaced) == str.upper


def test_methods_are_bound(wrap, monkeypatch):
    class Kind:
        def method(self, value):
            return self, value

        plain = staticmethod(wrap(add))

    Kind.method = wrap(Kind.method)
    kind = Kind()
    bound = kind.method
    assert bound(1) == kind.method(1) == Kind.method(kind, 1) == (kind, 1)
    assert isinstance(bound, types.MethodType) and bound.__self__ is kind
    assert kind.plain(1)[0] == 1


def deepest(call):
    low, high = 0, 5000
    while high - low > 1:
        middle = (low + high) // 2
        try:
            call(middle)
            low = middle
        except RecursionError:
            high = middle
    return low


def test_a_level_of_nested_calls_costs_no_level_of_recursion(wrap, monkeypatch):
    bare = deepest(Deep())
    for settings in ({}, {"before": lambda *_: 1, "after": lambda *_: None}):
        with monkeypatch.context() as patch:
            patch.setattr(Deep, "__call__", wrap(Deep.__call__, **settings))
            assert (deepest(Deep()) == bare) == wrap.native


def test_a_call_has_no_further_frame(wrap):
    def fails():
        raise ValueError(len(inspect.stack()))

    depths = []
    for function in (fails, wrap(fails), wrap(fails, before=lambda: 1, after=lambda *_: None)):
        with pytest.raises(ValueError, match=r"\d+") as caught:
            function()
        depths.append((caught.value.args, len(caught.traceback)))
    assert (len(set(depths)) == 1) == wrap.native


@pytest.mark.parametrize("where", ["before", "after", "describe"])
def test_an_error_of_ours_is_reported_and_the_call_continues(wrap, where):
    def breaks(*_):
        raise KeyError(where)

    hooks = {"before": lambda *_: 1, "after": lambda *_: None}
    settings = {where: breaks} if where == "describe" else hooks | {where: breaks}
    function = wrap(add, **settings)
    assert function(1)[0] == 1
    with pytest.raises(TypeError, match="exactly one"):
        wrap(len, **settings)(1, 2)
    assert [str(error) for error in wrap.errors] == [f"'{where}'"] * len(wrap.errors) and wrap.errors


def test_only_the_outermost_call_of_a_kind_is_hooked(wrap):
    seen, labels = [], {}

    def describe(item):
        labels[id(item)] = (1, int(Category.MODULE), 0)
        return labels[id(item)]

    class Nested:
        def __call__(self, inner):
            return inner(None) if inner else None

    hooks = {"before": lambda item, *_: seen.append(item), "after": lambda *_: None}
    Nested.__call__ = wrap(Nested.__call__, labels=labels, describe=describe, outermost=1, **hooks)
    outer, inner = Nested(), Nested()
    outer(inner)
    outer(None)
    assert seen == [outer, outer] and set(labels) == {id(inner)}


def test_the_wrapper_lets_its_function_be_collected(wrap):
    def function():
        pass

    wrapper = wrap(function)
    wrapper.itself = wrapper
    gone = weakref.ref(function)
    del function, wrapper
    gc.collect()
    assert gone() is None


@pytest.fixture
def rest():
    """Return a function that lets hooks rest (true) or record again; they record again after the test."""
    recorder = NativeRecorder()
    yield recorder.rest
    recorder.rest(False)


@pytest.fixture
def make():
    """Return a function that wraps a function; its attribute `noted` lists the calls that its hook has noted."""
    recorder, noted = NativeRecorder(), []

    def wrapped(function, rests=True, name="before"):
        hooks = {"before": lambda *_, **__: noted.append(name), "after": lambda *_: None}
        return recorder.wrap(function, failed=pytest.fail, forked=[], rests=rests, **hooks)

    wrapped.noted = noted
    return wrapped


@pytest.mark.parametrize(
    ("function", "args", "named"),
    [
        (add, (1, 2, 3), {"third": 4, "other": 7}),
        (functools.partial(add), (1, 2, 3), {"third": 4, "other": 7}),
        (Deep().__call__, (2,), {}),
        (len, ([1, 2],), {}),
    ],
    ids=["function", "partial", "method", "builtin"],
)
def test_a_wrapper_at_rest_only_calls_its_function(function, args, named, make, rest):
    before, always = make(function), make(function, rests=False, name="always")
    rest(True)
    during, expected = make(function), function(*args, **named)
    assert [each(*args, **named) for each in (before, during)] == [expected] * 2 and make.noted == []
    for each in (before, during):
        with pytest.raises(TypeError):
            each(unknown=1)
    assert always(*args, **named) == expected and make.noted == ["always"]
    rest(False)
    assert [each(*args, **named) for each in (before, during)] == [expected] * 2
    assert make.noted == ["always", "before", "before"]


@pytest.mark.parametrize("first", ["inner", "outer"])
def test_wrappers_of_wrappers_rest_and_record_again(first, make, rest):
    inner = make(add, name="inner", rests=first == "inner")
    outer = make(inner, name="outer", rests=first == "outer")
    both = make(make(add))
    rest(True)
    assert outer(1)[0] == both(1)[0] == 1 and make.noted == ["outer" if first == "inner" else "inner"]
    rest(False)
    make.noted.clear()
    assert outer(1)[0] == both(1)[0] == 1 and make.noted == ["outer", "inner", "before", "before"]


def test_wrappers_that_are_gone_do_not_rest(make, rest):
    made = [make(add, name=number) for number in range(5)]
    for gone in (2, 0, -1):  # the middle, the oldest and the newest
        del made[gone]
        rest(True)
        assert [each(1)[0] for each in made] == [1] * len(made) and make.noted == []
        rest(False)
        assert [each(1)[0] for each in made] == [1] * len(made) and len(make.noted) == len(made)
        make.noted.clear()


def test_a_wrapper_at_rest_may_be_removed_during_its_call(make, rest):
    made = {}

    def function(value):
        gone = weakref.ref(made.pop("it"))
        gc.collect()
        return value + 1, gone

    made["it"] = make(function)
    rest(True)
    value, gone = made["it"](1)
    assert value == 2 and gone() is None


def test_hooks_rest_while_the_garbage_collector_removes_a_wrapper(make, rest):
    """The wrapper has lost its function when the collector frees the code object, whose end lets hooks rest."""

    def called_back(_):
        rested.append(rest(True))

    rested, wrapper = [], make(lambda: None)
    wrapper.itself = wrapper
    wrapper.late = compile("1", "late", "eval")  # not tracked by the collector, so it is freed only with the wrapper
    watch = weakref.ref(wrapper.late, called_back)
    del wrapper
    gc.collect()
    assert rested == [None] and watch() is None
    kept = make(add)
    assert kept(1)[0] == 1 and make.noted == []


def raises(*_):
    raise TimeoutError("too long")


class Handling:
    def __getattr__(self, name):
        raise SystemExit("the script's own method was called")

    def __call__(self, *_):
        raises()

    def handle(self, *_):
        raises()


@pytest.mark.parametrize(
    "handler", [raises, functools.partial(raises, 1), functools.partial(Handling().handle, 2), Handling()], ids=range(4)
)
def test_an_exception_of_a_signal_handler_is_the_jobs(handler):
    before = signal.signal(signal.SIGUSR2, handler)
    try:
        with pytest.raises(TimeoutError) as caught:
            signal.raise_signal(signal.SIGUSR2)
        assert is_of_the_job(caught.value) and is_of_the_job(SystemExit()) and not is_of_the_job(ValueError())
    finally:
        signal.signal(signal.SIGUSR2, before)
    with pytest.raises(TimeoutError) as caught:
        raises()
    assert not is_of_the_job(caught.value)


class TooLongError(Exception):
    """An exception that another thread sends."""


def test_an_exception_that_another_thread_sends_is_the_jobs():
    """CPython raises such an exception in the running frame; here this is a frame of our own code."""
    code = compile("def run():\n    while True: pass\n", guard.__file__, "exec")
    ours = {}
    exec(code, ours)
    with pytest.raises(AttributeError) as failed:
        exec(compile("None.missing", guard.__file__, "exec"))
    assert not is_of_the_job(failed.value)  # an error of our own code
    identity = ctypes.c_ulong(threading.get_ident())
    send = ctypes.pythonapi.PyThreadState_SetAsyncExc
    threading.Timer(0.05, send, (identity, ctypes.py_object(TooLongError))).start()
    with pytest.raises(TooLongError) as caught:
        ours["run"]()
    assert is_of_the_job(caught.value)
    with pytest.raises(TooLongError) as caught:
        raise TooLongError  # as the script's code does if our code has called it
    assert not is_of_the_job(caught.value)


def test_the_text_of_an_error_calls_no_code_of_the_script():
    class Key:
        def __repr__(self):
            raise SystemExit("the script's own method was called")

    assert (words(KeyError(Key())), words(KeyError("x"))) == ("KeyError", "KeyError: 'x'")
