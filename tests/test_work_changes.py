"""A module that executes another number of operators from some step on is named, however much the step times vary."""

import importlib.util
import random
from dataclasses import replace
from functools import partial

import polars as pl
import pytest
from ms_profiler.analysis.metrics import intervals, lasting, shifts, work_changes
from ms_profiler.analysis.metrics.ownership import Ownership
from ms_profiler.analysis.model import tables
from ms_profiler.analysis.report import changes
from ms_profiler.store.format import Category
from test_shifts import MS, made

#: owners in each made-up step, and the nanoseconds of each operator
OWNERS, OPERATOR = 20, 5_000


def counted(count, numbers, operators, speed=lambda number: 1.0, length=lambda number: MS, slower=lambda *_: 1):
    """Return steps, the owners in the sampled steps `numbers`, and spans of their operators.

    Args:
        count: number of steps.
        numbers: numbers of the sampled steps.
        operators: function of an owner's number and a step's number: the number of its operators in this step.
        speed: function of a step's number: the factor of all times in it.
        length: function of a step's number: its length, ns.
        slower: function of an owner's number and a step's number: the factor of the times of its operators.
    """
    chance, known = random.Random(5), set(numbers)
    steps = made(
        [int(length(number) * speed(number) * chance.gauss(1, 0.05)) for number in range(count)], known.__contains__
    )
    starts, pieces, spans = steps.table["start_ns"].to_list(), [], []
    for number in numbers:
        at = starts[number]
        for owner in range(OWNERS):
            begin = at
            for _ in range(operators(owner, number)):
                took = int(OPERATOR * speed(number) * slower(owner, number) * chance.gauss(1, 0.1))
                spans.append((1, 1, 0, int(Category.OP), at, at + took))
                at += took
            if at > begin:
                pieces.append((number, f"net.{owner}", 1, 1, begin, at))
    names = ("process", "thread", "name", "category", "start_ns", "end_ns")
    table = pl.DataFrame(pieces, schema=("step", "owner", "part", "bound", "start_ns", "end_ns"), orient="row")
    table = table.cast({"step": pl.UInt32})
    sums = table.with_columns(self_ns=pl.col("end_ns") - pl.col("start_ns"))
    other = {name: kind for name, kind in tables.SPANS.items() if name not in names}
    known_spans = pl.DataFrame(spans, schema={name: tables.SPANS[name] for name in names}, orient="row")
    every = known_spans.with_columns(pl.lit(None, kind).alias(name) for name, kind in other.items())
    return steps, Ownership("host", 1, 1, sums, sums, table, 1), every.select(tables.SPANS.names())


