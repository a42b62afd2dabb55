"""Operators that the script calls outside of all phases from some step on are named, however much step times vary."""

import importlib.util
import random
from types import SimpleNamespace

import polars as pl
import pytest
from ms_profiler.analysis.metrics import lasting, outside_work, shifts
from ms_profiler.analysis.model import tables
from ms_profiler.analysis.report import changes
from ms_profiler.store.format import Category
from test_shifts import MS, made
from test_work_changes import bursts

NAMES = pl.Series("name", ["forward", "aten::sum", "aten::norm", "aten::mul"])
FORWARD, SUM, NORM, MUL = range(4)


def run(count, sampled, calls, inside=lambda number: 0, length=lambda number: 2 * MS, spread=0.5, known=None):
    """Return steps whose lengths vary, and the spans of the sampled ones.

    Args:
        count: number of steps.
        sampled: numbers of the sampled steps.
        calls: function of a step's number: its calls of `aten::norm` outside of the model, of 20 us each.
        inside: function of a step's number: the same in the forward pass.
        length: function of a step's number: its length, ns.
        spread: by which part of it the length of a step may be longer or shorter.
        known: numbers of the sampled steps whose operators a large recording keeps; None for all.
    """
    chance = random.Random(3)
    lengths = [int(length(number) * chance.uniform(1 - spread, 1 + spread)) for number in range(count)]
    steps = made(lengths, set(sampled).__contains__)
    starts, rows = steps.table["start_ns"].to_list(), []

    def norm(begin, number):
        for call in range(number):
            at = begin + 25_000 * call
            rows.append((Category.OP, NORM, at, at + 20_000))
            rows.append((Category.OP, MUL, at + 5_000, at + 10_000))

    for number in sampled:
        at = starts[number]
        rows.append((Category.FORWARD, FORWARD, at, at + 400_000))
        if known is not None and number not in known:
            continue
        norm(at + 1_000, inside(number))
        rows.append((Category.OP, SUM, at + 410_000, at + 440_000))
        norm(at + 450_000, calls(number))
    one = {"process": 1, "thread": 1, "flags": 0, "unfinished": False, "arg": 0, "depth": 0, "parent": None}
    spans = [
        one | {"category": int(category), "name": name, "start_ns": begin, "end_ns": end}
        for category, name, begin, end in rows
    ]
    return steps, pl.DataFrame(spans, schema=tables.SPANS)


def found(*args, **options):
    steps, spans = run(*args, **options)
    return outside_work.shift(shifts.alike(steps), steps, spans, NAMES)


@pytest.mark.parametrize(("before", "after"), [(0, 2), (2, 0), (1, 3)])
def test_an_operator_that_is_called_more_or_less_often_is_named_alone(before, after):
    change = found(20_000, bursts(20_000), lambda number: after if number >= 15_000 else before)
    assert (change["after_step"], change["step"], change["modules"], change["more"]) == (14_757, 15_250, [], 0)
    (operator,) = change["operators"]
    # each call makes another one itself
    counts = 2 * before, 2 * after
    assert (operator["operator"], operator["count_before"], operator["count_after"]) == ("aten::norm", *counts)
    assert (operator["before_ms"], operator["after_ms"]) == pytest.approx((0.02 * before, 0.02 * after), abs=0.002)


def test_the_first_step_is_exact_if_every_step_is_recorded():
    change = found(1_000, range(1_000), lambda number: 2 * (number >= 600))
    assert (change["after_step"], change["step"]) == (599, 600)


def test_sampled_steps_without_their_operators_do_not_count():
    """A large recording keeps the operators of some sampled steps: here of no step between 14,000 and 17,000."""
    known = [number for number in bursts(20_000) if not 14_000 <= number < 17_000]
    change = found(20_000, bursts(20_000), lambda number: 2 * (number >= 15_000), known=known)
    assert (change["after_step"], change["step"]) == (13_757, 17_250)


NONE = {
    "no number changes": (lambda number: 2, lambda number: 0),
    "the number varies": (lambda number: number * 7 % 5, lambda number: 0),
    "some steps at regular intervals": (lambda number: 3 * (number % 10 == 0), lambda number: 0),
    "some steps only": (lambda number: 2 * (400 <= number < 600), lambda number: 0),
    "only the first steps": (lambda number: 2 * (number < 3), lambda number: 0),
    "the last steps, but few": (lambda number: 2 * (number >= 995), lambda number: 0),
    "calls in the forward pass": (lambda number: 0, lambda number: 2 * (number >= 600)),
}


@pytest.mark.parametrize("why", NONE)
def test_nothing_is_named_if(why):
    calls, inside = NONE[why]
    assert found(1_000, range(1_000), calls, inside=inside) is None


JOB = """
import torch

torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(6)])
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(160):
    model(torch.ones(16, 64)).pow(2).mean().backward()
    if step >= 80:
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs PyTorch")
def test_a_clipping_of_gradients_that_begins_at_a_step_of_a_real_job_is_named(launch):
    summary = launch(JOB, options={"overhead_budget": 0}, env={"MS_PROFILER_RAISE": "1"}).summary
    # the machine may become slower or faster at another step
    (change,) = [found for name in ("shift", "work_change") if (found := summary[name]) and found.get("operators")]
    assert change["earliest"] <= 80 <= change["latest"] and change["modules"] == []
    names = [each["operator"] for each in change["operators"]]
    assert {"aten::_foreach_norm", "aten::linalg_vector_norm"} & set(names)
    assert all(each["count_before"] < each["count_after"] for each in change["operators"])
    line = next(line for line in changes.lines(summary) if "outside of all phases: " in line)
    assert f"outside of all phases: {names[0]} 0.000 ms -> " in line and "in place of 0)" in line


@pytest.mark.parametrize("phases", [False, True])
@pytest.mark.parametrize("longer_at", [600, 100])
def test_the_lengths_and_the_operators_tell_one_change_where_they_agree(monkeypatch, longer_at, phases):
    """The script calls more operators from step 600 on, and the steps become longer there, or at another step."""
    steps, spans = run(
        1_000,
        range(1_000),
        lambda number: 20 * (number >= 600),
        length=lambda number: MS * (3 if number >= longer_at else 2),
        spread=0.05,
    )
    if phases:  # operators say more than the time of their phase
        known, grown = lasting.shifts.shift, {"phases": [{"phase": "other", "before_ms": 0.1, "after_ms": 0.6}]}
        monkeypatch.setattr(lasting.shifts, "shift", lambda *given: known(*given) | grown)
    recording = SimpleNamespace(
        host=pl.DataFrame(schema=tables.HOST),
        looks=pl.DataFrame(schema=tables.LOOKS),
        names=NAMES,
        info=SimpleNamespace(world_size=1, numbers=lambda: {"threads": 1}),
        device=None,
    )
    summary = lasting.summary(steps, None, spans, recording=recording)
    shift, work = summary["shift"], summary["work_change"]
    assert shift["step"] == pytest.approx(longer_at, abs=2)
    (told,) = [change for change in (shift, work) if change and change.get("operators")]
    assert told is (shift if longer_at == 600 else work)
    assert [each["operator"] for each in told["operators"]] == ["aten::norm"]
    assert sum("outside of all phases: aten::norm 0.000 ms -> " in line for line in changes.lines(summary)) == 1
    assert ("phases" in shift) is (phases and longer_at != 600)
