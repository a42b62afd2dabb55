"""In made-up steps, the step from which on steps take longer is found, and the modules that changed."""

import random

import polars as pl
import pytest
from ms_profiler.analysis.metrics import shifts
from ms_profiler.analysis.metrics.ownership import Ownership
from ms_profiler.analysis.metrics.steps import Steps
from ms_profiler.analysis.model import tables
from ms_profiler.store.format import Category, StepSource

MS = 1_000_000
NO_SPANS = pl.DataFrame(schema=tables.SPANS)


def made(lengths, recorded=lambda number: True):
    """Return steps of these lengths in ns; `recorded` says for each number whether the step is recorded fully."""
    rows, at = [], 0
    for number, length in enumerate(lengths):
        known = recorded(number)
        rows.append((1, 1, number, at, at + length, 1, known, "all" if known else "coarse", 0))
        at += length
    table = pl.DataFrame(rows, schema=tables.STEPS, orient="row")
    return Steps(1, 1, StepSource.SCRIPT, table.with_columns(duration_ns=pl.col("end_ns") - pl.col("start_ns")))


def noisy(count, change, factor=1.2, seed=3):
    """Return `count` lengths in ns that change at one step, with noise and some far longer steps."""
    chance = random.Random(seed)
    return [
        int(MS * (factor if number >= change else 1) * chance.gauss(1, 0.05)) * (1 + 8 * (chance.random() < 0.01))
        for number in range(count)
    ]


@pytest.mark.parametrize("factor", [1.2, 0.8])
@pytest.mark.parametrize("change", [15_000, 700])
def test_a_change_is_found_with_its_module(change, factor):
    steps = made(noisy(20_000, change, factor), lambda number: number % 100 == 50)
    sums = [
        (step, owner, 1, 1, int(0.1 * MS * (1 + (factor - 1) * 10 * (owner == "net.3" and step >= change))))
        for step in range(50, 20_000, 100)
        for owner in ("net.2", "net.3", None)
    ]
    names = ("step", "owner", "part", "bound", "self_ns")
    table = pl.DataFrame(sums, schema=names, orient="row").cast({"step": pl.UInt32})
    found = shifts.shift(steps, Ownership("host", 1, 1, table, table, table, 1), NO_SPANS)
    assert found["step"] == pytest.approx(change, abs=5)
    assert found["after_ms"] / found["before_ms"] == pytest.approx(factor, abs=0.02)
    (module,) = found["modules"]
    assert module["module"] == "net.3"
    assert module["after_ms"] - module["before_ms"] == pytest.approx(factor - 1, abs=0.01)


@pytest.mark.parametrize(("factor", "told"), [(0.97, False), (1.06, True)])
def test_a_module_that_takes_longer_explains_no_shorter_steps(monkeypatch, factor, told):
    share = shifts._Share(1_500, 0.06, (1_500, 1_500))
    monkeypatch.setattr(shifts, "_of_modules", lambda *_: share)
    found = shifts.shift(made(noisy(3_000, 1_500, factor)), None, NO_SPANS)
    assert (found is not None) is told


def test_modules_that_are_no_longer_called_make_no_other_module_seem_longer():
    """A job drops its second network: steps become shorter, and the share of the first network rises."""
    chance, change = random.Random(3), 1_200
    steps = made(noisy(3_000, change, 0.5), lambda number: number % 20 == 10)
    sums = [
        (step, owner, 1, 1, int(part * MS * chance.gauss(1, 0.02)))
        for step in range(10, 3_000, 20)
        for owner, part in (("first.1", 0.3), ("first.2", 0.15), *([("second", 0.5)] if step < change else []))
    ]
    names = ("step", "owner", "part", "bound", "self_ns")
    table = pl.DataFrame(sums, schema=names, orient="row").cast({"step": pl.UInt32})
    found = shifts.shift(steps, Ownership("host", 1, 1, table, table, table, 1), NO_SPANS)
    assert found["after_ms"] / found["before_ms"] == pytest.approx(0.5, abs=0.02)
    assert not {module["module"] for module in found["modules"]} & {"first.1", "first.2"}


