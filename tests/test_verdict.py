from types import SimpleNamespace

import polars as pl
import pytest
from ms_profiler.analysis.metrics import verdict
from ms_profiler.analysis.metrics.scheduling import Crowd
from ms_profiler.store.format import StepSource


def shares(**steady):
    names = {"compute": "compute (graph)"}
    return pl.DataFrame(
        {
            "phase": [names.get(name, name) for name in steady],
            "share": list(steady.values()),
            "steady_share": list(steady.values()),
        },
        schema={"phase": pl.String, "share": pl.Float64, "steady_share": pl.Float64},
    )


def found(parts, table, source=StepSource.SCRIPT, steps=20, **more):
    places = (more.pop("within", {}), more.pop("few", {}), more.pop("outside", 0.0), more.pop("causes", {}))
    return verdict.finding(parts, verdict.Places(*places), table, source, steps, **more)


@pytest.mark.parametrize(
    ("parts", "table", "options", "expected"),
    [
        ({"data": 0.63, "computing": 0.37}, shares(data=0.63, backward=0.37), {}, "63 % of the step waits for data."),
        (
            {"blocked": 0.63, "computing": 0.37},
            shares(backward=0.37),
            {"few": {"blocked": "5 of 100 steps", "computing": "2 of 100 steps"}},
            "63 % of the steps' time is spent asleep or blocked, nearly all of it in 5 of 100 steps.",
        ),
        ({"data": 0.25, "computing": 0.75}, shares(data=0.25, backward=0.75), {}, "25 % of the step waits for data."),
        (
            {"data": 0.1, "computing": 0.9},
            shares(data=0.1, backward=0.48, forward=0.42),
            {},
            "The steps are mostly backward (48 %) and forward (42 %).",
        ),
        (
            {"computing": 1.0},
            shares(backward=0.33, optimizer=0.31, forward=0.29, other=0.07),
            {},
            "The steps are mostly backward (33 %), optimizer (31 %) and forward (29 %).",
        ),
        (
            {"computing": 1.0},
            shares(backward=0.16, optimizer=0.15, forward=0.12, other=0.15),
            {},
            "The largest parts of the steps are backward (16 %) and optimizer (15 %).",
        ),
        (
            {"computing": 1.0},
            shares(backward=0.45, optimizer=0.31, forward=0.2, other=0.04),
            {},
            "The steps are dominated by backward (45 %).",
        ),
        (
            # while the host is in the optimizer, the device computes work that was queued before
            {"computing": 0.9, "data": 0.1},
            shares(optimizer=0.56, forward=0.3, data=0.1),
            {"queued": {"forward": 0.24, "backward": 0.75, "optimizer": 0.01}},
            "The steps are dominated by backward (75 % of the time of kernels).",
        ),
        (
            # the host reads a value, and waits until the kernels before it have run
            {"computing": 0.6, "launch": 0.2, "host": 0.2},
            shares(sync=0.4, forward=0.35, backward=0.2),
            {"queued": {"forward": 0.7, "backward": 0.3}},
            "The steps are dominated by forward (70 % of the time of kernels).",
        ),
        (
            {"computing": 0.35, "launch": 0.3, "host": 0.2, "runnable": 0.15},
            shares(forward=0.5, backward=0.12),
            {"queued": {"forward": 0.24, "backward": 0.56, "optimizer": 0.2}},
            "35 % of the step is spent computing, and backward has 56 % of the time of kernels.",
        ),
        (
            # the kernels belong to a compiled graph, which is one phase
            {"computing": 0.9, "data": 0.1},
            shares(compute=0.9, data=0.1),
            {"queued": {"forward": 0.24, "backward": 0.75, "optimizer": 0.01}},
            "The steps are dominated by compute (graph) (90 %).",
        ),
        (
            {"computing": 0.9, "unknown": 0.1},
            shares(compute=0.9, other=0.1),
            {},
            "The steps are dominated by compute (graph) (90 %).",
        ),
        (
            {"communication": 0.3, "computing": 0.7},
            shares(backward=1.0),
            {"within": {"communication": "backward"}},
            "30 % of the step is communication that does not overlap with computing, most of it in backward.",
        ),
        ({"checkpoint": 0.5}, shares(checkpoint=0.5), {"within": {"checkpoint": "checkpoint"}}, "50 % of the step wri"),
        (
            {"unknown": 0.9, "data": 0.1},
            shares(data=0.1, other=0.9),
            {},
            "90 % of the step is in code that ms-profiler",
        ),
        ({"host": 0.9, "launch": 0.1}, shares(other=1.0), {}, "90 % of the step is other code of the script."),
        ({"garbage collection": 0.92}, shares(other=1.0), {}, "92 % of the step is garbage collection by Python."),
        (
            {"blocked": 0.5},
            shares(other=1.0),
            {"within": {"blocked": "other"}},
            "50 % of the step is spent asleep or b",
        ),
        (
            # the script writes a log: it makes text, and waits for the disk
            {"runnable": 0.0, "blocked": 0.25, "host": 0.66},
            shares(other=1.0),
            {},
            "66 % of the step is other code of the script.",
        ),
        ({"runnable": 0.5}, shares(forward=1.0), {}, "50 % of the step waits for a processor."),
        ({"launch": 0.7, "computing": 0.3}, shares(forward=1.0), {}, "70 % of the step goes into launching operators."),
        (
            # of the 80 % of computing, 75 are outside of the model
            {"computing": 0.8},
            shares(other=0.9, forward=0.1),
            {"within": {"computing": "other"}, "outside": 0.75},
            "75 % of the step is computing outside of the model.",
        ),
        (
            {"computing": 0.5, "launch": 0.4},
            shares(other=0.5, backward=0.3, forward=0.2),
            {},
            "50 % of the step is outside of the model.",
        ),
        ({"sync": 0.5}, shares(sync=0.5), {}, "50 % of the step waits for values of tensors."),
        ({"sync": 0.5}, shares(sync=0.5), {"device": True}, "50 % of the step waits for the device."),
        ({"unknown": 1.0}, shares(other=1.0), {}, "Nothing inside the steps was recorded."),
        ({}, shares(), {"steps": 0}, "No step was recorded."),
        ({"host": 1.0}, shares(other=1.0), {"source": StepSource.WHOLE_RUN, "steps": 1}, "No step was recorded."),
        (
            {"data": 0.4, "host": 0.6},
            shares(data=0.4, other=0.6),
            {"source": StepSource.WHOLE_RUN},
            "40 % of the run waits for data.",
        ),
        # on a busy machine, waits for a processor are everywhere, and the place of most of the time is known
        (
            {"runnable": 0.42, "computing": 0.36, "host": 0.08},
            shares(backward=0.2, forward=0.25, other=0.55),
            {},
            "55 % of the step is outside of the model; 42 % of the step waits for a processor.",
        ),
        (
            {"runnable": 0.4, "blocked": 0.31, "host": 0.18},
            shares(backward=0.12, other=0.88),
            {"within": {"blocked": "other"}},
            "88 % of the step is outside of the model; 31 % of the step is spent asleep or blocked.",
        ),
        (
            {"runnable": 0.4, "blocked": 0.31, "host": 0.18},
            shares(backward=0.4, other=0.6),
            {"within": {"blocked": "backward"}},
            "31 % of the step is spent asleep or blocked, most of it in backward.",
        ),
        (
            {"runnable": 0.45, "computing": 0.35},
            shares(backward=0.5, other=0.5),
            {},
            "45 % of the step waits for a processor.",
        ),
    ],
)
def test_the_biggest_finding(parts, table, options, expected):
    assert found(parts, table, **options).sentence.startswith(expected)


