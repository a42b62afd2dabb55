"""An exception of a signal handler in ms-profiler's own code leaves nothing switched on or off by mistake."""

import gc
import sys
from types import SimpleNamespace

import pytest
from interruption import Interruption
from ms_profiler.job import budget, guard, process, session, sources
from ms_profiler.job.frameworks.torch import ops
from ms_profiler.job.guard import Late, Uncollected
from ms_profiler.job.recorder import interpreter, native
from ms_profiler.job.samplers import stacks, system

pytestmark = pytest.mark.skipif(sys.version_info < (3, 11), reason="needs the table of handlers of a code object")


def interrupted(modules, make):
    """Interrupt the work of new objects, each in another place; yield the object and the place after each exception.

    Args:
        modules: the modules in which the places are.
        make: returns an object, and a function to interrupt.
    """
    tried = set()
    while True:
        made, work = make()
        alarm = Interruption(modules, tried)
        raised = alarm.during("", work)
        assert raised == bool(alarm.where), "the exception does not reach the job"
        if not raised:
            break
        yield made, alarm.where
    assert tried


class Switches:
    """A recorder that notes what is switched on."""

    def __init__(self):
        self.on = {}

    def switch(self, what, on, result=None):
        self.on[what] = on
        return result

    def take_operators(self, on):
        self.switch("operators", on)

    def trace_calls(self, asked):
        return self.switch("calls", True, "")

    def trace_no_calls(self):
        self.switch("calls", False)

    def sample_stacks(self, rate):
        return self.switch("stacks", True, "")

    def sample_no_stacks(self):
        self.switch("stacks", False)

    def read_host(self, asked, rate, share):
        return self.switch("host", bool(asked), "")


def host(**options):
    """Return the part of a session that the samplers use."""
    item = SimpleNamespace(options=SimpleNamespace(**options))
    steps = SimpleNamespace(recording=True, schedule=None, marks=SimpleNamespace(sampled=True))
    return SimpleNamespace(
        recorder=Switches(),
        recordings=[item],
        forked=False,
        owner=True,
        steps=steps,
        wants=lambda _: True,
        guard=lambda _: guard.Guard(lambda *_: None, ""),
    )


@pytest.mark.parametrize(("with_stack", "what"), [(True, "calls"), ("sample", "stacks")])
def test_stacks(with_stack, what):
    def make():
        made = stacks.Stacks(host(with_stack=with_stack, stack_rate=1.0, data_process=False))
        return made, made.start

    for made, where in interrupted([stacks], make):
        made.start()
        assert made._host.recorder.on == {what: True}, where
    for made, where in interrupted([stacks], make):
        made.stop()
        assert not made._host.recorder.on.get(what), where

    def end():
        made, start = make()
        start()
        return made, made.stop

    for made, where in interrupted([stacks], end):
        made.stop()
        assert made._host.recorder.on == {what: False}, where


def test_counters_of_the_host():
    def make():
        made = system.System(host(host_rate=1.0, host_sys=["cpu"], profile_memory=False, overhead_budget=0.05))
        return made, made.start

    for made, where in interrupted([system], make):
        made.stop()
        assert not made._host.recorder.on.get("host"), where


@pytest.mark.parametrize("wanted", [True, False])
def test_operators(monkeypatch, wanted):
    flags = []
    monkeypatch.setitem(sys.modules, ops.PROFILER, SimpleNamespace(_set_is_profiler_enabled=flags.append))

    def make():
        made = ops.OpStream(host())
        made._want(not wanted)
        return made, lambda: made._want(wanted)

    for made, where in interrupted([ops], make):
        made._want(wanted)
        assert made.host.recorder.on == {"operators": wanted} and flags[-1] is wanted, where


def test_sources_start_between_steps_if_their_start_was_interrupted():
    def make():
        made = sources.Sources(host().guard)
        made.begun = []
        made.start += [lambda number=number: made.begun.append(number) for number in range(3)]
        return made, made.started

    for made, where in interrupted([sources], make):
        made.stepped(1, False)
        assert set(made.begun) == {0, 1, 2}, where
    for made, where in interrupted([sources], make):
        made.ended()
        del made.begun[:]
        made.stepped(1, False)
        assert made.begun == [], where


@pytest.mark.parametrize("sampled", [True, False])
def test_a_burst_begins_and_ends_for_all(sampled):
    """After an exception, the next step switches what the exception left out, and calls all sources."""

    def make():
        job = session.Session(process.identity({}))
        job.recordings, job.told, job.fine = [None], [], not sampled
        job.sources.step.append(lambda count: (job.told.append(job.steps.marks.sampled), (sources.NEVER, False))[1])
        job.recorder = SimpleNamespace(now=lambda: 0, fine=lambda on: setattr(job, "fine", on))
        plan = SimpleNamespace(
            sampled=not sampled,
            stretch=1,
            next_look=5,
            long_ns=1 << 60,
            usual=1.0,
            inverse=False,
            spend=lambda ns, exchange: None,
            owe=lambda ns: None,
        )
        plan.compare = lambda *_: False
        plan.passed = lambda *_: vars(plan).update(sampled=sampled, next_look=9)
        job._budget._bursts, job._budget._cost = plan, {"span_ns": 0}
        job._budget._affordable = lambda _: (1.0, 0.0)
        job.recorder.stats = lambda: SimpleNamespace(records=0, helper_ns=0)
        job.recorder.record = job.recorder.intern = lambda *_: 0
        job.recorder.hook_times = lambda _: (0, [], 0)
        job._budget._settle(plan)
        job.sources._due = dict.fromkeys(job.sources.step, sources.NEVER)
        job.steps.next_look = 5
        return job, lambda: job._stepped(5)

    for job, where in interrupted([session, budget, sources], make):
        if not (job.told and job.told[-1] is sampled):
            job._stepped(6)
            assert job.told[-1] is sampled, where
        assert job.steps.marks.sampled is job.fine is sampled, where


def test_garbage_is_collected_and_signals_come():
    for _, where in interrupted([guard], lambda: ((block := Uncollected()), block.__enter__)):
        assert gc.isenabled(), where
    held = []
    delay = lambda on: held.append(on) if on else held.clear()  # noqa: E731
    for _, where in interrupted([guard], lambda: ((block := Late(delay)), block.__enter__)):
        assert not held, where
    gc.enable()


def test_measurements_leave_the_recorder_as_it_was(tmp_path):
    recorder = native.NativeRecorder()
    recorder.open(str(tmp_path))
    measured = interpreter.Interpreter(native._native)

    def make():
        return None, lambda: (recorder.span_cost(), measured._timed())

    for _, where in interrupted([native, interpreter], make):
        before = recorder.stats().records
        recorder.instant(recorder.intern("an event"), 1)
        assert recorder.stats().records == before + 1, where
    recorder.close()
