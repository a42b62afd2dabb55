"""Steps that are longer at regular intervals are stated with their interval; other changes of the step time are not."""

import importlib.util
import random

import polars as pl
import pytest
from ms_profiler.analysis.metrics import lasting, recurring_steps
from ms_profiler.analysis.metrics.ownership import Ownership
from ms_profiler.analysis.model import tables
from ms_profiler.analysis.report import changes
from ms_profiler.store.format import Category
from ms_profiler.store.names import CALLBACK
from test_shifts import MS, NO_SPANS, made
from test_slow_period import COUNT, lengths, waiting

#: what makes a step longer -> interval, length of a series, first longer step
FOUND = {
    "each second step": (lambda number: 2 if number % 2 else 1, (2, 1, 1)),
    "each seventh step but the first one": (lambda number: 2 if number and number % 7 == 0 else 1, (7, 1, 7)),
    "each seventh step, a little": (lambda number: 1.4 if number % 7 == 3 else 1, (7, 1, 3)),
    "each fiftieth step": (lambda number: 20 if number % 50 == 49 else 1, (50, 1, 49)),
    "each fiftieth step, and each 25th a little": (
        lambda number: 60 if number % 50 == 25 else 2.5 if number % 50 == 0 else 1,
        (50, 1, 25),
    ),
    "each thousandth step": (lambda number: 400 if number % 1_000 == 10 else 1, (1_000, 1, 10)),
    "three of four steps": (lambda number: 2 if number % 4 else 1, (4, 3, 1)),
    "every other epoch": (lambda number: 2 if number // 250 % 2 else 1, (500, 250, 250)),
    "every other epoch, the first one included": (lambda number: 1 if number // 250 % 2 else 2, (500, 250, 0)),
    "each seventh step, at speeds that change": (
        lambda number: (2.5 if number % 7 == 3 else 1) * (1.9 if random.Random(number // 150).random() < 0.5 else 1),
        (7, 1, 3),
    ),
    "a part of each epoch": (lambda number: 3 if number % 1_000 >= 900 else 1, (1_000, 100, 900)),
}


@pytest.mark.parametrize(("factor", "expected"), FOUND.values(), ids=list(FOUND))
@pytest.mark.parametrize("seed", range(3))
def test_the_interval_is_stated(factor, expected, seed):
    steps = made(lengths(factor, seed), lambda number: number < 32 or number % 200 < 8)
    found = recurring_steps.summary(steps, None, NO_SPANS)
    every, long, first = expected
    near = 0 if long < recurring_steps.SMOOTH else 2
    assert (found["every"], found["long"], found["first"]) == (
        every,
        pytest.approx(long, abs=2 * near),
        pytest.approx(first, abs=near),
    )
    assert found["ms"] / found["others_ms"] == pytest.approx(max(map(factor, range(2 * every))), rel=0.1)
    (line,) = changes.lines({"recurring_steps": found})
    assert f"of {every} steps" in line
    assert line.endswith("of the time of all steps")


NONE = {
    "noise": lambda number: 1,
    "a lasting change": lambda number: 3 if number >= 3_000 else 1,
    "slow first steps": lambda number: 3 if number < 300 else 1,
    "steps that become longer little by little": lambda number: 1 + 5 * number / COUNT,
    "a slow period": lambda number: 4 if 2_000 <= number < 2_400 else 1,
    "two slow periods": lambda number: 4 if 1_000 <= number < 1_200 or 3_000 <= number < 3_200 else 1,
    "long steps by chance": lambda number: 3 if random.Random(number).random() < 0.2 else 1,
    "a speed that changes by chance": lambda number: 2 if random.Random(number // 40).random() < 0.5 else 1,
    "little time": lambda number: 2 if number % 50 == 0 else 1,
}


@pytest.mark.parametrize("factor", NONE.values(), ids=list(NONE))
@pytest.mark.parametrize("seed", range(3))
def test_no_interval_is_stated_for(factor, seed):
    steps = made(lengths(factor, seed), lambda number: number < 32 or number % 200 < 8)
    assert recurring_steps.summary(steps, None, NO_SPANS) is None


#: lengths (ms) of 60 steps of a job on a busy machine; steps 12, 36 and 48 are long, but step 24 is not
BUSY = [
    *(67.4, 10.7, 10.6, 9.2, 8.7, 7.3, 10.3, 11.6, 12.3, 10.1, 11.3, 10.9, 17.7, 11.0, 9.8),
    *(11.8, 9.7, 8.4, 10.5, 9.6, 8.5, 10.3, 9.7, 9.7, 9.6, 11.7, 10.5, 7.3, 9.8, 22.1),
    *(11.3, 25.9, 8.8, 14.8, 15.0, 15.9, 19.2, 9.8, 11.6, 12.3, 12.6, 12.2, 12.0, 13.0, 10.9),
    *(11.2, 14.1, 10.9, 18.2, 20.9, 18.5, 12.0, 10.0, 9.8, 10.4, 7.5, 10.1, 10.9, 11.0, 9.0),
]


def test_a_few_long_steps_of_a_short_run_lie_in_no_interval():
    recorded = {*range(32), 48, 49, 50, 51}
    steps = made([int(length * MS) for length in BUSY], lambda number: number in recorded)
    assert recurring_steps.summary(steps, None, NO_SPANS) is None


def short(seed, every):
    """Return noisy lengths of 60 steps: one of ten is long by chance, and one of `every`."""
    chance = random.Random(seed)
    busy = [2 if chance.random() < 0.1 else 1 for _ in range(60)]
    return [int(MS * busy[number] * (8 if number % every == 2 else 1) * chance.gauss(1, 0.1)) for number in range(60)]


@pytest.mark.parametrize("every", [3, 5, 10])
def test_an_interval_of_a_short_run_is_stated(every):
    found = [recurring_steps.places(made(short(seed, every)).table) for seed in range(50)]
    assert sum(one is not None and one[:3] == (every, 1, 2) for one in found) >= 48


def test_records_are_no_longer_steps():
    steps = made(lengths(lambda number: 2 if number % 10 == 0 else 1), lambda number: number % 10 == 0)
    assert recurring_steps.summary(steps, None, NO_SPANS) is None


def test_the_line_names_the_phase_that_takes_longer():
    steps = made(lengths(lambda number: 5 if number % 4 == 0 else 1))
    found = recurring_steps.summary(steps, None, waiting(steps))
    assert found["phase"] == "data"
    (line,) = changes.lines({"recurring_steps": found})
    assert line.startswith("One of 4 steps takes longer (steps 0, 4, 8, ...): ")
    assert line.endswith("; most of the difference is in waiting for data")


@pytest.mark.parametrize(("grown", "first"), [(0.3, "most of the difference is in waiting for data; "), (3.5, "")])
def test_the_line_names_the_phase_first_if_modules_make_up_less_than_half(grown, first):
    modules = [{"module": "Adam", "before_ms": 1.0, "after_ms": 1.0 + grown}]
    found = {"ms": 5.0, "others_ms": 1.0, "first": 0, "every": 4, "long": 1, "share": 0.5, "modules": modules}
    (line,) = changes.lines({"recurring_steps": found | {"phase": "data", "outside": None}})
    assert line.endswith(f" of all steps; {first}Adam 1.000 ms -> {1 + grown:.3f} ms")


def owners(steps, ms):
    """Return the owners of the sampled steps; `ms` is a function of an owner and a step's number: its time, ms."""
    sums = [
        (step, owner, 1, 1, int(ms(owner, step) * MS))
        for step in steps.table.filter("recorded")["number"].to_list()
        for owner in ("net.2", "net.3", None)
    ]
    names = ("step", "owner", "part", "bound", "self_ns")
    table = pl.DataFrame(sums, schema=names, orient="row").cast({"step": pl.UInt32})
    return Ownership("host", 1, 1, table, table, table, 1)


def test_the_line_names_the_module_that_takes_longer():
    steps = made(lengths(lambda number: 2 if number % 7 == 3 else 1), lambda number: number % 200 < 8)
    table = owners(steps, lambda owner, step: 1.3 if owner == "net.3" and step % 7 == 3 else 0.3)
    found = recurring_steps.summary(steps, table, NO_SPANS)
    (module,) = found["modules"]
    assert module["module"] == "net.3"
    assert module["after_ms"] - module["before_ms"] == pytest.approx(1, abs=0.15)


def test_the_first_step_tells_no_module_of_the_longer_steps():
    """A checkpoint precedes each 50th step. Step 0 alone of them is sampled, and a module makes its tensors there."""
    steps = made(
        lengths(lambda number: 40 if number % 50 == 0 else 1), lambda number: number < 8 or 200 < number % 1000 < 209
    )
    table = owners(steps, lambda owner, step: 30 if owner == "net.3" and step == 0 else 0.3)
    found = recurring_steps.summary(steps, table, NO_SPANS)
    assert (found["every"], found["modules"]) == (50, [])


def looked(steps, more):
    """Return samples of the stepping thread: what it does in a step beyond 1 ms.

    Args:
        steps: the steps.
        more: "run", "sleep", "wait" for a processor, or "unknown": it is off its processor, and its waits are unknown.
    """
    rows, ran = [], 0
    for start, end in steps.table.select("start_ns", "end_ns").iter_rows():
        ran += end - start if more == "run" else min(end - start, MS)
        waited = {"wait": max(end - start - MS, 0), "unknown": None}.get(more, 0)
        rows.append((1, 1, end, end, ran, waited))
    return pl.DataFrame(rows, schema=tables.LOOKS, orient="row")


@pytest.mark.parametrize(
    ("more", "outside"), [("run", "host"), ("sleep", "blocked"), ("wait", None), ("unknown", None), (None, None)]
)
def test_the_line_says_what_the_stepping_thread_does_outside_of_all_phases(more, outside):
    steps = made(lengths(lambda number: 5 if number % 4 == 0 else 1))
    looks = None if more is None else looked(steps, more)
    found = recurring_steps.summary(steps, None, NO_SPANS, looks)
    assert (found["phase"], found["outside"]) == (None, outside)
    (line,) = changes.lines({"recurring_steps": found})
    words = {"host": "runs code", "blocked": "is asleep or blocked"}
    end = f"; most of the difference is outside of all phases: the stepping thread {words[outside]}" if outside else ""
    assert line.endswith(f" of the time of all steps{end}")
    within = recurring_steps.summary(steps, None, waiting(steps), looks)
    assert (within["phase"], within["outside"]) == ("data", None)


def called(steps, numbers):
    """Return operators in the steps: `numbers` tells how many of each name a step has. Each calls one of its own."""
    rows = []
    for step, (start, end) in enumerate(steps.table.select("start_ns", "end_ns").iter_rows()):
        at = start
        for name, number in enumerate(numbers(step)):
            for _ in range(number):
                rows += [(1, 1, name, int(Category.OP), at, at + 900), (1, 1, 3, int(Category.OP), at + 100, at + 800)]
                at += 1000
        assert at < end
    names = ("process", "thread", "name", "category", "start_ns", "end_ns")
    return pl.DataFrame(rows, schema={name: tables.SPANS[name] for name in names}, orient="row")


def test_the_line_names_the_operators_that_the_script_calls_in_the_longer_steps_only():
    steps = made(lengths(lambda number: 5 if number % 4 == 0 else 1))
    spans = called(steps, lambda step: (10 + 90 * (step % 4 == 0), 5, 30 * (step % 4 == 0)))
    names = pl.Series(["aten::mul", "aten::add", "aten::clamp", "aten::empty"])
    found = recurring_steps.summary(steps, None, spans, looked(steps, "run"), names)
    assert found["calls"] == {"more": 120.0, "names": ["aten::mul", "aten::clamp"]}
    (line,) = changes.lines({"recurring_steps": found})
    assert line.endswith("runs code, which calls 120 more operators a step (mostly aten::mul and aten::clamp)")
    # the longer steps run other code, but call as many operators
    alike = recurring_steps.summary(steps, None, called(steps, lambda _: (10, 5, 3)), looked(steps, "run"), names)
    assert (alike["outside"], alike["calls"]) == ("host", None)


def test_the_line_names_the_callback_that_takes_the_time():
    steps = made(lengths(lambda number: 5 if number % 4 == 0 else 1))
    names = pl.Series([f"{CALLBACK}Save.on_train_step_end", f"{CALLBACK}Monitor.on_train_step_end"])
    rows = []
    for start, end in steps.table.select("start_ns", "end_ns").iter_rows():
        rows += [(1, 1, 1, int(Category.OTHER), start, start + 1000), (1, 1, 0, int(Category.OTHER), start + MS, end)]
    columns = ("process", "thread", "name", "category", "start_ns", "end_ns")
    spans = pl.DataFrame(rows, schema={name: tables.SPANS[name] for name in columns}, orient="row")
    spans = spans.filter(pl.col("end_ns") > pl.col("start_ns"))
    found = recurring_steps.summary(steps, None, spans, looked(steps, "sleep"), names)
    assert (found["callback"], found["outside"]) == ("Save.on_train_step_end", None)
    (line,) = changes.lines({"recurring_steps": found})
    assert line.endswith("; most of the difference is in the callback Save.on_train_step_end")


def test_the_line_lists_parts_of_the_difference_if_no_part_is_most_of_it():
    """A script that writes a checkpoint by itself serialises it, writes it to a file, and waits for the disk."""
    steps = made(lengths(lambda number: 11 if number % 4 == 0 else 1))
    rows, ran = [], 0
    for start, end in steps.table.select("start_ns", "end_ns").iter_rows():
        ran += min(end - start, MS) + 4 * max(end - start - MS, 0) // 10
        rows.append((1, 1, end, end, ran, 0))
    looks = pl.DataFrame(rows, schema=tables.LOOKS, orient="row")
    long = pl.col("end_ns") - pl.col("start_ns") > 6 * MS
    spans = steps.table.filter(long).select(
        process=pl.lit(1, tables.SPANS["process"]),
        thread=pl.lit(1, tables.SPANS["thread"]),
        category=pl.lit(int(Category.CHECKPOINT), tables.SPANS["category"]),
        start_ns=pl.col("end_ns") - 3 * MS,
        end_ns="end_ns",
    )
    found = recurring_steps.summary(steps, None, spans, looks)
    assert (found["phase"], found["outside"]) == (None, None)
    parts = {item["part"]: round(item["share"], 2) for item in found["parts"]}
    assert parts["checkpoint"] == pytest.approx(0.3, abs=0.03) and sum(parts.values()) == pytest.approx(1, abs=0.02)
    (line,) = changes.lines({"recurring_steps": found})
    assert "the difference is mostly " in line and "the phase checkpoint (" in line


@pytest.mark.parametrize("factor", [6, 1 / 6])
def test_the_line_about_a_lasting_change_says_where_it_lies(factor):
    """The first step takes far longer than all others, because it compiles."""
    long = lengths(lambda number: 1000 if not number else (max(factor, 1), max(1 / factor, 1))[number < 2_500])
    steps = made(long)
    found = lasting.summary(steps, None, waiting(steps))
    assert (found["shift"]["phase"], found["shift"]["outside"]) == ("data", None)
    (line,) = changes.lines(found)
    assert line.endswith("steps before and after); most of the difference is in waiting for data")


JOB = """
import sys, time
import torch
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(160):
    if step >= 80:
        time.sleep(0.03)
    model(torch.ones(2, 8)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs PyTorch")
def test_a_job_that_sleeps_from_one_step_on_is_told_so(job):
    shift = job(JOB, options={"overhead_budget": 0}, env={"MS_PROFILER_RAISE": "1"}).summary["shift"]
    assert shift["earliest"] <= 80 <= shift["latest"] and shift["modules"] == []
    assert (shift["phase"], shift["outside"]) == (None, "blocked")


def test_the_first_step_does_not_tell_whether_it_is_one_of_rare_longer_steps():
    """Each hundredth step writes a checkpoint, from step 100 on; step 0 fills caches."""
    steps = made([MS * (50 if number % 100 == 0 else 1) for number in range(1000)], lambda number: number < 32)
    assert recurring_steps.summary(steps, None, NO_SPANS)["first"] == 100
