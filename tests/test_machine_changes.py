"""On a machine that got busier, no module is blamed for longer steps unless records show that it takes longer."""

import importlib.util
import random
from types import SimpleNamespace

import polars as pl
import pytest
from ms_profiler.analysis.metrics import lasting
from ms_profiler.analysis.metrics.ownership import Ownership
from ms_profiler.analysis.model import tables
from ms_profiler.analysis.report import changes
from ms_profiler.store import host_metrics
from test_shifts import MS, NO_SPANS, made

#: number of steps, and the first one that takes longer
COUNT, CHANGE = 400, 200


def run(
    grown,
    queued,
    ran=0.0,
    others=(0.2, 0.2),
    threads=1,
    gradual=False,
    device=None,
    basis="host",
    every=1,
    beside=(0.0, 0.0),
    always=0.0,
):
    """Return a run whose steps of 10 ms become longer, as arguments of `lasting.summary`.

    Args:
        grown: the time by which the module `net.1` becomes longer in a step, ms.
        queued: the time by which the waits of the stepping thread for a processor become longer in a step, ms.
        ran: the time by which its processor time becomes longer in a step, ms. The rest of the growth is sleep.
        others: the number of processors that other processes use, before and after.
        threads: number of threads that compute an operator; 0 if unknown.
        gradual: whether all of this grows little by little.
        device: the device that computed; None for the processor.
        basis: what the times of modules measure.
        beside: the number of processors that other threads of the process use, before and after.
        every: the stepping thread waits for a processor in one of so many steps, and as much longer in this step.
        always: the time by which it waits longer in each step, ms.
    """
    chance = random.Random(3)
    more = [step / COUNT if gradual else float(step >= CHANGE) for step in range(COUNT)]
    length = max(grown, queued + ran)
    steps = made([int(MS * (10 + length * part) * chance.gauss(1, 0.02)) for part in more])
    bounds, ran_ns, looks, host = steps.table.select("start_ns", "end_ns").rows(), 0, [(1, 1, 0, 0, 0, None)], []
    for number, ((start, end), part) in enumerate(zip(bounds, more, strict=True)):
        took = MS * (9 + ran * part)
        ran_ns += int(took)
        looks.append(
            (1, 1, end, end, ran_ns, int(queued * part * MS) * every * (number % every == 0) + int(always * part * MS))
        )
        used = others[0] + (others[1] - others[0]) * part
        own = took / (end - start) + beside[0] + (beside[1] - beside[0]) * part
        rates = {host_metrics.USER: own, host_metrics.IDLE: 2 - used - own}
        rates[host_metrics.BUSY[0]] = 2 - rates[host_metrics.IDLE]
        host += [(1, metric.name, 0, "", start, end, rate, "") for metric, rate in rates.items()]
    owned = [
        (step, owner, 1, 1, int(MS * (2 + grown * part * (owner == "net.1")) * chance.gauss(1, 0.02)))
        for step, part in enumerate(more)
        for owner in ("net.0", "net.1", "net.2")
    ]
    names = ("step", "owner", "part", "bound", "self_ns")
    table = pl.DataFrame(owned, schema=names, orient="row").cast({"step": pl.UInt32})
    recording = SimpleNamespace(
        host=pl.DataFrame(host, schema=tables.HOST, orient="row").sort("process", "name", "start_ns"),
        looks=pl.DataFrame(looks, schema=tables.LOOKS, orient="row"),
        names=pl.Series([], dtype=pl.String),
        info=SimpleNamespace(world_size=1, numbers=lambda: {"threads": threads}),
        device=device,
    )
    pieces = table.with_columns(start_ns=steps.table["start_ns"].gather(table["step"]))
    pieces = pieces.with_columns(end_ns=pl.col("start_ns") + pl.col("self_ns"))
    return steps, Ownership(basis, 1, 1, table, table, pieces, 1), NO_SPANS, None, None, recording


