"""Exceptions of the job's audit hooks (`sys.addaudithook`) for what ms-profiler does do not reach the job."""

import functools
import signal

import pytest
from ms_profiler.job import guard
from ms_profiler.job.guard import is_of_the_job
from unharmed import analysed, training, unharmed

#: a hook raises an exception for the named events of our code; without names, for all
HOOK = """
names, busy, kind = {names}, [], type("Stop", (BaseException,), dict())
def of_ours():
    frame = sys._getframe()
    while frame is not None and "/ms_profiler/" not in frame.f_code.co_filename:
        frame = frame.f_back
    return frame is not None
def hook(event, args):
    if not busy and (event in names or not names):
        busy.append(1)
        try:
            mine = of_ours()
        finally:
            busy.clear()
        if mine:
            raise kind("refused")
sys.addaudithook(hook)
"""


REFUSED = """
step()
names, kind = ["open", "os.rename"], SystemExit
for _ in range(40):
    loss = step()
names = ["nothing"]
print(loss)
"""


@pytest.mark.slow
def test_a_hook_that_refuses_all_that_we_do_changes_nothing_in_the_job(launch):
    """All is refused from the begin in one job, and in the other one our files in the middle of the training."""
    bare = launch(training(REFUSED, "names = kind = None"), profile=False)
    unharmed(launch(training(REFUSED.replace("names", "_"), HOOK.format(names="()"))), bare)
    run = launch(training(REFUSED, HOOK.format(names="['nothing']")))
    unharmed(run, bare)
    assert any(line.endswith("failed (SystemExit: refused); the job continues without it") for line in run.lines)
    assert analysed(run)["steps"]["count"] >= 7


class Refusal(BaseException):
    """An exception of the job."""


def called_by_us(call, *args):
    """Return the exception that leaves a function of ours that calls a function of the job."""
    ours = {}
    exec(compile("def run(call, args): call(*args)", guard.__file__, "exec"), ours)
    with pytest.raises(BaseException) as caught:
        ours["run"](call, args)
    return caught.value


def test_an_exception_of_a_hook_is_not_the_jobs_but_one_of_a_signal_handler_or_ctrl_c_in_a_hook_is():
    def refuse(event, args):
        args = list(args)
        raise kinds[event]

    def wait(event, args):
        signal.raise_signal(signal.SIGINT)

    def stop(*_):
        signal.signal(signal.SIGUSR2, signal.SIG_DFL)  # as a handler does that wants to be called once
        raise Refusal

    kinds = {kind.__name__: kind for kind in (Refusal, SystemExit, KeyboardInterrupt, ValueError)}
    for name in kinds:
        for hook in (refuse, functools.partial(lambda _, *given: refuse(*given), 1)):
            assert not is_of_the_job(called_by_us(hook, name, ("file", "r", 0))), name
    before = signal.signal(signal.SIGUSR2, stop)
    # a shell lets its background commands ignore SIGINT
    interrupted = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        assert is_of_the_job(called_by_us(signal.raise_signal, signal.SIGUSR2))
        signal.signal(signal.SIGUSR2, lambda *_: stop())
        assert is_of_the_job(called_by_us(signal.raise_signal, signal.SIGUSR2))
        assert is_of_the_job(called_by_us(wait, "open", ()))
    finally:
        signal.signal(signal.SIGUSR2, before)
        signal.signal(signal.SIGINT, interrupted)
