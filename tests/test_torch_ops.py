"""We record the same operators as Kineto on every thread and in every worker, and the script's profilers still work."""

import importlib.util
import json
import subprocess
import sys
from collections import Counter, defaultdict

import polars as pl
import pytest
from conftest import PROGRAMS, environment
from kineto_trees import ours, theirs, trees
from ms_profiler.analysis.driver import engine
from ms_profiler.analysis.metrics import operators
from ms_profiler.analysis.readers import store
from ms_profiler.store.format import Category
from unknown_torch import UNKNOWN

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs PyTorch")

WORKLOADS = PROGRAMS / "torch_workloads.py"
STRICT = {"MS_PROFILER_RAISE": "1"}


def run_both(job, folder, *names):
    """Run the workloads with our recorder and with Kineto; return the run, and each workload's operators from both."""
    # without a budget: on a slow machine, the last workloads would not be recorded
    run = job(WORKLOADS, str(folder), *names, options={"overhead_budget": 0}, env=STRICT)
    assert run.code == 0, run.err
    assert "Leaked" not in run.err
    mine = ours(run.result)
    return run, {
        name: (trees(mine, f"ours {name}"), trees(theirs(folder / f"{name}.json"), f"theirs {name}")) for name in names
    }


def averages(folder, name):
    """Return (calls, self time, total time) of a workload's operators from torch.profiler's `key_averages`, in ns."""
    rows = json.loads((folder / f"{name}.averages").read_text())
    return {key: (count, round(own * 1e3), round(total * 1e3)) for key, count, own, total, region in rows if not region}


def figures(operators):
    """Return (calls, self time, total time) of the operators in our recording, in ns."""
    return {row[0]: row[1:] for row in operators.select("name", "count", "self_ns", "total_ns").iter_rows()}


def counted(measures, name):
    """Return how often each operator was called during a workload, according to our recording."""
    spans, names = measures.spans, measures.recording.names
    row = names.index_of(f"ours {name}")
    start, end = spans.filter(spans["name"] == row).select("start_ns", "end_ns").row(0)
    during = spans.filter(spans["start_ns"].is_between(start, end))
    sums = operators.by_name(operators.sum_up(during), names, Category.OP)
    return dict(sums.select("name", "count").iter_rows())


def check_averages(run, folder, *names):
    """Check that our recording, and Kineto's trace of the same run, agree with `key_averages`."""
    measures = engine.measured(str(run.result))
    for name in names:
        truth = averages(folder, name)
        assert figures(engine.measured(str(folder / f"{name}.json")).operators) == truth, name
        assert counted(measures, name) == {key: calls for key, (calls, _, _) in truth.items()}, name


def test_operators_are_those_of_kineto(job, tmp_path):
    run, seen = run_both(job, tmp_path, "mlp", "threads", "custom", "loader", "nested", "lstm", "transformer")
    check_averages(run, tmp_path, "mlp", "lstm", "transformer", "nested")
    assert averages(tmp_path, "nested")["aten::mean"][0] == 21
    _, alone, total = averages(tmp_path, "nested")["Cube"]
    assert alone < total, "operators in it are none of its own time"
    for name in ("mlp", "threads", "custom", "nested", "lstm", "transformer"):
        own, kineto = seen[name]
        assert own == kineto, name
    (thread,) = seen["mlp"][0]
    assert thread["aten::addmm", "aten::linear"] == 20
    assert thread["Optimizer.step#SGD.step", ""] == 1
    assert len(seen["threads"][0]) == 3
    # Kineto does not record the loader's workers
    own, (main,) = seen["loader"]
    workers = [counts for counts in own if counts != main]
    assert len(own) == 3
    assert [counts["aten::stack", None] for counts in workers] == [4, 4]
    assert not [entry for entry in run.summary["not_collected"] if "shapes" in entry["what"]], "nobody asked for them"
    assert any(name.startswith("Thread-") for name in store.read(str(run.result)).threads["thread_name"])
    assert run.summary["sources"]["op_statistic"] == "PyTorch's operators"


