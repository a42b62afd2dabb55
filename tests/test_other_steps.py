"""The time of all steady steps is divided by what is known of all of them, not by that of the examined steps alone."""

import itertools
import json
import random
from dataclasses import replace

import polars as pl
import pytest
from microseconds import US, phases
from ms_profiler.analysis.comparison import basis, recurrence
from ms_profiler.analysis.comparison.comparing import compare
from ms_profiler.analysis.comparison.runs import digests
from ms_profiler.analysis.driver import engine, thinning
from ms_profiler.analysis.metrics import other_steps, verdict
from ms_profiler.analysis.readers import slot_table, store as readers_store
from ms_profiler.analysis.report import changes, sheets
from ms_profiler.store import layout
from ms_profiler.store.format import Category, Flag
from store_builder import MS, StoreBuilder

STEPS, EVERY, SAVE = 400, 50, 40
TORCH = {"name": "torch", "version": "2.13.0", "mode": "eager", "device": "CPU"}


def times(*rows):
    """Return the times of phases in steps: rows of step, phase, microseconds."""
    schema = {"step": pl.UInt32, "phase": pl.String, "duration_ns": pl.Int64}
    return pl.DataFrame([(step, phase, us * US) for step, phase, us in rows], schema=schema, orient="row")


def test_the_phases_of_steps_that_were_not_sampled_divide_their_time():
    recorded = times((0, "data", 100), (0, "forward", 600), (0, "other", 300))
    beside = other_steps.Unsampled(times((1, "data", 300), (2, "checkpoint", 700)), 4000 * US, pl.Series([1, 2]))
    found = other_steps.of_phases(recorded, beside)
    # of 5,000 us, data take 400 and the checkpoint 700; forward and other divide the rest 2 : 1, as when recorded
    assert found == pytest.approx({"data": 0.08, "checkpoint": 0.14, "forward": 0.52, "other": 0.26})


def test_the_phases_of_a_step_add_up_to_the_mean_of_all_steady_steps():
    """Recording makes a step of 1,000 us 500 us longer, in the forward pass."""
    recorded = times((0, "data", 100), (0, "forward", 1100), (0, "other", 300))
    beside = other_steps.Unsampled(times((1, "data", 100), (2, "data", 100)), 2000 * US, pl.Series([1, 2]))
    found = other_steps.steady_phases(recorded, [0], beside)
    each = dict(found.select("phase", "steady_ns").iter_rows())
    assert sum(each.values()) == pytest.approx(3500 * US / 3) and each["data"] == pytest.approx(100 * US)


def test_the_parts_of_a_phase_are_those_of_the_examined_steps():
    cut = phases((0, "data", 0, 100), (0, "forward", 100, 200), (0, "other", 200, 300))
    pieces = pl.DataFrame(
        [("computing", 50, 130), ("launch", 130, 200), ("host", 200, 310)],
        schema={"part": pl.String, "start_ns": pl.Int64, "end_ns": pl.Int64},
        orient="row",
    ).with_columns(pl.col("start_ns", "end_ns") * US)
    pieces = pl.concat([pl.DataFrame({"part": ["data"], "start_ns": [0], "end_ns": [50 * US]}), pieces])
    known = {"data": 0.2, "forward": 0.5, "other": 0.2, "checkpoint": 0.1}
    shares = other_steps.shares(pieces, "part", cut, other_steps.AllSteps(known, times(), pl.Series([0])))
    # half of the wait for data is hidden by computing; no examined step has a checkpoint
    assert shares == pytest.approx(
        {"data": 0.1, "computing": 0.1 + 0.5 * 0.3, "launch": 0.5 * 0.7, "host": 0.2, "checkpoint": 0.1}
    )


def test_nearly_all_of_a_wait_is_in_few_of_all_steps():
    pieces = phases(*((step, "forward", 10 * step, 10 * step + 10) for step in range(20)))
    pieces = pieces.with_columns(part=pl.lit("launch"))
    every = other_steps.AllSteps({}, times((3, "checkpoint", 100), (77, "checkpoint", 100)), pl.Series(range(200)))
    assert verdict.few(pieces) == {}
    assert verdict.few(pieces, every) == {"checkpoint": "2 of 200 steps"}
    host = phases((3, "other", 30, 900), (4, "other", 900, 901)).with_columns(part=pl.lit("host"))
    pieces = pl.concat([pieces, host])
    assert verdict.few(pieces, every)["host"] == "1 of 20 examined steps"


