"""In a run with sampled steps, times that were recorded in all steps are exact, and only the others are estimates."""

import io
import json

import polars as pl
import pytest
from ms_profiler.analysis.driver import engine
from ms_profiler.analysis.metrics import long_steps
from ms_profiler.analysis.model import tables
from ms_profiler.analysis.report import changes, steps_line, terminal
from ms_profiler.store import layout
from ms_profiler.store.format import Category, Flag, StepSource
from rich.console import Console
from store_builder import FORWARD, MS, StoreBuilder
from test_shifts import made

STEPS, STRETCH, BURST = 160, 40, 8
#: steps that write a checkpoint of 5 ms; none of them is sampled
WRITING = (79, 119, 159)


def sampled(number):
    """Return whether a step is sampled: all of the first stretch, and a burst in each of the others."""
    return number < STRETCH or STRETCH // 4 <= number % STRETCH < STRETCH // 4 + BURST


def analysed(parent, source, fill, before=lambda thread, number, at: at):
    """Analyse a run with sampled steps, and return its summary.

    Args:
        parent: the directory for the result.
        source: the source of the steps.
        fill: a function that adds the spans of a step from its number and begin, and returns the end of the step.
        before: a function that adds the spans before a step, and returns the begin of the step; called after the last
            step, too.
    """
    store = StoreBuilder(parent, framework={"name": "torch", "version": "2.13.0", "mode": "eager", "device": "CPU"})
    process = store.process()
    thread = process.thread()
    at, kernels, windows, opened = 50 * MS, [], 0, 0
    for number in range(STEPS):
        if sampled(number) and not kernels:
            opened = at
        at = before(thread, number, at)
        end = fill(thread, number, at)
        flags = int(Flag.STRETCH) * (number // STRETCH % 2)
        thread.step(number, at, end, source, flags | (0 if sampled(number) else int(Flag.COARSE)))
        if sampled(number):
            kernels.append((FORWARD, at + MS, 2 * MS, ""))
            if not sampled(number + 1) or number + 1 == STEPS:
                thread.window(windows, opened, end, kernels)
                windows, kernels = windows + 1, []
        at = end
    at = before(thread, STEPS, at)
    process.anchor(at + MS)
    path = store.write()
    engine.analyse([path])
    return json.loads((path / layout.SUMMARY).read_text())


def told(summary):
    """Return phase -> its time in ms and whether it is an estimate; check that the times add up to the steps' time."""
    (steps,) = (part for part in summary["whole_run"][0]["parts"] if part["part"] == "steps")
    assert sum(steps["contains_ms"].values()) == pytest.approx(steps["total_ns"] / 1e6)
    known = summary["phases"]
    assert all(phase["total_ms"] == steps["contains_ms"][name] for name, phase in known.items())
    errors = {name for name, phase in known.items() if phase["total_ms_error"] is not None}
    assert errors <= {name for name, phase in known.items() if phase["scaled"]}
    return {name: (time, known.get(name, {}).get("scaled", False)) for name, time in steps["contains_ms"].items()}


def checkpoint(thread, number, at):
    """Add the checkpoint of a step, and return its end."""
    if number not in WRITING:
        return at
    thread.span("save", Category.CHECKPOINT, at, at + 5 * MS)
    return at + 5 * MS


def test_only_what_modules_tell_is_estimated_while_hooks_are_there(tmp_path):
    """A module runs for 1 ms of each step outside of the forward pass, which is known only in sampled steps."""

    def fill(thread, number, at):
        if number == 0:
            thread.span("compile", Category.COMPILE, at, at + 200 * MS)
            at += 200 * MS
        thread.span("forward", Category.FORWARD, at, at + 2 * MS)
        if sampled(number):
            thread.span("Net", Category.MODULE, at + 2 * MS, at + 3 * MS)
        return checkpoint(thread, number, at + 6 * MS)

    summary = analysed(tmp_path, StepSource.DATASET, fill)
    assert summary["sampling"]["sampled"] == STRETCH + 3 * BURST
    found = told(summary)
    assert found["compile"] == (summary["compile"]["total_ms"], False) == (200.0, False)
    assert found["checkpoint"] == (len(WRITING) * 5.0, False)
    assert found["forward"] == (pytest.approx(STEPS * 3), True)
    assert found["other"] == (pytest.approx(STEPS * 3), True)
    kernels = summary["kernels"]
    assert kernels["by_part_ms"] == {"forward": pytest.approx(STEPS * 2)}
    assert kernels["by_part_per_step_ms"] == {"forward": 2.0}, "an average over the steps whose kernels were recorded"


def test_nothing_is_estimated_where_all_phases_are_recorded(tmp_path):
    def fill(thread, number, at):
        length = (4 if sampled(number) else 2) * MS
        thread.span("forward", Category.FORWARD, at, at + length)
        return checkpoint(thread, number, at + 6 * MS)

    count = STRETCH + 3 * BURST
    assert told(analysed(tmp_path, StepSource.DATASET, fill)) == {
        "forward": (count * 4.0 + (STEPS - count) * 2.0, False),
        "other": (count * 2.0 + (STEPS - count) * 4.0, False),
        "checkpoint": (15.0, False),
    }


#: number of calls of the network in an evaluation
CALLS = 3


def evaluating(chosen, ms=lambda number: 4, kept=sampled, share=lambda number: 1, data=0):
    """Return a function that adds an evaluation before the chosen steps, for `analysed`.

    Args:
        chosen: a function that returns whether an evaluation comes before a step.
        ms: a function that returns the length of each call of the network, in ms.
        kept: a function that returns whether the evaluation before a step is recorded.
        share: a function that returns the share of the network's module in each call.
        data: the length of a wait for data before each call, in ms; a module fills it.
    """

    def before(thread, number, at):
        for _ in range(CALLS if chosen(number) else 0):
            ready = at + data * MS
            end = ready + ms(number) * MS
            thread.span("forward", Category.FORWARD, ready, end)
            if data:
                thread.span("loader", Category.DATA, at, ready)
            if kept(number):
                thread.span("Net", Category.MODULE, ready, ready + round(ms(number) * share(number) * MS))
                if data:
                    thread.span("Collate", Category.MODULE, at, ready)
            at = end
        return at

    return before


def plain(thread, number, at):
    """Add a step with one call of the network, and return its end."""
    thread.span("forward", Category.FORWARD, at, at + 3 * MS)
    if sampled(number):
        thread.span("Net", Category.MODULE, at, at + 3 * MS)
    return at + 6 * MS


def net(summary, name="Net"):
    """Return the totals of the network, or of another module."""
    (found,) = (row for row in summary["modules"] if row["name"] == name)
    return found


@pytest.mark.parametrize("last", [False, True])
def test_evaluations_between_steps_are_part_of_the_totals(tmp_path, last):
    """There is an evaluation after the last step, too, and its modules may have been recorded."""

    def kept(number):
        return last if number == STEPS else sampled(number)

    before = evaluating(lambda number: number % 8 == 0, kept=kept)
    summary = analysed(tmp_path, StepSource.SCRIPT, plain, before)
    count = STEPS // 8 + 1
    some = sum(sampled(number) for number in range(0, STEPS, 8)) - 1 + last  # the first one is before all steps
    between = summary["sampling"]["calls_between_steps"]
    assert (between["gaps"], between["recorded"]) == (count - 1, some)
    found = net(summary)
    assert (found["count"], found["count_error"]) == (STEPS + CALLS * count, 0)
    assert found["total_ms"] == pytest.approx(STEPS * 3 + CALLS * count * 4)
    assert found["total_ms_error"] == 0


def test_evaluations_of_different_lengths_give_an_error(tmp_path):
    def length(number):
        return 3 + number % 5

    def share(number):
        return 0.5 + number % 3 / 10

    before = evaluating(lambda number: number > 0 and number % 4 == 0, length, share=share)
    summary = analysed(tmp_path, StepSource.SCRIPT, plain, before)
    known = net(summary)
    true = STEPS * 3 + sum(CALLS * length(number) * share(number) for number in range(4, STEPS + 1, 4))
    assert 0 < known["total_ms_error"] < 0.1 * true
    assert abs(known["total_ms"] - true) < 2 * known["total_ms_error"]


def test_evaluations_recorded_only_while_the_machine_was_slow_do_not_stand_for_the_fast_ones(tmp_path):
    """Only the first four evaluations are recorded, and they took 20 times as long as the others."""
    evaluations = [number for number in range(STEPS) if number % 10 == 9]
    assert [number for number in evaluations if sampled(number)] == evaluations[:4]

    def length(number):
        return 80 if number < STRETCH else 4

    def share(number):
        return (0.86 if number < STRETCH else 0.8) + number % 4 / 100

    before = evaluating(lambda number: number in evaluations, length, share=share, data=2)
    summary = analysed(tmp_path, StepSource.SCRIPT, plain, before)
    between = summary["sampling"]["calls_between_steps"]
    assert (between["gaps"], between["recorded"]) == (len(evaluations), 4)
    found, true = net(summary), STEPS * 3 + sum(CALLS * length(number) * share(number) for number in evaluations)
    assert found["count"] == STEPS + CALLS * len(evaluations)
    assert found["total_ms"] == pytest.approx(true, rel=0.02)
    assert 0 < abs(found["total_ms"] - true) < 2 * found["total_ms_error"] < 0.05 * true
    assert found["total_ms"] < STEPS * 3 + sum(CALLS * length(number) for number in evaluations)
    other = net(summary, "Collate")
    assert (other["count"], other["total_ms"]) == (CALLS * len(evaluations), 2 * CALLS * len(evaluations))


def test_evaluations_of_which_none_was_sampled_are_not_in_the_totals_and_the_summary_says_so(tmp_path):
    summary = analysed(tmp_path, StepSource.SCRIPT, plain, evaluating(lambda number: number in (78, 118)))
    between = summary["sampling"]["calls_between_steps"]
    assert (between["gaps"], between["recorded"]) == (2, 0)
    assert net(summary)["count"] == STEPS
    words = "they lack the calls of networks between steps, because none was sampled"
    assert words in steps_line.line(summary)
    share = between["share"]
    assert 0.01 < share < 1
    for change in ({"recorded": 1}, {"share": 0.001}):
        summary["sampling"]["calls_between_steps"] = between | change
        assert words not in steps_line.line(summary)


def test_a_burst_that_is_unlike_the_steps_that_it_stands_for_is_corrected_and_has_a_large_error(tmp_path):
    """From a step after the last burst on, everything takes twice as long."""

    def slower(thread, number, at):
        length = 2 if number >= STEPS - STRETCH + STRETCH // 4 + BURST else 1
        thread.span("forward", Category.FORWARD, at, at + 3 * length * MS)
        if sampled(number):
            thread.span("Net", Category.MODULE, at, at + 3 * length * MS)
        return at + 6 * length * MS

    found = net(analysed(tmp_path, StepSource.SCRIPT, slower))
    late = STRETCH - STRETCH // 4 - BURST
    assert found["total_ms"] == pytest.approx((STEPS + late) * 3, rel=1e-3)
    assert found["total_ms_error"] >= late * 3
    assert (found["count"], found["count_error"]) == (STEPS, 0)


#: a step that was not sampled sleeps for this time
LONG, SLEEP = 100, 2_000 * MS


def sleeping(thread, number, at):
    """Let the thread sleep in one step, and return the end of the sleep."""
    return at + SLEEP if number == LONG else at


def test_a_long_step_that_was_not_sampled_is_told_and_its_time_is_not_divided(tmp_path):
    def fill(thread, number, at):
        thread.span("forward", Category.FORWARD, at, at + 2 * MS)
        if sampled(number):
            thread.span("Net", Category.MODULE, at + 2 * MS, at + 3 * MS)
        return sleeping(thread, number, at + 6 * MS)

    summary = analysed(tmp_path, StepSource.DATASET, fill)
    found = told(summary)
    assert found["forward"] == (pytest.approx(STEPS * 3 - 1), True)
    assert found["other"] == (pytest.approx(STEPS * 3 + 1 + SLEEP / MS), True)
    long = summary["long_steps"]
    assert (long["count"], long["steps"]) == (1, [{"number": LONG, "ms": 2_006.0}])
    assert long["contains_ms"] == {"other": 2_004.0, "forward": 2.0}
    (line,) = changes.long(summary)
    assert line.startswith(f"Step {LONG} (2.01 s) took 68 % of the time of all steps, but was not sampled")
    assert line.endswith("2.00 s lie outside of the recorded phases")
    out = io.StringIO()
    terminal.show(summary, "DIR", Console(file=out, width=200))
    assert out.getvalue().splitlines()[1] == line
    (row,) = (line for line in out.getvalue().splitlines() if line.startswith("  steps "))
    assert row.split("  ")[-1].strip().startswith("other 2.48 s, forward ")


def test_a_long_step_without_hooks_is_not_recorded_and_not_divided(tmp_path):
    def fill(thread, number, at):
        if sampled(number):
            thread.span("Net", Category.FORWARD, at, at + 2 * MS)
            thread.span("SGD.step", Category.OPTIMIZER, at + 2 * MS, at + 4 * MS)
        return sleeping(thread, number, at + 6 * MS)

    found = told(analysed(tmp_path, StepSource.OPTIMIZER_CYCLE, fill))
    assert found["not recorded"] == (SLEEP / MS + 6, False)
    assert found["forward"] == (pytest.approx(STEPS * 2 - 2), True)


def test_sampled_or_usual_steps_are_not_told_as_long(tmp_path):
    def fill(thread, number, at):
        thread.span("forward", Category.FORWARD, at, at + 2 * MS)
        return at + (900 if number == 10 else 12 if number % 20 == 19 else 6) * MS

    assert analysed(tmp_path, StepSource.DATASET, fill)["long_steps"] is None


def test_the_sleep_in_a_long_step_is_told():
    looks = pl.DataFrame(
        {"time_ns": [6 * MS, 7 * MS, 207 * MS], "before_ns": [6 * MS, 7 * MS, 7 * MS], "ran_ns": [0, MS, 2 * MS]}
    ).with_columns(process=pl.lit(1), thread=pl.lit(1), waited_ns=pl.lit(0))
    steps = made([MS] * 7 + [203 * MS] + [MS] * 12, lambda number: number < 4)
    found = long_steps.summary(steps, pl.DataFrame(schema=tables.SPANS), looks, pl.Series(["save"]))
    assert (found["steps"], found["asleep_ms"]) == ([{"number": 7, "ms": 203.0}], 200.0)
    assert changes.long({"long_steps": found})[0].endswith("; the stepping thread was asleep or blocked for 200.0 ms")


def test_passes_are_estimated_while_their_hooks_are_away(tmp_path):
    def fill(thread, number, at):
        if sampled(number):
            thread.span("Net", Category.FORWARD, at, at + 2 * MS)
            thread.span("backward", Category.BACKWARD, at + 2 * MS, at + 6 * MS)
            thread.span("SGD.step", Category.OPTIMIZER, at + 6 * MS, at + 7 * MS)
        thread.span("aten::item", Category.SYNC, at + 8 * MS, at + 9 * MS)
        return checkpoint(thread, number, at + 10 * MS)

    assert told(analysed(tmp_path, StepSource.OPTIMIZER_CYCLE, fill)) == {
        "backward": (pytest.approx(STEPS * 4), True),
        "forward": (pytest.approx(STEPS * 2), True),
        "other": (pytest.approx(STEPS * 2), True),
        "optimizer": (pytest.approx(STEPS * 1), True),
        "sync": (STEPS * 1.0, False),
        "checkpoint": (15.0, False),
    }
