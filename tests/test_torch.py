"""Real PyTorch jobs are profiled if the variable is set, without a change of the job."""

import json
import subprocess
import sys

import pytest
from conftest import PROGRAMS, environment
from csv_rows import rows
from events import events, inside, named, of, steps
from ms_profiler.store.format import Category, Kind, StepSource

LOOPS = PROGRAMS / "torch_loops.py"
#: kind of job -> (number of its steps, what decides where a step ends)
EXPECTED = {
    "accumulate": (4, StepSource.OPTIMIZER_CYCLE),
    "gan": (12, StepSource.OPTIMIZER_CYCLE),
    "lbfgs": (5, StepSource.OPTIMIZER_CYCLE),
    "scaler": (6, StepSource.OPTIMIZER_CYCLE),
    "failing": (12, StepSource.OPTIMIZER_CYCLE),
    "wrapped": (12, StepSource.OPTIMIZER_CYCLE),
    "function": (12, StepSource.DATASET),
    "inference": (10, StepSource.NETWORK_CALL),
    "recompute": (12, StepSource.OPTIMIZER_CYCLE),
}


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """Return the output of each kind of job without the profiler."""
    done = subprocess.run(
        [sys.executable, LOOPS, "plain", *EXPECTED],
        env=environment(),
        cwd=tmp_path_factory.mktemp("bare"),
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert done.stderr == ""
    return {line.split()[0]: f"{line}\n" for line in done.stdout.splitlines()}


@pytest.fixture
def recorded(job, bare):
    """Return a function that runs a kind of job, checks that the profiler changes no output, and returns the events."""

    def run(kind):
        done = job(LOOPS, kind, options={"analyse": "off", "quiet": True}, env={"MS_PROFILER_RAISE": "1"})
        assert (done.code, done.out, done.err) == (0, bare[kind], "")
        return events(done.result)

    return run


@pytest.mark.slow
def test_a_loop_with_workers_a_scheduler_and_an_evaluation(job, bare):
    run = job(LOOPS, "plain", env={"MS_PROFILER_RAISE": "1"})
    assert (run.code, run.out) == (0, bare["plain"])
    assert len(run.lines) == len(run.err.splitlines()) == 2, run.err
    summary = run.summary
    assert (summary["steps"]["count"], summary["steps"]["source"]) == (12, "optimizer_cycle")
    assert {**summary["framework"], "version": "", "threads": "", "processors": ""} == {
        "name": "torch",
        "version": "",
        "mode": "eager",
        "device": "CPU",
        "operators": "RecordFunction",
        "threads": "",
        "processors": "",
    }
    assert summary["hooks"]["failed"] == summary["hooks"]["missing"] == {}
    phases = {name: phase["total_ms"] for name, phase in summary["phases"].items()}
    assert all(phases[name] > 0 for name in ("data", "forward", "backward", "optimizer"))

    timed = rows(run.result, "step_trace_time")
    assert [row["Step"] for row in timed] == [str(number) for number in range(12)]
    assert sum(phases.values()) == pytest.approx(sum(float(row["Stage"]) for row in timed) / 1e3, rel=0.01)
    shown = json.loads((run.result / "ASCEND_PROFILER_OUTPUT" / "trace_view.json").read_text())
    assert "Net.second.1" in {event["name"] for event in shown if event["ph"] == "X"}

    found = events(run.result)
    main = [event for event in found if event.process == "job"]
    # the evaluation makes 12 further calls, which are in no step
    assert of(main, Category.MODULE) == dict.fromkeys(
        ("Net", "Net.first", "Net.second", "Net.second.0", "Net.second.1"), 24
    )
    trained = [event for event in named(main, "forward") if inside(event, steps(main))]
    assert len(named(main, "forward")) == 24 and len(trained) == 12
    assert of(main, Category.BACKWARD) == {"backward": 12}
    # the scheduler also sets the rate when it is made
    assert of(main, Category.OPTIMIZER) == {"AdamW.step": 12, "zero_grad": 12, "learning rate": 13}
    # two epochs stop after 6 batches each; the evaluation takes 12 batches and finds the end
    assert of(main, Category.DATA)["wait for TensorDataset"] == 6 + 6 + 13
    assert of(main, Category.DATA)["create iterator"] == 3
    fetched = {event.process for event in found if event.name == "fetch batch"}
    assert len(fetched) > 1 and not any(event.raised for event in found)


RESUMED = """
import torch
from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict, set_optimizer_state_dict
net = torch.nn.Linear(4, 4)
optimizer = torch.optim.AdamW(net.parameters())
state = get_optimizer_state_dict(net, optimizer)
set_optimizer_state_dict(net, optimizer, state)
for _ in range(5):
    optimizer.zero_grad()
    net(torch.ones(2, 4)).sum().backward()
    optimizer.step()
"""


@pytest.mark.slow
def test_the_step_that_makes_an_optimizers_state_for_a_checkpoint_is_none(job):
    run = job(RESUMED, options={"analyse": "off"}, env={"MS_PROFILER_RAISE": "1"})
    assert run.code == 0, run.err
    found = events(run.result)
    assert [step.arg for step in steps(found)] == list(range(5))
    assert of(found, Category.OPTIMIZER)["AdamW.step"] == 6


#: kinds of loops that only the slow tests run
VARIANTS = ("gan", "lbfgs", "wrapped", "recompute", "scaler", "failing")


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[pytest.mark.slow] * (kind in VARIANTS)) for kind in EXPECTED]
)
def test_steps_of_a_loop(recorded, kind):
    found, (count, source) = recorded(kind), EXPECTED[kind]
    assert (len(steps(found)), {StepSource(step.category) for step in steps(found)}) == (count, {source})
    if kind in CHECKS:
        CHECKS[kind](found)