@pytest.mark.slow
def test_operators_of_compiled_and_scripted_networks_are_those_of_kineto(job, tmp_path):
    run, seen = run_both(job, tmp_path, "convolution", "compiled", "scripted", "collective")
    check_averages(run, tmp_path, "convolution", "compiled")
    names = engine.measured(str(run.result)).operators["name"]
    assert not names.str.contains(r"\(dynamo_timed\)").any() and "backend_compile" not in names
    for name, (own, kineto) in seen.items():
        assert own == kineto, name
        assert len(own) == 1


#: end a profiler inside of regions that began while it ran; a write into its freed memory ends the process
LEFT_OPEN = """
import torch
from torch.profiler import ProfilerActivity, profile, record_function

model = torch.nn.Sequential(*[torch.nn.Linear(8, 8) for _ in range(8)])
def step():
    model(torch.ones(2, 8)).sum().backward()
for number in range(20):
    kept = profile(activities=[ProfilerActivity.CPU])
    kept.start()
    regions = [record_function(f"region {each}") for each in range(50)]
    for region in regions:
        region.__enter__()
    step()
    kept.stop()
    print(sum(event.name == "aten::addmm" for event in kept.events()), flush=True)
    del kept
    step()
    for region in reversed(regions):
        region.__exit__(None, None, None)
    torch.ones(2).cos()

# the end of the pass gives the thread back the profiler that it had at the begin
kept = profile(activities=[ProfilerActivity.CPU])
kept.start()
output = model(torch.ones(2, 8, requires_grad=True))
output.register_hook(lambda gradient: kept.stop())
output.sum().backward()
step()
print("done")
"""


@pytest.mark.slow
def test_a_region_may_be_open_when_its_profiler_ends(job):
    run = job(LEFT_OPEN, options={"analyse": "off", "overhead_budget": 0}, env=STRICT)
    assert run.code == 0, run.err
    assert run.out.split() == ["8"] * 20 + ["done"]
    recording = store.read(str(run.result))
    names = Counter(recording.names.gather(recording.spans["name"]))
    assert names["aten::cos"] == 20


#: end a profiler inside of a call of C++ code; start and end one in a backward pass, in which steps end, too
INSIDE = """
import torch
from torch.profiler import ProfilerActivity, profile

def start():
    kept = profile(activities=[ProfilerActivity.CPU])
    kept.start()
    return kept

def show(kept):
    kept.stop()
    names = [event.name for event in kept.events()]
    print(names.count("aten::sin"), names.count("aten::cos"), torch._C._autograd._profiler_enabled(), flush=True)

class Ends(torch.autograd.Function):
    @staticmethod
    def forward(context, value):
        show(running.pop())
        return value * 2
    @staticmethod
    def backward(context, gradient):
        torch.ones(2).cos()
        running.append(start())
        torch.ones(2).sin()
        show(running.pop())
        return gradient

running = []
for number in range(20):
    running.append(start())
    [torch.ones(2).sin() for _ in range(number)]
    output = Ends.apply(torch.ones(3, requires_grad=True)).sum()
    if number > 9:
        output.backward()
        torch.ones(2).tan()

weight = torch.ones(3, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.1)
weight.register_post_accumulate_grad_hook(lambda _: optimizer.step())
for number in range(8):
    weight.square().sum().backward()
    running.append(start())
    torch.ones(2).sin()
    show(running.pop())
"""


@pytest.mark.slow
def test_a_profiler_may_start_and_end_inside_of_calls_of_c_code(job):
    options = {"analyse": "off", "overhead_budget": 0, "record_shapes": True}
    run = job(INSIDE, options=options, env=STRICT)
    assert run.code == 0, run.err
    forward = "".join(f"{number} 0 False\n" + "1 0 False\n" * (number > 9) for number in range(20))
    assert run.out == forward + "1 0 False\n" * 8
    recording = store.read(str(run.result))
    names = Counter(recording.names.gather(recording.spans["name"]))
    assert (names["aten::tan"], names["aten::square"]) == (10, 8)