def test_finding_is_readable_by_programs():
    finding = found({"data": 0.63, "host": 0.37}, shares(data=0.63, other=0.37))
    assert (finding.kind, finding.share) == ("data", 0.63)


def kernels(*rows):
    return pl.DataFrame(rows, schema={"name": pl.String, "ratio": pl.Float64}, orient="row")


@pytest.mark.parametrize(
    ("parts", "table", "types", "expected"),
    [
        (
            {"computing": 0.9},
            shares(compute=0.9),
            [("Conv2D", 0.61), ("Add", 0.39)],
            "; 61 % of the kernel time is Conv2D.",
        ),
        ({"computing": 0.9}, shares(compute=0.9), [("Conv2D", 0.19)], "(90 %)."),
        ({"computing": 0.9}, shares(compute=0.9), [], "(90 %)."),
        ({"data": 0.5}, shares(data=0.5, compute=0.5), [("Conv2D", 0.61)], "waits for data."),
        ({"unknown": 0.9}, shares(other=0.9, compute=0.1), [("Conv2D", 0.61)], "not measure."),
    ],
)
def test_the_largest_kernel_type_is_named_when_the_model_is_computed(parts, table, types, expected):
    assert found(parts, table, kernels=kernels(*types)).sentence.endswith(expected)


def test_kernels_do_not_explain_the_time_of_launching():
    assert verdict.launches("launch", "kernels") and verdict.launches("free", "kernels")
    assert not verdict.launches("launch", "host") and not verdict.launches("launch", None)
    assert not verdict.launches("computing", "kernels")


def test_a_module_with_a_share_of_kernels_is_not_named_beside_work_of_the_host():
    assert verdict.least_of_module("forward", of_steps=False) == 0.05
    assert verdict.least_of_module("blocked", of_steps=True) == 0.5
    assert verdict.least_of_module("blocked", of_steps=False) > 1
    assert verdict.least_of_module("optimizer", of_steps=True) == 0.05, "an optimizer or a scheduler is named"
    assert verdict.least_of_module("optimizer", of_steps=False) > 1


@pytest.mark.parametrize(("waits", "device", "alone"), [(0.4, None, True), (0.75, None, False), (0.75, True, True)])
def test_waits_for_a_processor_that_take_most_of_the_time_are_told_beside_the_heaviest_module(waits, device, alone):
    crowd, on_device = Crowd(0.5, waits, waits), device and SimpleNamespace(on_host=False)
    found = verdict.with_waits("net takes 24 % of the kernel time", crowd, on_device)
    assert found.startswith("net takes 24 % of the kernel time")
    assert ("waited for a processor in 75 % of the time in which they needed one" in found) is not alone
    assert verdict.with_waits("", crowd, on_device) == ""


def test_a_part_of_few_steps_is_told_from_one_of_most_steps():
    rows = [("blocked", step, 100 if step in (3, 13) else 1) for step in range(20)]
    rows += [("computing", step, 10) for step in range(20)]
    table = pl.DataFrame(rows, schema=["part", "step", "end_ns"], orient="row").with_columns(start_ns=0)
    assert verdict.few(table) == {"blocked": "2 of 20 steps"}