def accumulated(found):
    """Check that every batch whose gradients are accumulated lies in the step."""
    assert [sum(inside(call, [step]) for call in named(found, "backward")) for step in steps(found)] == [3] * 4


def searched(found):
    """Check that each forward pass of a line search lies in the optimizer's step."""
    assert all(inside(call, named(found, "LBFGS.step")) for call in named(found, "forward"))


def scaled(found):
    """Check that the step whose update was skipped counts as a step, and that the skipped update is marked."""
    (skip,) = (event for event in found if event.name.startswith("optimizer step skipped"))
    assert skip.kind == Kind.INSTANT
    assert (len(named(found, "SGD.step")), len(named(found, "zero_grad"))) == (5, 6)


def failed(found):
    """Check that the failed update is marked and that its repetition is a separate call after it."""
    calls = named(found, "SGD.step")
    assert [call.raised for call in calls] == [number == 2 for number in range(13)]
    assert not inside(calls[3], calls)


def computed_again(found):
    """Check that the recomputation lies inside of the backward pass and is no forward pass."""
    backward = named(found, "backward")
    for name in ("recompute Linear", "recompute Sequential"):
        assert len(named(found, name)) == 12
        assert all(inside(event, backward) for event in named(found, name))
    assert not any(inside(event, backward) for event in named(found, "forward"))
    assert not any(event.raised for event in found)
    # each step calls the Sequential twice, the second time in a recomputation
    blocks = [inside(event, named(found, "recompute Sequential")) for event in named(found, "Sequential")]
    assert sorted(blocks) == [False] * 12 + [True] * 12


RATES = """
import torch
optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(2))], lr=0.1)
scheduler = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 2)
watching = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
for loss in (2.0, 1.0, 1.0):
    optimizer.step()
    scheduler.step()
    watching.step(loss)
print(optimizer.param_groups[0]["lr"])
"""


@pytest.mark.slow
def test_every_kind_of_scheduler_is_seen_when_it_changes_rates(job):
    bare = job(RATES, profile=False)
    run = job(RATES, options={"analyse": "off", "quiet": True}, env={"MS_PROFILER_RAISE": "1"})
    assert (run.code, run.out, run.err) == (0, bare.out, bare.err)
    # The restarts set the rate when they are made and at each step; the other
    # scheduler does once, when the loss is not better.
    assert of(events(run.result), Category.OPTIMIZER) == {"SGD.step": 3, "learning rate": 1 + 3 + 1}


CHECKS = {
    "accumulate": accumulated,
    "lbfgs": searched,
    "scaler": scaled,
    "failing": failed,
    "recompute": computed_again,
}


EVER_NEW = """
import gc
import torch

def resident():
    gc.collect()
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmRSS")).split()[1])

def use(lot):
    for net in range(200):
        outer = torch.nn.Sequential()
        for part in range(100):
            outer.add_module(f"part_{lot}_{net}_{part}", torch.nn.Identity())
        outer(torch.zeros(1))

sizes = []
for lot in range(8):
    use(lot)
    sizes.append(resident())
print(*sizes)
"""


@pytest.mark.slow
def test_names_that_a_job_makes_up_for_ever_are_left_out(job):
    """A run that makes new modules all the time keeps a limited number of names; later modules have their type's."""
    run = job(EVER_NEW)
    sizes = [int(word) for word in run.out.split()]
    assert sizes[7] - sizes[3] < 8000, f"80,000 names more would take 16 MB: {sizes} kB"
    (entry,) = run.summary["not_collected"]
    assert entry["what"].startswith("some names of modules, operators, shapes, regions and threads of process ")
    assert run.summary["completeness"]["missing_strings"] == 0