@pytest.mark.parametrize("seed", range(20))
def test_noise_is_no_change(seed):
    assert shifts.shift(made(noisy(3_000, 0, 1.0, seed)), None, NO_SPANS) is None


def flipping(count, change, factor, seed):
    """Return steps of a processor whose speed changes by 1.7 for some hundred steps at a time, and their spans.

    A step has a forward pass of 0.3 ms, a backward pass of 0.5 ms and an optimizer of 0.1 ms. From step `change` on,
    the forward pass is longer by `factor`.
    """
    chance, lengths, parts, fast, left = random.Random(seed), [], [], True, 300
    for number in range(count):
        left -= 1
        if left < 0:
            fast, left = not fast, chance.randrange(50, 1500)
        speed = (1 if fast else 1.7) * chance.gauss(1, 0.03)
        forward = 0.3 * (factor if number >= change else 1)
        parts.append([int(MS * speed * chance.gauss(part, 0.02 * part)) for part in (forward, 0.5, 0.1)])
        lengths.append(sum(parts[-1]) + int(0.1 * MS * speed))
    steps = made(lengths)
    rows = []
    for start, each in zip(steps.table["start_ns"], parts, strict=True):
        at = start
        for category, length in zip((Category.FORWARD, Category.BACKWARD, Category.OPTIMIZER), each, strict=True):
            rows.append({"process": 1, "thread": 1, "category": int(category), "start_ns": at, "end_ns": at + length})
            at += length
    return steps, pl.DataFrame(rows, schema_overrides=tables.SPANS)


@pytest.mark.parametrize("factor", [1.3, 0.7])
@pytest.mark.parametrize("seed", range(4))
def test_a_change_is_found_while_the_speed_of_the_processor_changes_more(factor, seed):
    steps, spans = flipping(20_000, 15_000, factor, seed)
    assert shifts.shift(steps, None, NO_SPANS) is None  # the lengths alone do not show the change
    found = shifts.shift(steps, None, spans)
    assert found["step"] == pytest.approx(15_000, abs=5)
    assert found["after_ms"] / found["before_ms"] == pytest.approx(1 + 0.3 * (factor - 1), abs=0.03)


def test_fast_first_steps_are_not_those_before_a_later_change_of_a_phase():
    """The first 25 steps find their batches made. From step 200 on, the rest of a step is shorter: 21 -> 16 ms."""
    chance, lengths, waits = random.Random(1), [], []
    for number in range(400):
        wait = 0.2 if number < 25 else 12 if number < 200 else 14
        waits.append(int(MS * wait * chance.gauss(1, 0.03)))
        rest = 3 if number < 25 else 9 if number < 200 else 2
        lengths.append(waits[-1] + int(MS * chance.gauss(1, 0.03) * rest))
    steps = made(lengths)
    rows = [
        {"process": 1, "thread": 1, "category": int(Category.DATA), "start_ns": start, "end_ns": start + wait}
        for start, wait in zip(steps.table["start_ns"], waits, strict=True)
    ]
    assert shifts.shift(steps, None, pl.DataFrame(rows, schema_overrides=tables.SPANS)) is None


@pytest.mark.parametrize("seed", range(10))
def test_parts_of_steps_show_no_change_when_only_the_processor_changes(seed):
    """Only the lengths may show a change, for example if the first steps are short or long."""
    steps, spans = flipping(6_000, 0, 1.0, seed)
    assert shifts.shift(steps, None, spans) == shifts.shift(steps, None, NO_SPANS)


def test_few_steps_show_no_change():
    assert shifts.shift(made([MS] * 60 + [2 * MS] * 60), None, NO_SPANS) is None
    assert shifts.shift(made([]), None, NO_SPANS) is None


