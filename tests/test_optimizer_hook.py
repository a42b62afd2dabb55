"""The extension's hooks for optimizers' steps: what they note themselves, and what they leave to Python code.

Like `test_wrapper.py`, this file also runs with the wheel, on each version of Python, without `conftest.py`.
"""

import threading
from types import SimpleNamespace

import pytest
from ms_profiler.job.steps import Steps
from ms_profiler.store.format import Category, StepSource


class Owner:
    """Stands for an optimizer."""


@pytest.fixture
def native():
    module = pytest.importorskip("ms_profiler._native")
    yield module
    module.rest(False)


def quick_hook(native, steps, python, begins):
    settings = {"labels": {}, "category": int(Category.OPTIMIZER), "failed": pytest.fail, "forked": []}
    return native.OptimizerHook(python, begins=begins, steps=steps, **settings)


def lone_steps(optimizer):
    """Return a `Steps` for which each step of an optimizer is a step of the job."""
    times = iter(range(100, 200, 10))
    steps = Steps(SimpleNamespace(record=lambda *_: True, now=lambda: next(times), intern=len))
    steps.began(0)
    steps.optimizer_made(optimizer)
    for at in (10, 20, 30):
        steps.turn_ended(StepSource.OPTIMIZER_CYCLE, id(optimizer), at, optimizer)
    assert steps.lone == id(optimizer)
    return steps


def test_steps_of_the_counted_optimizer_are_noted_at_their_ends_by_c_code_alone(native):
    optimizer, other, python = Owner(), Owner(), []
    steps = lone_steps(optimizer)
    begin, end = (quick_hook(native, steps, lambda *args: python.append(args), begins) for begins in (True, False))
    native.rest(True)
    begin.counted = end.counted = id(optimizer)
    before = steps.count
    for _ in range(3):
        begin(optimizer, (), {})
        end(optimizer, (), {})
    assert steps.count == before + 3 and python == []
    begin(other, (), {})
    end(other, (), {})
    assert steps.count == before + 3 and len(python) == 2
    thread = threading.Thread(target=end, args=(optimizer, (), {}))
    thread.start()
    thread.join()
    assert steps.count == before + 3 and len(python) == 3
    steps.suspend()
    steps.resume()
    turn = (StepSource.OPTIMIZER_CYCLE, id(optimizer), 200, optimizer)
    thread = threading.Thread(target=steps.turn_ended, args=turn)
    thread.start()
    thread.join()
    begin(optimizer, (), {})
    assert len(python) == 4, "the next step has no begin, and Python code notes it"


def test_a_step_that_no_hook_has_begun_is_left_to_python_code_also_while_hooks_rest(native):
    optimizer = Owner()
    steps = lone_steps(optimizer)
    hook = quick_hook(native, steps, print, begins=True)
    native.rest(True)
    steps.suspend()
    steps.resume()
    assert steps.running is None and not hook.take(optimizer, None)
    steps.began(30)
    steps.turn_ended(StepSource.OPTIMIZER_CYCLE, id(optimizer), 40, optimizer)
    assert hook.take(optimizer, None)
    assert native.take_optimizer_step() is not None


def test_the_lengths_of_the_last_steps_are_kept(native):
    optimizer = Owner()
    steps = lone_steps(optimizer)
    kept = steps.lengths(100)
    assert len(kept) == steps.count and steps.lengths(1) == kept[-1:]
    for at in range(1_000, 1_000_000, 1_000):
        steps.turn_ended(StepSource.OPTIMIZER_CYCLE, id(optimizer), at, optimizer)
    assert steps.lengths(3) == [1_000] * 3 and len(steps.lengths(1 << 40)) == 512
    begin, end = (quick_hook(native, steps, print, begins) for begins in (True, False))
    native.rest(True)
    begin.counted = end.counted = id(optimizer)
    begin(optimizer, (), {})
    end(optimizer, (), {})
    length, before = steps.lengths(1)[0], steps.lengths(2)[0]
    assert before == 1_000 and length > 1 << 31, "the time that C code reads is far from 999,000 ns"
    assert steps.lengths(0) == []