def test_threads_of_the_process_are_named_if_the_stepping_thread_sleeps_while_they_run():
    """As with a thread that runs Python code all the time: the other threads wait for the interpreter lock."""
    found = lasting.summary(*run(18, 0, beside=(0.02, 0.98)))
    assert found["shift"]["step"] == CHANGE and found["shift"]["modules"] == []
    assert found["shift"]["machine"]["threads"] == {"before": 0.02, "after": 0.98}
    (line,) = changes.lines(found)
    assert "from there on, other threads of this process used 0.98 of 2 processors (0.02 before)" in line
    assert "alike" not in line
    # the stepping thread itself takes longer, and other threads run beside it
    works = lasting.summary(*run(18, 0, ran=18, beside=(0.02, 0.98)))["shift"]
    assert works["machine"] is None and [each["module"] for each in works["modules"]] == ["net.1"]
    # other threads run as much as before
    alone = lasting.summary(*run(18, 0, beside=(0.98, 0.98)))["shift"]
    assert alone["machine"] is None and [each["module"] for each in alone["modules"]] == ["net.1"]


@pytest.mark.parametrize("threads", [0, 1, 4])
@pytest.mark.parametrize(
    ("others", "queued", "basis"),
    [((0.2, 1.5), 18, "host"), ((0.2, 0.4), 18, "host"), ((0.2, 0.4), 18, "kernels"), ((0.2, 1.5), 0.4, "kernels")],
)
def test_no_module_is_named_where_the_machine_got_busier(others, queued, basis, threads):
    """The stepping thread loses its processor in the same module of each step; or a thread that runs kernels does."""
    found = lasting.summary(*run(18, queued, others=others, threads=threads, basis=basis))
    shift = found["shift"]
    assert shift["step"] == CHANGE and shift["modules"] == []
    assert found["work_change"] is None
    (line,) = changes.lines(found)
    risen = others[1] - others[0] > 1
    assert (" from there on, other processes used 1.50 of 2 processors (0.20 before) and " in line) is risen
    assert "the stepping thread waited for a processor for " in line
    assert "module" not in line and "net." not in line
    assert (shift["machine"]["others"] is not None) is risen


def test_no_growing_module_is_named_where_the_machine_gets_busier_little_by_little():
    found = lasting.summary(*run(18, 18, others=(0.2, 1.5), gradual=True))
    assert found["slowing"]["modules"] == []
    (line,) = changes.lines(found)
    assert line.startswith("Steps become longer little by little: ")
    assert "; from there on, other processes used " not in line and "net." not in line
    assert "meanwhile, other processes used " in line


def test_a_module_that_works_more_is_named_on_a_machine_as_busy_as_before():
    found = lasting.summary(*run(18, 0.5, ran=17.5))["shift"]
    assert [each["module"] for each in found["modules"]] == ["net.1"] and found["machine"] is None


@pytest.mark.parametrize("threads", [1, 4])
def test_a_module_that_sleeps_is_named_although_others_use_its_processor_meanwhile(threads):
    found = lasting.summary(*run(18, 0.5, others=(0.2, 1.5), threads=threads))["shift"]
    assert [each["module"] for each in found["modules"]] == ["net.1"] and found["machine"] is None


def test_a_module_is_named_where_waits_explain_little_of_its_growth():
    found = lasting.summary(*run(18, 3, ran=15, others=(0.2, 1.2)))
    assert [each["module"] for each in found["shift"]["modules"]] == ["net.1"]
    (line,) = changes.lines(found)
    assert "; net.1 " in line and "; from there on, other processes used " in line


@pytest.mark.parametrize("always", [0.0, 0.001])
def test_waits_of_few_steps_are_told_by_their_mean(always):
    """Most short steps have no wait for a processor, or hardly any, before a change and after it."""
    found = lasting.summary(*run(18, 6, every=3, threads=4, always=always))
    waited = found["shift"]["machine"]["waited_ms"]
    assert (waited["before"], waited["after"]) == (0, pytest.approx(6, rel=0.05))
    (line,) = changes.lines(found)
    assert "; from there on, the stepping thread waited for a processor for 6." in line


def test_the_kernels_of_a_device_wait_for_no_processor():
    device = SimpleNamespace(on_host=False)
    found = lasting.summary(*run(18, 18, others=(0.2, 1.5), device=device, basis="kernels"))["shift"]
    assert [each["module"] for each in found["modules"]] == ["net.1"]