@pytest.mark.slow
def test_the_scripts_own_profilers_get_their_usual_results(job):
    bare = job(PROGRAMS / "torch_own_profiler.py", profile=False)
    run = job(PROGRAMS / "torch_own_profiler.py", env=STRICT)
    assert (bare.code, run.code) == (0, 0), run.err
    seen = json.loads(run.out)
    assert seen == json.loads(bare.out)
    assert ["aten::mul", 2] in seen["with"]
    assert seen["twice"].startswith("RuntimeError")
    recording = store.read(str(run.result))
    marked = recording.spans.filter(recording.spans["category"] == Category.MARKER)
    names = Counter(recording.names.gather(marked["name"]))
    whats = (
        *("start", "with", "schedule", "exception", "thread", "beside a thread", "all threads", "stopped elsewhere"),
        *("legacy", "itt", "end"),
    )
    assert {name for name in names if name.startswith("between ")} == {f"between {what}" for what in whats}
    # also those that ran under a profiler of the script
    assert names["region"] == seen["regions"]
    assert not [entry for entry in run.summary["not_collected"] if "operators" in entry["what"]]


SCHEDULED = """
import threading, torch
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
go, went = threading.Semaphore(0), threading.Semaphore(0)
beside = []
def work():
    while go.acquire() and len(beside) < 8:
        with torch.profiler.record_function("beside"):
            beside.append(torch.autograd._profiler_enabled())
        went.release()
thread = threading.Thread(target=work, daemon=True)
thread.start()
for _ in range(8):
    optimizer.zero_grad()
    model(torch.ones(2, 4)).sum().backward()
    print(torch.autograd._profiler_enabled())
    go.release()
    went.acquire()
    optimizer.step()
go.release()
thread.join()
print(*beside)
"""


@pytest.mark.slow
def test_a_step_that_is_not_recorded_has_no_operators(job):
    run = job(SCHEDULED, options={"schedule": {"wait": 4, "active": 2, "repeat": 1}}, env=STRICT)
    assert run.code == 0, run.err
    assert set(run.out.split()) == {"False"}
    recording = store.read(str(run.result))
    assert sum(recording.names.gather(recording.spans["name"]) == "beside") == 2
    assert sum(recording.names.gather(recording.spans["name"]) == "aten::addmm") == 2


FALLBACK = (
    UNKNOWN
    + """
import torch
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(9):
    optimizer.zero_grad()
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as kept:
    model(torch.ones(2, 4))
print(len(kept.events()) > 5)
"""
)


@pytest.mark.slow
def test_kineto_records_three_steps_of_an_unknown_version(job):
    run = job(FALLBACK, env=STRICT)
    assert run.code == 0, run.err
    assert run.out.split() == ["True"]
    recording = store.read(str(run.result))
    spans = recording.spans.filter(recording.spans["category"] == Category.OP)
    names = recording.names.gather(spans["name"]).to_list()
    assert names.count("aten::addmm") == 3
    (entry,) = [entry for entry in run.summary["not_collected"] if entry["what"].startswith("operators, except")]
    assert "does not know the operators of PyTorch 2." in entry["why"]
    assert run.summary["framework"]["operators"] == "Kineto"
    ties = defaultdict(set)
    for name, arg in zip(names, spans["arg"], strict=True):
        if arg:
            ties[arg >> 1].add((name, arg & 1))
    assert sum({("aten::addmm", 0), ("AddmmBackward0", 1)} <= tied for tied in ties.values()) == 3
    events = json.loads((run.result / "ASCEND_PROFILER_OUTPUT" / "trace_view.json").read_text())
    flows = Counter(event["ph"] for event in events if event.get("cat") == "fwdbwd")
    assert flows["s"] == flows["f"] > 0