def written(parent, count, sampled, step, name="host", stretch=0):
    """Write a run of some steps.

    Args:
        sampled: whether the step of a number is sampled.
        step: `step(thread, number, start, known)` writes what a step contains, and returns its end; `known` is whether
            it is sampled.
        stretch: the number of steps of a stretch; 0 for one stretch.
    """
    store = StoreBuilder(parent, f"{name}_4242_20260101000000123_ascend_ms", framework=TORCH)
    process = store.process()
    thread = process.thread()
    start = 50 * MS
    for number in range(count):
        begin, known = start, sampled(number)
        start = step(thread, number, start, known)
        odd = Flag.STRETCH if stretch and number // stretch % 2 else 0
        thread.step(number, begin, start, flags=(0 if known else Flag.COARSE) | odd)
    process.anchor(start + MS)
    return store.write()


def job(parent, name, sampled, saves="torch.save", steps=STEPS, operators=STEPS, waits=0, noise=None):
    """Write a run whose steps take 2 ms, with a checkpoint of 40 ms in each 50th of them; `sampled` chooses steps.

    `saves` is the name of the span of a checkpoint; without a name, there are no checkpoints.

    Only the first `operators` steps have operators. A checkpoint waits for values for the part `waits` of its time. If
    `noise` is given, it seeds for how long the machine is busy, and how much longer steps take then.
    """
    chance, slower = random.Random(noise), 0

    def step(thread, number, start, known):
        nonlocal slower
        thread.span("forward", Category.FORWARD, start, start + MS)
        if known:
            thread.span("Net", Category.MODULE, start, start + MS)
        if known and number < operators:
            thread.span("aten::mm", Category.OP, start + MS // 10, start + MS)
        start += 2 * MS + (MS // 10 if known else 0)
        if noise is not None:
            slower = chance.choice([0, 1]) if number % 60 == 0 else slower
            start += int(MS * slower * chance.lognormvariate(0, 0.5))
        if saves and number % EVERY == EVERY - 1:
            thread.span(saves, Category.CHECKPOINT, start, start + SAVE * MS)
            if waits:
                thread.span("copy to the host", Category.SYNC, start + MS, start + MS + int(waits * SAVE * MS))
            start += SAVE * MS
        return start

    return written(parent, steps, sampled, step, name, stretch=40)


def summary(path):
    engine.analyse([path])
    return json.loads((path / layout.SUMMARY).read_text())


#: which steps are sampled -> number of checkpoints in them
SAMPLES = {
    "none of those with checkpoints": (lambda number: number < 16 or number % 40 in range(10, 18), 0),
    "some of those with checkpoints": (lambda number: number < 16 or number % 40 in range(22, 30), 2),
    "most of those with checkpoints": (lambda number: number < 16 or (number % 50 >= 44 and number < 350), 7),
}


@pytest.mark.parametrize(("sampled", "known"), SAMPLES.values(), ids=list(SAMPLES))
def test_checkpoints_have_their_share_whichever_steps_were_sampled(tmp_path, sampled, known):
    assert sum(sampled(number) for number in range(EVERY - 1, STEPS, EVERY)) == known
    found = summary(job(tmp_path, "made", sampled))
    recorded = sum(map(sampled, range(1, STEPS)))
    truth = 8 * SAVE / (8 * SAVE + 2 * (STEPS - 1) + 0.1 * recorded)
    assert found["bounds"]["shares"]["checkpoint"] == pytest.approx(truth, rel=0.02)
    assert found["critical_path"]["shares"]["checkpoint"] == pytest.approx(truth, rel=0.02)
    assert found["phases"]["checkpoint"]["steady_share"] == pytest.approx(truth, rel=0.02)
    assert sum(found["bounds"]["shares"].values()) == pytest.approx(1, abs=1e-4)
    assert found["verdict"].startswith(
        f"{truth * 100:.0f} % of the steps' time writes checkpoints, nearly all of it in 8"
    )
    paid = found["cost"]["paired"]
    assert paid is None or paid["per_step_ms"] == pytest.approx(0.1, abs=0.02)


@pytest.mark.parametrize(
    ("name", "does", "what"),
    [
        ("torch.save", "writes checkpoints", "writing checkpoints takes"),
        ("torch.load", "reads checkpoints", "reading checkpoints takes"),
        ("load_checkpoint", "reads checkpoints", "reading checkpoints takes"),
    ],
)
def test_reading_a_checkpoint_is_told_from_writing_one(tmp_path, name, does, what):
    found = summary(job(tmp_path, "made", lambda number: True, name))
    assert does in found["verdict"]
    (advice,) = [item for item in found["advice"] if item["cause"] == "checkpointing"]
    assert advice["evidence"].startswith(what)


@pytest.mark.parametrize(("sampled", "known"), SAMPLES.values(), ids=list(SAMPLES))
def test_more_checkpoints_are_the_cause_of_a_longer_mean_step(tmp_path, sampled, known):
    without = digests(str(job(tmp_path, "without", SAMPLES["none of those with checkpoints"][0], saves="")))
    with_some = digests(str(job(tmp_path, "with", sampled)))
    more = 8 * SAVE / (STEPS - 1)
    assert with_some[0].step.mean_ns - without[0].step.mean_ns == pytest.approx(more * MS, rel=0.05)
    found = basis.causes(without, with_some)
    assert found.mean
    assert [(each.kind, each.change_ns) for each in found.told] == [("checkpoint", pytest.approx(more * MS, rel=0.05))]
    sentence = sheets.verdict(compare(without, with_some, ("without", "with")))
    assert "writing or reading checkpoints (+" in sentence
    assert "sampled" not in sentence


@pytest.mark.slow
def test_more_checkpoints_are_found_on_a_busy_machine(tmp_path):
    sampled, _ = SAMPLES["some of those with checkpoints"]

    def run(name, saves, seed):
        return digests(str(job(tmp_path, f"{name}{seed}", sampled, saves, noise=seed)))

    without, with_some = (
        [run(name, saves, seed) for seed in range(4)] for name, saves in (("no", ""), ("yes", "torch.save"))
    )
    for before, after in zip(without, with_some, strict=True):
        found = basis.causes(before, after)
        assert found.mean
        assert max(found.told, key=lambda each: each.change_ns).kind == "checkpoint"
    for side in (without, with_some):
        assert not any(basis.causes(one, other).mean for one, other in itertools.pairwise(side))


@pytest.mark.parametrize(
    ("what", "category"),
    [("save", Category.CHECKPOINT), ("garbage collection, generation 2", Category.OTHER)],
)
def test_a_large_recording_has_the_parts_of_a_small_one(tmp_path, monkeypatch, what, category):
    """Only the operators of the slowest steps, with checkpoints or collections, and of a few others stay in memory."""

    def step(thread, number, start, known):
        begin = start
        thread.span("forward", Category.FORWARD, start, start + MS)
        thread.span("Net", Category.MODULE, start, start + MS)
        for call in range(20):
            thread.span("aten::add", Category.OP, start + call * MS // 20, start + call * MS // 20 + 2 * US)
        start += 2 * MS
        if number % 10 == 9:
            thread.span(what, category, start, start + 4 * MS)
            start += 4 * MS
        thread.look(start, begin, start - begin)
        return start

    def busy(parent, name):
        return written(parent, 100, lambda number: True, step, name)

    whole = summary(busy(tmp_path, "whole"))
    monkeypatch.setattr(readers_store, "MOST_SLOTS", 100)
    monkeypatch.setattr(slot_table, "BATCH", 32 * 100)
    monkeypatch.setattr(thinning.kept_steps, "__defaults__", (400,))
    thinned = summary(busy(tmp_path, "thinned"))
    assert whole["coverage"]["detailed_steps"] is None
    assert 10 < len(thinned["coverage"]["detailed_steps"]) < 20
    assert thinned["bounds"]["computing_is"] == whole["bounds"]["computing_is"] == "operators or kernels"
    assert thinned["bounds"]["shares"] == pytest.approx(whole["bounds"]["shares"], abs=0.01)
    assert thinned["verdict"].partition(";")[0] == whole["verdict"].partition(";")[0]


def test_waits_inside_of_checkpoints_are_checkpoints_in_all_steps(tmp_path):
    sampled, _ = SAMPLES["some of those with checkpoints"]
    found, without = (summary(job(tmp_path, name, sampled, waits=part)) for name, part in (("waits", 0.9), ("none", 0)))
    assert found["bounds"]["shares"] == without["bounds"]["shares"]
    assert "sync" not in found["bounds"]["shares"]


def test_the_mean_step_has_the_waits_of_steps_without_known_operators(tmp_path):
    """The disk space for operators is used up after 30 steps; later steps still count as sampled."""
    sampled, known = SAMPLES["most of those with checkpoints"]
    path = str(job(tmp_path, "made", sampled, operators=30))
    (made,) = digests(path)
    assert made.step.mean_ns == pytest.approx((2 + 8 * SAVE / (STEPS - 1)) * MS, rel=0.05)
    assert known == 7


def test_chosen_steps_that_were_not_sampled_are_no_wait_for_data(tmp_path):
    path = job(tmp_path, "made", lambda number: number < 16)
    engine.analyse([path], step_list=list(range(100, 110)))
    found = json.loads((path / layout.SUMMARY).read_text())
    assert found["verdict"] == "No step was recorded."
    assert found["bounds"] is None
    assert found["advice"] == []


def test_if_only_waits_were_recorded_the_rest_of_other_steps_is_unknown():
    beside = other_steps.Unsampled(times((1, "data", 100)), 1000 * US, pl.Series([1]))
    found = other_steps.of_phases(times((0, "data", 1000)), beside)
    assert found == pytest.approx({"data": 0.55, "other": 0.45})


def pass_of(thread, start, end, known):
    """Write a forward pass, with its module and its operator if the step is sampled."""
    thread.span("forward", Category.FORWARD, start, end)
    if known:
        thread.span("Net", Category.MODULE, start, end)
        thread.span("aten::mm", Category.OP, start, end)


def test_steps_that_compile_count_neither_as_sampled_nor_as_other_steps(tmp_path):
    def step(thread, number, start, known):
        thread.span("next", Category.DATA, start, start + MS)
        if number % 5 == 4:
            thread.span("compile", Category.COMPILE, start + MS, start + 7 * MS)
            start += 6 * MS
        pass_of(thread, start + MS, start + 2 * MS, known)
        return start + 3 * MS

    found = summary(written(tmp_path, 200, lambda number: number % 20 < 10, step))
    assert found["bounds"]["shares"]["data"] == pytest.approx(1 / 3, abs=0.001)


def test_garbage_collections_count_in_all_steps(tmp_path):
    """Two long collections are in steps that were not sampled, many short ones in all steps."""

    def step(thread, number, start, known):
        thread.span("next", Category.DATA, start, start + MS)
        pass_of(thread, start + MS, start + 3 * MS, known)
        start += 3 * MS
        took = 100 * MS if number in (90, 150) else MS // 10
        thread.span("garbage collection, generation 2", Category.OTHER, start, start + took)
        return start + took

    found = summary(written(tmp_path, 200, lambda number: number % 40 < 8, step))
    truth = (2 * 100 + 198 * 0.1) / (200 * 3 + 2 * 100 + 198 * 0.1)
    assert found["bounds"]["shares"]["garbage collection"] == pytest.approx(truth, rel=0.02)
    assert found["bounds"]["shares"]["data"] == pytest.approx((1 - truth) / 3, rel=0.02)
    assert found["phases"]["data"]["steady_share"] == pytest.approx((1 - truth) / 3, rel=0.02)
    (advice,) = [item for item in found["advice"] if item["cause"] == "gc-pauses"]
    assert advice["evidence"].startswith("19") and " long collections by Python take " in advice["evidence"]
    assert sum(found["bounds"]["shares"].values()) == pytest.approx(1, abs=1e-4)
    assert "is garbage collection by Python, nearly all of it in 2 of 19" in found["verdict"]
    assert found["long_steps"]["collecting_ms"] == pytest.approx(200, rel=0.01)
    (line,) = changes.long(found)
    assert line.endswith("Python collected garbage for 200.0 ms")


@pytest.mark.parametrize("rest", [0, 2])
def test_sampled_steps_that_only_wait_are_no_error(tmp_path, rest):
    def step(thread, number, start, known):
        thread.span("next", Category.DATA, start, start + MS)
        return start + (MS if known else (1 + rest) * MS)

    shares = summary(written(tmp_path, 100, lambda number: number % 10 < 5, step))["bounds"]["shares"]
    assert shares["data"] == pytest.approx(1 / (1 + rest / 2), rel=0.02)


def test_collections_that_computing_hides_do_not_count():
    cut = phases((0, "forward", 0, 1000))
    pieces = cut.select("start_ns", "end_ns", part=pl.lit("computing"))
    every = other_steps.AllSteps({"forward": 1.0}, times(), pl.Series([0, 1]), collecting=0.1, examined=0.1)
    assert other_steps.shares(pieces, "part", cut, every) == {"computing": 1.0}
    # no examined step has a collection
    every = other_steps.AllSteps({"forward": 1.0}, times(), pl.Series([0, 1]), collecting=0.1)
    assert other_steps.shares(pieces, "part", cut, every) == pytest.approx(
        {"computing": 0.9, "garbage collection": 0.1}
    )


def test_waits_that_are_unknown_or_too_small_show_no_work_that_recurs(tmp_path):
    sampled, _ = SAMPLES["some of those with checkpoints"]
    (run,) = digests(str(job(tmp_path, "made", sampled)))
    old = replace(run, step=replace(run.step, wait_blocks=None))
    assert not recurrence.recurs([old], [run], 1e6)
    less = replace(run, step=replace(run.step, wait_blocks={}))
    assert recurrence.recurs([less], [run], 1e6)
    assert not recurrence.recurs([less], [run], -1e6)
    assert not recurrence.recurs([less], [run], 3e6)