def test_a_module_that_executes_more_operators_is_named_on_any_machine(monkeypatch):
    given = run(18, 18, others=(0.2, 1.5))
    work = {"after_step": CHANGE - 1, "step": CHANGE, "earliest": CHANGE, "latest": CHANGE, "counted": "operators"}
    module = {"module": "net.0", "before_ms": 2.0, "after_ms": 4.0, "count_before": 5, "count_after": 10}
    work |= {"before_ms": None, "after_ms": None, "more": 0, "together": 0, "modules": [module]}
    monkeypatch.setattr(lasting.work_changes, "shift", lambda *_: work)
    monkeypatch.setattr(lasting.outside_work, "shift", lambda *_: None)
    found = lasting.summary(*given)
    assert found["shift"]["modules"] == [] and found["work_change"]["modules"] == [module]
    work["modules"] = [module | {"module": "net.1"}]
    found = lasting.summary(*given)
    assert [each["module"] for each in found["shift"]["modules"]] == ["net.1"]


@pytest.mark.parametrize(("queued", "named"), [(18, []), (0.5, ["net.1"])])
def test_a_module_that_no_length_shows_is_named_unless_the_machine_got_busier(monkeypatch, queued, named):
    change = {"step": CHANGE, "earliest": CHANGE - 20, "latest": CHANGE, "before_ms": None, "after_ms": None}
    module = {"module": "net.1", "before_ms": 2.0, "after_ms": 20.0}
    change |= {"statistic": "lower quartiles", "more": 1, "modules": [module]}
    monkeypatch.setattr(lasting.shifts, "shift", lambda *_: change)
    found = lasting.summary(*run(18, queued, ran=18 - queued, others=(0.2, 1.5) if queued > 1 else (0.2, 0.2)))
    assert [each["module"] for each in (found["shift"] or {"modules": []})["modules"]] == named
    lines = changes.lines(found)
    assert lines == (
        [
            f"From about step {CHANGE} (between {CHANGE - 20} and {CHANGE}) on, one module takes longer: net.1 2.000 "
            "ms -> 20.000 ms, and 1 more; the lengths of the steps vary too much to show it"
        ]
        if named
        else []
    )


@pytest.mark.parametrize(("queued", "stays"), [(18, False), (0.5, True)])
def test_a_phase_that_no_length_shows_is_named_unless_the_machine_got_busier(monkeypatch, queued, stays):
    change = {"step": CHANGE, "earliest": CHANGE, "latest": CHANGE, "before_ms": None, "after_ms": None, "modules": []}
    change |= {"statistic": "", "more": 0, "phases": [{"phase": "data", "before_ms": 2.0, "after_ms": 20.0}]}
    monkeypatch.setattr(lasting.shifts, "shift", lambda *_: change)
    found = lasting.summary(*run(18, queued, ran=18 - queued, others=(0.2, 1.5) if queued > 1 else (0.2, 0.2)))
    assert [line.split(";")[0] for line in changes.lines(found)] == [
        f"From step {CHANGE} on, one part takes longer: waiting for data 2.000 ms -> 20.000 ms"
    ] * stays
    assert stays or found["shift"] is None


#: The job has one processor, which it shares with two other programs from step 200 on.
CROWDED = """
import os, subprocess, sys
os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
import torch
torch.set_num_threads(1)
model = torch.nn.Sequential(*(torch.nn.Linear(width, 256) for width in (64, 256, 256)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
neighbours = []
for step in range(400):
    if step == 200:
        code = "import time; end = time.time() + 60\\nwhile time.time() < end: pass"
        neighbours = [subprocess.Popen([sys.executable, "-S", "-E", "-c", code]) for _ in range(2)]
    model(torch.ones(512, 64)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
for neighbour in neighbours:
    neighbour.kill()
    neighbour.wait()
"""


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs PyTorch")
def test_a_job_that_gets_neighbours_blames_no_module(job):
    """This test measures time, so no other program may run.

    A step is longer than a time slice of 3 ms. Otherwise only some of the steps wait for a neighbour, and the median of
    the steps hardly changes.
    """
    run = job(CROWDED, env={"MS_PROFILER_RAISE": "1"})
    assert run.code == 0, run.err
    shift = run.summary["shift"]
    assert shift["step"] == pytest.approx(200, abs=20)
    assert shift["modules"] == [] and shift["machine"]["waited_ms"] is not None
