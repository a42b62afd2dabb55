"""The function of the script that makes a dataset of MindSpore slow is named, without any option."""

import importlib.util
from types import SimpleNamespace

import pytest
from conftest import PROGRAMS
from ms_profiler.analysis.metrics import steps, transforms
from ms_profiler.analysis.readers import store as readers_store
from ms_profiler.job.frameworks.mindspore import transforms as job_transforms
from ms_profiler.store.format import Category
from ms_profiler.store.names import TRANSFORM_CALLS, TRANSFORM_PROCESSES, TRANSFORM_TIME
from store_builder import MS, StoreBuilder

PROGRAM = PROGRAMS / "mapped_mindspore.py"


@pytest.mark.skipif(importlib.util.find_spec("mindspore") is None, reason="needs MindSpore")
@pytest.mark.parametrize(
    "place", ["processes", *(pytest.param(place, marks=pytest.mark.slow) for place in ("map", "source"))]
)
def test_a_slow_function_is_named_with_its_calls(job, place):
    run = job(PROGRAM, place, options={"analyse": "sync"}, env={"MS_PROFILER_RAISE": "1"})
    assert run.code == 0, run.err
    evidence = " ".join(each["evidence"] for each in run.summary["advice"])
    (line,) = [
        number for number, text in enumerate(PROGRAM.read_text().splitlines(), 1) if text.startswith("def augment")
    ]
    named = f"of the time is in augment ({PROGRAM.name}:{line}): 120 calls"
    assert (named in evidence) is (place == "map"), evidence
    elsewhere = f"runs functions of the dataset in other processes: augment ({PROGRAM.name}:{line}) in 2 processes; "
    assert (elsewhere in evidence) is (place == "processes"), evidence
    assert "scale" not in evidence and "convert" not in evidence


class Recorder:
    """Stand in for a recorder: a clock that goes on by some ns at each reading, and the values of counters."""

    def __init__(self, length_ns):
        self.length_ns, self.readings, self.time, self.values = length_ns, 0, 0, {}

    def now(self):
        self.readings += 1
        self.time += self.length_ns
        return self.time

    def intern(self, text):
        return text

    def counter(self, name, value):
        self.values[name] = value

    def wrap(self, function, *, before, after, failed, forked):
        def replacement(*args):
            state = before(*args)
            result = function(*args)
            if state is not None:
                after(state, result, None)
            return result

        return replacement


def augment(x):
    return x


class Wrapper:
    def __init__(self, transform):
        self.transform = transform


@pytest.mark.parametrize("length_ns", [MS, 1000], ids=["long", "short"])
def test_each_recording_has_its_own_calls(length_ns):
    """While the job compiles, each of the first calls takes ten times as long."""
    ends, recorder = [], Recorder(length_ns)
    host = SimpleNamespace(recorder=recorder, at_end=ends.append, guard=lambda what: None)
    call = job_transforms.Transforms(host).wrap(lambda wrapper, x: wrapper.transform(x))
    wrapper = Wrapper(augment)
    for count in (2000, 600):
        for number in range(count):
            recorder.length_ns = length_ns * (10 if number < job_transforms.FIRST else 1)
            call(wrapper, 1)
        ends[0]()
        (calls,) = (value for name, value in recorder.values.items() if name.startswith(f"{TRANSFORM_CALLS}augment ("))
        (time,) = (value for name, value in recorder.values.items() if name.startswith(f"{TRANSFORM_TIME}augment ("))
        assert (calls, time) == (count, (count + 9 * job_transforms.FIRST) * length_ns)
    every = 2 * (2000 + 600)
    assert recorder.readings == every if length_ns == MS else recorder.readings < every / 10


@pytest.mark.parametrize("late", [3, 70])
def test_one_call_that_waits_does_not_count_as_the_time_of_the_function(late):
    """One call takes 800 ms, among the first calls or later; the others take 1 us."""
    ends, recorder = [], Recorder(1000)
    host = SimpleNamespace(recorder=recorder, at_end=ends.append, guard=lambda what: None)
    call = job_transforms.Transforms(host).wrap(lambda wrapper, x: wrapper.transform(x))
    wrapper = Wrapper(augment)
    for number in range(1, 600):
        recorder.length_ns = 800 * MS if number in (late, job_transforms.RARE * (late > job_transforms.FIRST)) else 1000
        call(wrapper, 1)
    ends[0]()
    (time,) = (value for name, value in recorder.values.items() if name.startswith(f"{TRANSFORM_TIME}augment ("))
    assert time == 599 * 1000


@pytest.fixture
def told(tmp_path):
    """Return a function that writes a run with waits of 100 ms for data, and returns what is said of the functions."""

    def made(**functions):
        store = StoreBuilder(tmp_path)
        process = store.process()
        thread, worker = process.thread(), process.thread(2, "worker")
        for name, (calls, milliseconds) in functions.items():
            for part in (1, 2):  # the sums so far, and at the end
                worker.counter(f"{TRANSFORM_CALLS}{name}", part * MS, calls * part / 2)
                worker.counter(f"{TRANSFORM_TIME}{name}", part * MS, milliseconds * part / 2 * MS)
        for number in range(10):
            thread.span("wait for BatchDataset", Category.DATA, number * 20 * MS, number * 20 * MS + 10 * MS)
            thread.step(number, number * 20 * MS, (number + 1) * 20 * MS)
        recording = readers_store.read(str(store.write()))
        used = steps.choose(recording)
        sums = transforms.sums(recording)
        return transforms.words(sums, recording, used), transforms.beside(sums, used)

    return made


def test_calls_and_time_are_those_at_the_end(told):
    text, beside = told(scale=(40, 10), augment=(40, 190))
    assert beside == (
        "; functions of the dataset run for 200.0 ms on other threads: 40 calls of augment take 190.0 ms of it"
    )
    assert text == "; in its functions, 95 % of the time is in augment: 40 calls, 4.8 ms each, about 190.0 ms in all"


@pytest.mark.parametrize(
    "functions",
    [
        pytest.param({}, id="no function"),
        pytest.param({"augment": (40, 40)}, id="too short for the waits"),
        pytest.param(dict.fromkeys("abcd", (40, 90)), id="all alike"),
    ],
)
def test_no_function_is_named_without_a_reason(told, functions):
    assert told(**functions)[0] == ""


@pytest.mark.parametrize(
    ("functions", "said"),
    [
        ({}, ""),
        ({"augment (a.py:1)": 1}, ": augment (a.py:1) in 1 process; their"),
        ({"d": 1, "a": 8, "c": 2, "b": 8}, ": a in 8 processes, b in 8 processes, c in 2 processes, and 1 more; their"),
    ],
)
def test_functions_in_other_processes_are_named(tmp_path, functions, said):
    store = StoreBuilder(tmp_path)
    worker = store.process().thread()
    for name, processes in functions.items():
        for epoch in (1, 2):
            worker.counter(f"{TRANSFORM_PROCESSES}{name}", epoch * MS, processes)
    text, remedy = transforms.elsewhere(readers_store.read(str(store.write())))
    assert said in text and bool(text) is bool(remedy) is bool(functions)