WINDOW_CUT = (
    UNKNOWN
    + """
import os, sys, threading, torch
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def own():
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as kept:
        model(torch.ones(2, 4))
    print(sum(event.name == "aten::addmm" for event in kept.events()))
for step in range(6):
    optimizer.zero_grad()
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    if step == 3 and sys.argv[1] == "thread":
        thread = threading.Thread(target=own)
        thread.start()
        thread.join()
    elif step == 3:
        pid = os.fork()
        if pid == 0:
            own()
            sys.stdout.flush()
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
)


@pytest.mark.slow
@pytest.mark.parametrize(("what", "out"), [("thread", ["1"]), ("fork", ["1", "0"])])
def test_a_window_of_kineto_ends_when_it_would_be_in_the_way(job, what, out):
    run = job(WINDOW_CUT, what, env=STRICT)
    assert run.code == 0, run.err
    assert run.out.split() == out
    recording = store.read(str(run.result))
    assert sum(recording.names.gather(recording.spans["name"]) == "aten::addmm") == 2


@pytest.mark.slow
@pytest.mark.parametrize("version", ["known", "unknown"])
def test_kineto_on_demand_is_left_alone(job, version):
    program = SCHEDULED if version == "known" else UNKNOWN + SCHEDULED
    run = job(program, options={"record_shapes": True}, env=STRICT | {"KINETO_USE_DAEMON": "1"})
    assert run.code == 0, run.err
    what = "shapes of operators" if version == "known" else "operators"
    (entry,) = [entry for entry in run.summary["not_collected"] if entry["what"] == what]
    assert "KINETO_USE_DAEMON" in entry["why"]
    recording = store.read(str(run.result))
    assert sum(recording.names.gather(recording.spans["name"]) == "beside") == (8 if version == "known" else 0)


#: two threads train networks of the same operators; autograd has the same numbers on both
TWO_THREADS = """
import threading, torch
class Network(torch.nn.Module):
    def __init__(self, order):
        super().__init__()
        self.first, self.second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
        self.order = order
    def forward(self, value):
        for name in self.order:
            value = getattr(self, name)(value)
        return value
def train(order, wait):
    network = Network(order)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    for _ in range(6):
        loss = network(torch.ones(2, 4)).sum()
        wait()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
barrier = threading.Barrier(2)
other = threading.Thread(target=train, args=(["second", "first"], barrier.wait))
other.start()
train(["first", "second"], barrier.wait)
other.join()
"""


@pytest.mark.slow
def test_autograds_numbers_tie_the_operators_of_each_thread(job):
    """The passes of both threads run at the same time, with the same numbers."""
    run = job(TWO_THREADS, options={"overhead_budget": 0}, env=STRICT)
    assert run.code == 0, run.err
    recording = store.read(str(run.result))
    spans = recording.spans
    forward, backward = defaultdict(list), defaultdict(list)
    for name, thread, arg in zip(recording.names.gather(spans["name"]), spans["thread"], spans["arg"], strict=True):
        if name == "aten::addmm" and arg:
            forward[arg >> 1].append(thread)
        elif name == "AddmmBackward0":
            backward[arg >> 1].append(thread)
    assert len(forward) == len(backward) == 24
    assert forward == backward, "each thread runs its own backward pass"


HANDED_OVER = """
import threading, torch
from torch.profiler import record_function
a = torch.ones(4, 4)
future = torch.futures.Future()
with record_function("handed over") as region:
    a @ a
    region._call_end_callbacks_on_future(future)
def finish():
    with record_function("of the other thread"):
        future.set_result(1)
        a * a
thread = threading.Thread(target=finish)
with record_function("after"):
    thread.start()
    thread.join()
    a - a
a / a
with record_function("done already") as region:
    done = torch.futures.Future()
    done.set_result(1)
    region._call_end_callbacks_on_future(done)
    a + a
try:
    region._call_end_callbacks_on_future(done)
except RuntimeError as error:
    print(str(error)[:50])
"""


def test_a_region_that_ends_with_a_future_does_not_end_others(job):
    run = job(HANDED_OVER, env=STRICT)
    assert run.code == 0, run.err
    assert "_call_end_callbacks_on_future can only be called" in run.out
    recording = store.read(str(run.result))
    names = recording.names.gather(recording.spans["name"])
    found = dict(zip(names, recording.spans.iter_rows(named=True), strict=True))

    def inside(name, region):
        inner, outer = found[name], found[region]
        return outer["start_ns"] <= inner["start_ns"] and inner["end_ns"] <= outer["end_ns"]

    assert inside("aten::mm", "handed over")
    assert not inside("after", "handed over")
    assert inside("aten::mul", "of the other thread")
    assert inside("aten::sub", "after")
    assert not inside("aten::div", "after")
    assert not inside("aten::add", "done already")
    assert not any(row["flags"] for row in found.values()), "no end came too late or too early"


SUSPENDED = """
import torch
torch.set_num_threads(1)
@torch.jit.script
def work(x, times: int):
    for _ in range(times):
        x = torch.sin(x) @ x
    return x
@torch.jit.script
def forks(x):
    return torch.jit.wait(torch.jit.fork(work, x, 60))
network = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(network.parameters(), 0.01)
for step in range(600):
    with torch.profiler.record_function("a step"):
        optimizer.zero_grad()
        network(forks(torch.full((4, 4), 0.1))).sum().backward()
        optimizer.step()
"""


@pytest.mark.slow
def test_a_function_that_another_thread_ends_is_recorded_once_and_holds_no_others(job, tmp_path):
    """A function of TorchScript that waits for a fork may go on, and end, on the thread of the fork."""
    script = tmp_path / "suspended.py"  # TorchScript reads the source
    script.write_text(SUSPENDED)
    run = job(script, options={"overhead_budget": 0}, env=STRICT)
    assert run.code == 0, run.err
    recording = store.read(str(run.result))
    spans = recording.spans.with_columns(text=recording.names.gather(recording.spans["name"]))
    found = {name: spans.filter(pl.col("text") == name) for name in ("forks", "a step", "aten::linear", "aten::sin")}
    assert {name: rows.height for name, rows in found.items()} == {
        "forks": 600, "a step": 600, "aten::linear": 600, "aten::sin": 36000
    }  # fmt: skip
    forks, steps = found["forks"].sort("start_ns"), found["a step"].sort("start_ns")
    assert (forks["start_ns"] > steps["start_ns"]).all() and (forks["end_ns"] < steps["end_ns"]).all()
    assert (steps["end_ns"][:-1] < steps["start_ns"][1:]).all(), "no step contains another one"


@pytest.mark.parametrize(
    ("library", "offset", "reason"),
    [
        pytest.param("b'/nowhere/libtorch_cpu.so'", 320, "not loaded", marks=pytest.mark.slow),
        pytest.param("b'libc.so.6'", 320, "lacks a function", marks=pytest.mark.slow),
        ("os.fsencode(torch.__path__[0] + '/lib/libtorch_cpu.so')", 312, "another layout"),
        ("os.fsencode(torch.__path__[0] + '/lib/libtorch_cpu.so')", 320, ""),
    ],
    ids=["not loaded", "not PyTorch", "another layout", "PyTorch"],
)
def test_only_a_loaded_pytorch_of_a_known_layout_is_connected(library, offset, reason):
    ask = f"""
import os, torch
from ms_profiler import _native
print(_native.connect_operators({library}, 88, 96, 200, 304, {offset}))
_native.take_operators(True)
torch.ones(2)
_native.take_operators(False)
"""
    shown = subprocess.run(
        [sys.executable, "-c", ask], capture_output=True, text=True, env=environment(None), check=True
    )
    assert (reason in shown.stdout) if reason else not shown.stdout.strip()