def owned(steps, change, factor, every, seed):
    """Return the owners' time in each sampled step: three modules, of which `net.1` takes longer by `factor`."""
    chance = random.Random(seed)
    lengths = dict(zip(steps.table["number"], steps.table["duration_ns"], strict=True))
    rows = []
    for number in range(every // 2, steps.table.height, every):
        share = {"net.0": 0.15, "net.1": 0.1 * (factor if number >= change else 1), "net.2": 0.2}
        whole = 1 + 0.1 * ((factor if number >= change else 1) - 1)
        for owner, part in share.items():
            rows.append((number, owner, 1, 1, int(lengths[number] * part / whole * chance.gauss(1, 0.1))))
    table = pl.DataFrame(rows, schema=("step", "owner", "part", "bound", "self_ns"), orient="row")
    table = table.cast({"step": pl.UInt32})
    return Ownership("host", 1, 1, table, table, table, 1)


@pytest.mark.parametrize("every", [20, 150])
@pytest.mark.parametrize("seed", range(4))
def test_a_module_that_takes_longer_is_found_while_the_speed_changes(every, seed):
    """One module takes twice as long, a tenth of a step; the speed of the processor changes by 1.7."""
    chance, lengths, fast, left = random.Random(seed), [], True, 300
    for number in range(20_000):
        left -= 1
        if left < 0:
            fast, left = not fast, chance.randrange(50, 1500)
        lengths.append(int(MS * (1 if fast else 1.7) * (1.1 if number >= 15_000 else 1) * chance.gauss(1, 0.05)))
    steps = made(lengths, lambda number: number % every == every // 2)
    found = shifts.shift(steps, owned(steps, 15_000, 2, every, seed), NO_SPANS)
    assert found["step"] == pytest.approx(15_000, abs=2 * every)
    assert found["after_ms"] / found["before_ms"] == pytest.approx(1.1, abs=0.03)
    assert [each["module"] for each in found["modules"]] == ["net.1"]


@pytest.mark.parametrize("seed", range(6))
def test_modules_show_no_change_when_only_the_speed_changes(seed):
    steps, _ = flipping(6_000, 0, 1.0, seed)
    steps = made(steps.table["duration_ns"].to_list(), lambda number: number % 20 == 10)
    alone = shifts.shift(steps, None, NO_SPANS)
    found = shifts.shift(steps, owned(steps, 0, 1, 20, seed), NO_SPANS)
    assert (found and found["step"]) == (alone and alone["step"])
    assert not (found and found["modules"])


@pytest.mark.parametrize("seed", range(4))
def test_a_module_is_found_although_the_processor_slows_down_more(seed):
    """The processor is slower by half from step 9,000 on; one module takes twice as long from step 15,000 on."""
    chance = random.Random(seed)
    lengths = [
        int(MS * (1.5 if number >= 9_000 else 1) * (1.1 if number >= 15_000 else 1) * chance.gauss(1, 0.05))
        for number in range(20_000)
    ]
    steps = made(lengths, lambda number: number % 50 == 25)
    assert shifts.shift(steps, None, NO_SPANS)["step"] == pytest.approx(9_000, abs=100)
    found = shifts.shift(steps, owned(steps, 15_000, 2, 50, seed), NO_SPANS)
    assert found["step"] == pytest.approx(15_000, abs=100)
    assert [each["module"] for each in found["modules"]] == ["net.1"]


@pytest.mark.parametrize("factor", [1, 1.3])
@pytest.mark.parametrize("noise", [0.05, 0.3])
def test_the_stated_lengths_are_medians_of_the_steps_although_no_module_explains_all_of_the_change(noise, factor):
    """All parts of a step take longer, one module more than the others; records make a step longer by `factor`."""
    chance = random.Random(2)
    parts = {"net.0": (0.27, 1.0), "net.1": (0.1, 0.2), None: (0.63, 1.3)}
    wholes = [sum(times[late] for times in parts.values()) for late in (0, 1)]
    speeds = [max(chance.gauss(1, noise), 0.4) for _ in range(1_200)]
    lengths = [
        int(MS * speed * wholes[number >= 600] * (factor if number % 8 == 4 else 1))
        for number, speed in enumerate(speeds)
    ]
    rows = [
        (number, owner, 1, 1, int(MS * speeds[number] * times[number >= 600] * chance.gauss(1, 0.03)))
        for number in range(4, 1_200, 8)
        for owner, times in parts.items()
        if owner
    ]
    table = pl.DataFrame(rows, schema=("step", "owner", "part", "bound", "self_ns"), orient="row")
    table = table.cast({"step": pl.UInt32})
    steps = made(lengths, lambda number: number % 8 == 4)
    found = shifts.shift(steps, Ownership("host", 1, 1, table, table, table, 1), NO_SPANS)
    assert found["step"] == pytest.approx(600, abs=3)
    before, after = (shifts.alike(steps).filter(side)["duration_ns"] for side in (at_most(599), at_most(599).not_()))
    assert found["before_ms"] == pytest.approx(before.median() / MS, rel=0.05)
    assert found["after_ms"] == pytest.approx(after.median() / MS, rel=0.05)
    assert found["statistic"].startswith("medians")


def at_most(number):
    return pl.col("number") <= number


@pytest.mark.parametrize("after", [2.5, 0.4])
@pytest.mark.parametrize(("first", "last"), [(600, 640), (560, 599), (590, 620)])
def test_the_first_step_after_a_change_is_found_among_sampled_steps(first, last, after):
    """The steps around the change were sampled, and records make a step longer by half."""
    chance = random.Random(5)

    def sampled(number):
        return number % 50 < 4 or first <= number <= last

    lengths = [
        int(MS * (after if number >= 600 else 1) * (1.5 if sampled(number) else 1) * chance.uniform(1, 1.2))
        for number in range(1_200)
    ]
    assert shifts.shift(made(lengths, sampled), None, NO_SPANS)["step"] == 600


def twenty(lengths, numbers, factor, noise=0.05, seed=1):
    """Return steps and the owners of the sampled steps `numbers`: 20 modules take 2 % of 1 ms in each of them.

    `factor(owner, number)` is multiplied with the time of the module `net.{owner}`.
    """
    chance, known = random.Random(seed), set(numbers)
    rows = [
        (number, f"net.{owner}", 1, 1, int(20_000 * factor(owner, number) * chance.gauss(1, noise)))
        for number in numbers
        for owner in range(20)
    ]
    table = pl.DataFrame(rows, schema=("step", "owner", "part", "bound", "self_ns"), orient="row")
    table = table.cast({"step": pl.UInt32})
    return made(lengths, known.__contains__), Ownership("host", 1, 1, table, table, table, 1)


def long(change, part, count=20_000, noise=0.01, seed=2):
    """Return the lengths of steps of 1 ms that become longer by `part` at step `change`."""
    chance = random.Random(seed)
    return [int(MS * (1 + part * (number >= change)) * chance.gauss(1, noise)) for number in range(count)]


def bursts(count, every=500, length=8):
    """Return the numbers of sampled steps: every 500 steps, eight of them."""
    return [number for start in range(every // 2, count, every) for number in range(start, start + length)]


@pytest.mark.parametrize("numbers", [range(50, 20_000, 100), bursts(20_000), range(20_000)])
@pytest.mark.parametrize("grown", [(3,), (3, 8)])
def test_a_small_module_that_takes_twice_as_long_is_found_alone(grown, numbers):
    """The change is 2 % of a step for each module. The lengths of the steps alone must change by 5 % to count."""
    lengths = long(15_000, 0.02 * len(grown))
    steps, owners = twenty(lengths, numbers, lambda owner, number: 1 + (owner in grown and number >= 15_000))
    assert shifts.shift(steps, None, NO_SPANS) is None
    found = shifts.shift(steps, owners, NO_SPANS)
    assert found["step"] == pytest.approx(15_000, abs=100)
    assert found["after_ms"] / found["before_ms"] == pytest.approx(1 + 0.02 * len(grown), abs=0.005)
    assert {each["module"] for each in found["modules"]} == {f"net.{owner}" for owner in grown}
    assert all(each["after_ms"] / each["before_ms"] == pytest.approx(2, abs=0.1) for each in found["modules"])


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("between", [0.02, 0.1, 0.2])
def test_modules_whose_times_differ_from_burst_to_burst_show_no_small_change(between, seed):
    chance = random.Random(seed)
    shared = [[chance.gauss(1, between) for _ in range(20)] for _ in range(40)]
    steps, owners = twenty(
        long(0, 0, seed=seed), bursts(20_000), lambda owner, number: max(shared[number // 500][owner], 0.2), seed=seed
    )
    assert shifts.shift(steps, owners, NO_SPANS) is None


@pytest.mark.parametrize("seed", range(4))
def test_an_interrupted_module_makes_no_other_module_seem_shorter(seed):
    """From step 15,000 on, some other module in each sampled step is interrupted for a millisecond."""
    chance = random.Random(seed)
    hit = {number: chance.randrange(20) for number in bursts(20_000) if number >= 15_000}
    steps, owners = twenty(
        long(15_000, 0.02, seed=seed), bursts(20_000), lambda owner, number: 50 if hit.get(number) == owner else 1
    )
    assert shifts.shift(steps, owners, NO_SPANS) is None


def speeds(seed, slowest=2.0):
    """Return the factor by which the speed of a machine lengthens each step; it differs every 500 steps."""
    chance = random.Random(seed)
    known = [chance.uniform(1, slowest) for _ in range(40)]
    return lambda number: known[number // 500 % 40]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("changed", "factor"), [((3,), 2), ((3,), 3), ((3, 7, 8, 12, 15), 2.5)])
def test_modules_are_found_while_the_speed_of_the_machine_changes_by_more_than_they_do(changed, factor, seed):
    speed, part = speeds(seed), 0.02 * len(changed) * (factor - 1)
    lengths = [int(length * speed(number)) for number, length in enumerate(long(15_000, part))]
    steps, owners = twenty(
        lengths,
        bursts(20_000),
        lambda owner, number: speed(number) * (factor if owner in changed and number >= 15_000 else 1),
    )
    found = shifts.shift(steps, owners, NO_SPANS)
    assert {each["module"] for each in found["modules"]} <= {f"net.{owner}" for owner in changed}
    assert len(found["modules"]) + found["more"] == len(changed)
    assert found["earliest"] <= 15_000 <= found["latest"]
    assert all(each["after_ms"] / each["before_ms"] == pytest.approx(factor, rel=0.1) for each in found["modules"])
    if found["before_ms"] is not None:
        assert found["after_ms"] / found["before_ms"] == pytest.approx(1 + part, rel=0.1)


@pytest.mark.parametrize("seed", range(20))
def test_modules_show_no_small_change_while_only_the_speed_of_the_machine_changes(seed):
    speed, chance = speeds(seed, 3.0), random.Random(seed)
    lengths = [int(length * speed(number)) for number, length in enumerate(long(0, 0, seed=seed))]
    shared = [[chance.gauss(1, 0.1) for _ in range(20)] for _ in range(40)]
    steps, owners = twenty(
        lengths, bursts(20_000), lambda owner, number: speed(number) * max(shared[number // 500][owner], 0.2), seed=seed
    )
    found = shifts.shift(steps, owners, NO_SPANS)
    assert found is None or not found["modules"]


@pytest.mark.parametrize(("category", "phase"), [(Category.DATA, "data"), (None, "other")])
@pytest.mark.parametrize("seed", range(3))
def test_a_phase_is_found_while_the_speed_of_the_machine_changes_by_more(category, phase, seed):
    """The modules take 0.4 ms. From step 15,000 on, waits for data or other code takes 0.15 ms in place of 0.05 ms."""
    speed, numbers = speeds(seed), bursts(20_000)

    def aside(number):
        return int(50_000 * (3 if number >= 15_000 else 1) * speed(number))

    lengths = [int(450_000 * speed(number)) + aside(number) for number in range(20_000)]
    steps, owners = twenty(lengths, numbers, lambda owner, number: speed(number), seed=seed)
    rows = []
    for number, start in zip(numbers, steps.table["start_ns"].gather(numbers), strict=True):
        middle, end = start + aside(number), start + lengths[number]
        known = {"process": 1, "thread": 1, "parent": None}
        rows += [known | {"category": int(category), "start_ns": start, "end_ns": middle}] if category else []
        rows.append(known | {"category": int(Category.FORWARD), "start_ns": middle, "end_ns": end})
    found = shifts.shift(steps, owners, pl.DataFrame(rows, schema_overrides=tables.SPANS))
    (part,) = found["phases"]
    assert (part["phase"], found["modules"]) == (phase, [])
    assert found["earliest"] <= 15_000 <= found["latest"]
    assert part["after_ms"] / part["before_ms"] == pytest.approx(3, rel=0.1)


@pytest.mark.parametrize("factor", [1.4, 3.0])
def test_a_module_is_found_if_owners_are_known_for_half_of_the_sampled_steps_only(factor):
    """In a long run, the fine-grained records of some sampled steps alone are examined: of every second burst here.

    Its 20 modules take all of a step. The module takes 5 % of it, so its change is 2 % of a step, or 10 %.
    """
    numbers = bursts(20_000, 250)
    lengths = long(15_000, 0.05 * (factor - 1), noise=0.002)
    steps, owners = twenty(
        lengths,
        [number for number in numbers if number // 250 % 2],
        lambda owner, number: 2.5 * (factor if owner == 3 and number >= 15_000 else 1),
    )
    steps = made(lengths, set(numbers).__contains__)
    (module,) = shifts.shift(steps, owners, NO_SPANS)["modules"]
    assert module["module"] == "net.3"


REFUSED = {
    "two modules change in opposite directions": (0.02, lambda late, at: {3: 1 + late, 8: 1 - 0.5 * late}),
    "three modules change": (0.045, lambda late, at: dict.fromkeys((3, 8, 12), 1 + 0.75 * late)),
    "no step becomes longer": (0.0, lambda late, at: {3: 1 + late}),
    "it becomes slower little by little": (0.02, lambda late, at: {3: 1 + at}),
}


@pytest.mark.parametrize(("part", "factors"), REFUSED.values(), ids=list(REFUSED))
def test_what_a_small_change_of_one_module_does_not_explain(part, factors):
    steps, owners = twenty(
        long(15_000, part),
        bursts(20_000),
        lambda owner, number: factors(number >= 15_000, number / 20_000).get(owner, 1),
    )
    assert shifts.shift(steps, owners, NO_SPANS) is None


def test_a_small_module_that_differs_in_the_first_steps_shows_no_change():
    """A module changes at step 48, as when its caches are full at last; every step is recorded."""
    steps, owners = twenty(long(48, 0.02, 1_000), range(1_000), lambda owner, number: 1 + (owner == 3 and number >= 48))
    assert shifts.shift(steps, owners, NO_SPANS) is None


def test_slow_first_steps_hide_no_small_change():
    """Half of the modules take more than twice as long in the first 32 steps, which are all recorded."""
    numbers = [*range(32), *bursts(20_000)]
    steps, owners = twenty(
        long(15_000, 0.02),
        numbers,
        lambda owner, number: (1 + (owner == 3 and number >= 15_000)) * (2.5 if number < 32 and owner < 8 else 1),
    )
    (module,) = shifts.shift(steps, owners, NO_SPANS)["modules"]
    assert module["module"] == "net.3"


def test_a_small_change_hides_no_larger_one_of_a_phase():
    steps, spans = flipping(20_000, 15_000, 1.3, 1)
    _, owners = twenty(
        [MS] * 20_000, range(50, 20_000, 100), lambda owner, number: 1 + (owner == 3 and number >= 8_000)
    )
    sampled = made(steps.table["duration_ns"].to_list(), lambda number: number % 100 == 50)
    assert shifts.shift(sampled, owners, spans)["step"] == pytest.approx(15_000, abs=5)


def test_steps_without_any_length_are_no_error():
    steps, owners = twenty([0] * 20_000, bursts(20_000), lambda owner, number: 1 + (owner == 3 and number >= 15_000))
    assert shifts.shift(steps, owners, NO_SPANS) is None