def bursts(count, every=500, length=8):
    return [number for start in range(every // 2, count, every) for number in range(start, start + length)]


def disturbed(seed):
    """Return a speed that changes by up to a factor of three, each time for some hundred steps."""
    chance = random.Random(seed)
    speeds = [chance.uniform(1, 3) for _ in range(200)]
    return lambda number: speeds[number // 150 % len(speeds)]


@pytest.mark.parametrize("basis", ["host", "kernels"])
@pytest.mark.parametrize("seed", range(4))
def test_a_module_that_works_twice_is_found_while_the_speed_of_the_processor_changes(seed, basis):
    steps, found, spans = counted(
        20_000,
        bursts(20_000),
        lambda owner, number: 10 if owner == 3 and number >= 15_000 else 5,
        disturbed(seed),
    )
    # the times of the modules, compared with each other, may show it too
    assert {each["module"] for each in (shifts.shift(steps, found, spans) or {"modules": []})["modules"]} <= {"net.3"}
    if basis == "kernels":
        kernels = found.pieces[intervals.locate(spans["start_ns"], found.pieces)]
        found = Ownership("kernels", 1, 1, found.tree, found.sums, kernels, 1)
    change = work_changes.shift(shifts.alike(steps), steps, found, spans)
    assert (change["after_step"], change["step"]) == (14_757, 15_250)
    (module,) = change["modules"]
    assert (module["module"], module["count_before"], module["count_after"]) == ("net.3", 5, 10)
    assert module["after_ms"] / module["before_ms"] == pytest.approx(2, abs=0.15)


@pytest.mark.parametrize("forward", [True, False])
def test_a_module_whose_backward_kernels_have_another_owner_is_not_named_beside_the_one_that_changed(forward):
    """Two backward kernels have another owner from step 600 on. Without a changed forward pass, this may count."""
    steps, found, spans = counted(
        1_000, range(1_000), lambda owner, number: 10 if forward and owner == 3 and number >= 600 else 5
    )
    kernels = found.pieces[intervals.locate(spans["start_ns"], found.pieces)]
    begins = dict(zip(steps.table["number"], steps.table["start_ns"], strict=True))
    backward = [
        (number, "net" if number >= 600 else "net.5", 2, 1, begins[number] + at, begins[number] + at + 40_000)
        for number in range(1_000)
        for at in (800_000, 850_000)
    ]
    kernels = pl.concat([kernels, pl.DataFrame(backward, schema=kernels.schema, orient="row")])
    sums = kernels.with_columns(self_ns=pl.col("end_ns") - pl.col("start_ns"))
    change = work_changes.shift(
        shifts.alike(steps), steps, Ownership("kernels", 1, 1, sums, sums, kernels, 1), spans.clear()
    )
    if forward:
        assert [each["module"] for each in change["modules"]] == ["net.3"] and change["more"] == 0
    else:
        assert change is None or {each["module"] for each in change["modules"]} <= {"net", "net.5"}


def test_the_first_step_is_exact_if_every_step_is_recorded():
    steps, found, spans = counted(1_500, range(1_500), lambda owner, number: 7 if owner == 3 and number >= 1_000 else 5)
    change = work_changes.shift(shifts.alike(steps), steps, found, spans)
    assert (change["after_step"], change["step"]) == (999, 1_000)


def test_a_module_that_is_no_longer_called_and_another_one_that_begins_are_both_named():
    def operators(owner, number):
        return 0 if owner == (3 if number >= 600 else 8) else 5

    steps, found, spans = counted(1_000, range(1_000), operators)
    change = work_changes.shift(shifts.alike(steps), steps, found, spans)
    # together they change the length of a step by nothing
    assert change is None
    steps, found, spans = counted(1_000, range(1_000), lambda owner, number: 5 * (owner != 8 or number >= 600))
    change = work_changes.shift(shifts.alike(steps), steps, found, spans)
    (module,) = change["modules"]
    assert (module["module"], module["before_ms"], module["count_before"]) == ("net.8", 0, 0)


NONE = {
    "no number changes": lambda owner, number: 5,
    "the numbers of a module vary": lambda owner, number: 5 + (owner == 3) * (number * 7 % 5),
    "a number changes for some steps only": lambda owner, number: 5 + 5 * (owner == 3 and 400 <= number < 600),
    "the numbers grow": lambda owner, number: 5 + (owner == 3) * number // 50,
    "other numbers in some steps": lambda owner, number: 50 if number % 30 == 4 else 5,
    "only the first steps differ": lambda owner, number: 5 + 5 * (owner == 3 and number < 3),
    "the last steps differ, but are few": lambda owner, number: 5 + 5 * (owner == 3 and number >= 995),
    "so few operators more that they do not count": lambda owner, number: 50 + (owner == 3 and number >= 500),
}


@pytest.mark.parametrize("operators", NONE.values(), ids=list(NONE))
def test_no_lasting_change_is_reported_if(operators):
    steps, found, spans = counted(1_000, range(1_000), operators)
    assert work_changes.shift(shifts.alike(steps), steps, found, spans) is None


def test_a_long_burst_of_sampled_steps_before_the_change_hides_nothing():
    numbers = [*bursts(10_000), *range(9_300, 9_400), *range(9_900, 9_908)]
    steps, found, spans = counted(
        10_000, sorted({*numbers}), lambda owner, number: 10 if owner == 3 and number >= 9_500 else 5
    )
    change = work_changes.shift(shifts.alike(steps), steps, found, spans)
    assert (change["after_step"], change["step"]) == (9_399, 9_750)
    # these made-up lengths of steps do not depend on the operators
    assert change["before_ms"] is None and change["after_ms"] is None


def test_few_steps_with_other_numbers_hide_no_change():
    def operators(owner, number):
        return 1 if number % 60 == 8 else 10 if owner == 3 and number >= 600 else 5

    steps, found, spans = counted(1_000, range(1_000), operators)
    assert work_changes.shift(shifts.alike(steps), steps, found, spans)["step"] == 600


def test_a_change_of_the_speed_and_one_of_the_work_have_a_line_each():
    steps, found, spans = counted(
        20_000,
        bursts(20_000),
        lambda owner, number: 10 if owner == 3 and number >= 15_000 else 5,
        lambda number: 3 if number >= 9_000 else 1,
    )
    summary = lasting.summary(steps, found, spans)
    assert summary["shift"]["step"] == pytest.approx(9_000, abs=2) and summary["shift"]["modules"] == []
    assert [each["module"] for each in summary["work_change"]["modules"]] == ["net.3"]
    speed, work = changes.lines(summary)
    assert speed.startswith(f"From step {summary['shift']['step']} on: ")
    assert speed.endswith("; everything alike, by a factor of 2.99: the machine became slower, or all work did")
    start = "From step 15250 (or up to 492 steps earlier, which were not sampled) on, a step does other work: net.3 "
    assert work.startswith(start)
    assert "net.3 " in work and "(10 operators in place of 5)" in work


def test_one_change_has_one_line_and_the_numbers_of_operators_tell_its_place():
    steps, found, spans = counted(
        20_000, bursts(20_000), lambda owner, number: 80 if owner == 3 and number >= 15_000 else 5
    )
    summary = lasting.summary(steps, found, spans)
    assert summary["work_change"] is None and summary["slowing"] is None
    assert [each["module"] for each in summary["shift"]["modules"]] == ["net.3"]
    assert summary["shift"]["step"] == 15_250


def test_the_length_of_a_step_is_stated_if_the_steps_show_it():
    steps, found, spans = counted(
        2_000,
        range(2_000),
        lambda owner, number: 25 if owner == 3 and number >= 1_500 else 5,
        length=lambda number: MS + 100_000 * (number >= 1_500),
    )
    change = work_changes.shift(shifts.alike(steps), steps, found, spans)
    assert (change["before_ms"], change["after_ms"]) == (pytest.approx(1, rel=0.03), pytest.approx(1.1, rel=0.03))


def test_two_changes_of_one_module_at_different_steps_have_a_line_each():
    steps, found, spans = counted(
        1_000,
        range(1_000),
        lambda owner, number: 7 if owner == 3 and number >= 700 else 5,
        length=lambda number: MS + 125_000 * (number >= 300) + 50_000 * (number >= 700),
        slower=lambda owner, number: 6 if owner == 3 and number >= 300 else 1,
    )
    summary = lasting.summary(steps, found, spans)
    assert summary["shift"]["step"] == pytest.approx(300, abs=3)
    assert summary["work_change"]["step"] == 700


@pytest.mark.parametrize("speed_at", [11_500, 17_000])
def test_a_change_of_the_speed_far_from_one_of_the_work_names_no_module(speed_at):
    """Another program begins to run, and a module works far more in a quarter of the steps."""
    steps, found, spans = counted(
        20_000,
        bursts(20_000),
        lambda owner, number: 40 if owner == 3 and number >= 15_000 else 5,
        lambda number: 2.5 if number >= speed_at else 1,
    )
    summary = lasting.summary(steps, found, spans)
    assert summary["work_change"]["earliest"] <= 15_000 <= summary["work_change"]["latest"]
    assert summary["shift"]["step"] == pytest.approx(speed_at, abs=2) and summary["shift"]["modules"] == []


def test_a_module_that_becomes_slower_is_no_change_of_the_processors_speed():
    steps, found, spans = counted(
        1_000,
        range(1_000),
        lambda owner, number: 20 if owner == 8 and number >= 500 else 5,
        length=lambda number: MS + 450_000 * (number >= 500),
        slower=lambda owner, number: 16 if owner == 3 and number >= 500 else 1,
    )
    (module,) = work_changes.shift(shifts.alike(steps), steps, found, spans)["modules"]
    assert module["module"] == "net.8"
    assert module["after_ms"] / module["before_ms"] == pytest.approx(4, rel=0.1)


def test_all_modules_that_change_count_but_three_are_named():
    steps, found, spans = counted(1_000, range(1_000), lambda owner, number: 8 if number >= 500 else 5)
    change = work_changes.shift(shifts.alike(steps), steps, found, spans)
    assert len(change["modules"]) == 3 and change["more"] == OWNERS - 3
    assert changes.lines({"shift": change})[0].endswith(f", and {OWNERS - 3} more")


@pytest.mark.parametrize("length", [4, 8])
def test_a_change_that_only_one_burst_shows_says_so(length):
    numbers = [*range(32), *bursts(12_000)[::4], *range(18_010, 18_010 + length)]
    steps, found, spans = counted(
        20_000, sorted({*numbers}), lambda owner, number: 10 if owner == 3 and number >= 18_000 else 5
    )
    change = work_changes.shift(shifts.alike(steps), steps, found, spans)
    assert change["together"] == length
    assert (
        f" earlier, which were not sampled) on, seen in {length} sampled steps in a row, a step "
        in changes.lines({"shift": change})[0]
    )


def _more(few, owner, number):
    return 10 if owner == 3 and number in few else 5


def test_four_steps_tell_no_lasting_change_if_every_step_is_recorded():
    for few in (range(4), range(396, 400)):
        steps, found, spans = counted(400, range(400), partial(_more, few))
        assert work_changes.shift(shifts.alike(steps), steps, found, spans) is None


def test_steps_that_become_longer_little_by_little_have_a_line_beside_a_change_of_the_work():
    steps, found, spans = counted(
        1_000,
        range(1_000),
        lambda owner, number: 12 if owner == 3 and number >= 500 else 5,
        length=lambda number: MS * (1 + number / 1_000),
    )
    summary = lasting.summary(steps, found, spans)
    work, gradual = changes.lines(summary)
    assert "on, a step does other work: net.3 " in work
    assert gradual.startswith("Steps become longer little by little")


JOB = """
import torch
class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.times = torch.nn.Linear(8, 8), 1
    def forward(self, value):
        for _ in range(self.times):
            value = self.linear(value)
        return value
layers = [Layer() for _ in range(12)]
model = torch.nn.Sequential(*layers)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(120):
    if step == 80:
        layers[7].times = 2
    model(torch.ones(2, 8)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs PyTorch")
def test_a_layer_of_a_real_job_that_works_twice_from_one_step_on_is_named(launch):
    run = launch(JOB, options={"overhead_budget": 0}, env={"MS_PROFILER_RAISE": "1"})
    stated = [run.summary[name] for name in ("shift", "work_change")]
    changed = [
        (change["step"], module)
        for change in stated
        if change is not None
        for module in change["modules"]
        if "count_after" in module
    ]
    ((step, module),) = changed
    assert step == 80 and module["module"] == "Sequential.7.linear"
    assert module["count_after"] > 1.5 * module["count_before"]


def on_a_device(found, launched, others=lambda number: 0, ns=1_000):
    """Return owners by kernels, and the number of kernels in each step, as a device has them.

    Args:
        found: owners by the time of the host, from `counted`.
        launched: function of an owner's number and a step's number: the number of its kernels in this step.
        others: function of a step's number: the number of its kernels without an owner.
        ns: the time of each kernel.
    """
    rows = [
        (number, f"net.{owner}", 1, 1, at, at + ns)
        for number in found.pieces["step"].unique().sort()
        for owner in range(OWNERS)
        for at in range(launched(owner, number))
    ]
    kernels = pl.DataFrame(rows, schema=found.pieces.schema, orient="row")
    sums = kernels.with_columns(self_ns=pl.col("end_ns") - pl.col("start_ns"))
    counts = [
        (number, sum(launched(owner, number) for owner in range(OWNERS)) + others(number)) for number in range(4_500)
    ]
    tasks = pl.DataFrame(counts, schema={"step": pl.UInt32, "count": pl.UInt32}, orient="row")
    return Ownership("kernels", 1, 1, sums, sums, kernels, 1), tasks


def more(owner, number):
    return 30 if owner == 3 and number >= 3_000 else 5


@pytest.mark.parametrize("others", [lambda number: 0, lambda number: 5 * (number % 10 == 7)])
def test_small_kernels_tell_the_step_from_which_on_a_module_launches_more_of_them(others):
    """The further kernels take 25 us of a step of 1 ms in all, launching them takes far more."""
    steps, found, spans = counted(4_500, bursts(4_500), more, disturbed(7))
    kernels, tasks = on_a_device(found, lambda owner, number: 2 if owner == 3 and number >= 3_000 else 1, others)
    assert lasting.summary(steps, kernels, spans, None, tasks)["shift"] is None
    change = lasting.summary(steps, kernels, spans, found, tasks)["shift"]
    assert (change["after_step"], change["step"], change["earliest"], change["latest"]) == (2_999, 3_000, 3_000, 3_000)
    assert (change["together"], change["counted"]) == (0, "operators")
    (module,) = change["modules"]
    assert (module["module"], module["count_before"], module["count_after"]) == ("net.3", 5, 30)
    (line,) = changes.lines({"shift": change})
    assert line.startswith("From step 3000 on") and "(30 operators in place of 5)" in line


def test_kernels_without_details_in_most_steps_tell_the_step_all_the_same():
    steps, found, spans = counted(4_500, bursts(4_500), more, disturbed(7))
    kernels, tasks = on_a_device(found, lambda owner, number: 2 if owner == 3 and number >= 3_000 else 1)
    numbers = kernels.pieces["step"].unique().sort()
    kept = pl.col("step").is_in(numbers.gather_every(8).implode())
    kernels = replace(kernels, pieces=kernels.pieces.filter(kept))
    change = lasting.summary(steps, kernels, spans, found, tasks)["shift"]
    assert (change["earliest"], change["latest"]) == (3_000, 3_000)


def test_where_launching_takes_most_of_a_step_the_time_on_the_host_is_stated_although_kernels_show_a_change():
    """The further kernels take 15 us of a step of 1 ms, launching them takes 125 us."""
    steps, found, spans = counted(4_500, bursts(4_500), more)
    kernels, tasks = on_a_device(found, lambda owner, number: 20 if owner == 3 and number >= 3_000 else 5)
    alone = lasting.summary(steps, kernels, spans, None, tasks)
    assert (alone["work_change"] or alone["shift"])["counted"] == "kernels"
    change = lasting.summary(steps, kernels, spans, found, tasks)["shift"]
    (module,) = change["modules"]
    assert (change["step"], change["counted"], module["count_after"]) == (3_000, "operators", 30)
    assert module["after_ms"] - module["before_ms"] == pytest.approx(0.125, rel=0.2)


@pytest.mark.parametrize("ns", [1_000, 5_000])
def test_where_launching_takes_most_of_a_step_one_change_has_one_line_with_the_time_on_the_host(ns):
    """Each step is longer by the 125 us of the further launches. The kernels alone take 15 or 75 us more."""
    steps, found, spans = counted(4_500, bursts(4_500), more, length=lambda number: MS + 125_000 * (number >= 3_000))
    kernels, tasks = on_a_device(found, lambda owner, number: 20 if owner == 3 and number >= 3_000 else 5, ns=ns)
    told = lasting.summary(steps, kernels, spans, found, tasks)
    assert told["work_change"] is None and len(changes.lines(told)) == 1
    (module,) = told["shift"]["modules"]
    assert (told["shift"]["step"], told["shift"]["counted"], module["count_after"]) == (3_000, "operators", 30)
    assert module["after_ms"] - module["before_ms"] == pytest.approx(0.125, rel=0.1)


def test_where_launching_no_longer_takes_most_of_a_step_a_module_has_the_time_of_its_kernels():
    """From step 3000 on, the kernels of one module take 1.5 ms, and launching them takes as long as before."""
    steps, found, spans = counted(
        4_500, bursts(4_500), lambda owner, number: 5, length=lambda number: MS + MS * (number >= 3_000)
    )
    kernels, _ = on_a_device(found, lambda owner, number: 5)
    longer = pl.col("owner").eq("net.3") & pl.col("step").ge(3_000)
    pieces = kernels.pieces.with_columns(end_ns=pl.when(longer).then(pl.col("end_ns") + 300_000).otherwise("end_ns"))
    sums = pieces.with_columns(self_ns=pl.col("end_ns") - pl.col("start_ns"))
    told = lasting.summary(steps, replace(kernels, tree=sums, sums=sums, pieces=pieces), spans, found)
    (module,) = told["shift"]["modules"]
    assert (told["shift"]["step"], module["module"]) == (3_000, "net.3")
    assert module["after_ms"] - module["before_ms"] == pytest.approx(1.5, rel=0.01)


def test_kernels_of_other_modules_do_not_tell_the_step_of_a_change():
    """At step 3100, another owner launches two kernels more, in one call of an operator as before."""
    steps, found, spans = counted(4_500, bursts(4_500), more)
    kernels, tasks = on_a_device(found, lambda owner, number: 3 if owner == 4 and number >= 3_100 else 1)
    change = lasting.summary(steps, kernels, spans, found, tasks)["shift"]
    assert (change["earliest"], change["latest"]) == (2_758, 3_250)


def test_in_a_job_whose_modules_work_alike_the_numbers_of_kernels_tell_no_change():
    steps, found, spans = counted(4_500, bursts(4_500), lambda owner, number: 5, disturbed(3))
    kernels, tasks = on_a_device(found, lambda owner, number: 1, lambda number: number >= 3_000)
    assert lasting.summary(steps, kernels, spans, found, tasks)["shift"] is None


def test_waits_for_a_processor_hide_no_change_of_the_work():
    """Other programs make most operators three times as long before the change, but not in the fastest steps."""
    chance = random.Random(2)
    busy = [chance.random() < 0.8 for _ in range(600)]
    steps, found, spans = counted(
        600,
        range(600),
        lambda owner, number: 10 if owner == 3 and number >= 300 else 5,
        slower=lambda owner, number: 3.0 if owner == 3 and number < 300 and busy[number] else 1.0,
    )
    change = work_changes.shift(shifts.alike(steps), steps, found, spans)
    assert change is not None and (change["step"], change["latest"]) == (300, 300)
    (module,) = change["modules"]
    assert (module["module"], module["count_before"], module["count_after"]) == ("net.3", 5, 10)
    assert module["after_ms"] / module["before_ms"] == pytest.approx(2, rel=0.2)
