"""`ms-profiler compare A B` prints the figures of both sides, the differences and the causes.

Some tests compare made-up digests, others real jobs.
"""

import io
import itertools
import json
import os
import random
import re
from dataclasses import fields, replace
from pathlib import Path
from statistics import median

import jsonschema
import pytest
from compared_run import compared_run
from conftest import PROGRAMS, ROOT, launcher
from ms_profiler.analysis.comparison import basis, causes, comparing, evidence, matching, recurrence, repeats, runs
from ms_profiler.analysis.comparison.digest import (
    VERSION,
    Average,
    Cell,
    Completeness,
    Count,
    DataWait,
    Digest,
    Fingerprint,
    Memory,
    Module,
    Named,
)
from ms_profiler.analysis.comparison.step_time import StepTime
from ms_profiler.analysis.report import differences, sheets
from ms_profiler.errors import NotComparableError
from rich.console import Console
from test_cli import run

SCHEMA = json.loads((ROOT / "agent/ms_profiler/analysis/comparison/compare.schema.json").read_text())
MS = 10**6
PROGRAM = PROGRAMS / "compared.py"


def made(cells, *, modules=(), counts=None, step=None, durations=(), source="run", device="CPU", **more):
    """Return the digest of a made-up run whose steps consist of the given parts.

    Args:
        cells: (part, module, what) -> milliseconds a step.
        modules: the path, or (path, class), of each module of the network.
    """
    known = tuple(
        Cell(part, "forward" if module else "other", module, "forward" if module else "", what, "", round(ms * MS))
        for (part, module, what), ms in cells.items()
    )
    summed = sum(cell.ns for cell in known)
    paths = dict(path if isinstance(path, tuple) else (path, "") for path in modules)
    for cell in known:
        parts = cell.module.split(".") if cell.module else []
        for depth in range(len(parts)):
            paths.setdefault(".".join(parts[: depth + 1]), "")
    tree = tuple(
        Module(path, kind, order, 1.0, ns, 0, 0, ns, ns)
        for order, (path, kind) in enumerate(paths.items())
        for ns in [sum(cell.ns for cell in known if f"{cell.module}.".startswith(f"{path}."))]
    )
    median = summed if step is None else round(step * MS)
    return Digest(
        version=VERSION,
        source=source,
        started_ns=0,
        step=StepTime(median, 10 * median, tuple(durations) or (median,) * 10, 10, 11, "optimizer_cycle"),
        told_ns=summed,
        phases={"forward": summed},
        bounds={},
        cells=known,
        modules=tree,
        modules_of="host",
        operators=tuple(Named(cell.what, "", 1.0, cell.ns) for cell in known if cell.what),
        kernels=(),
        counts={name: Count(value, value, value) for name, value in (counts or {}).items()},
        waits=(),
        slow_transform="",
        memory=Memory(10**8, None, None),
        advice=(),
        completeness=Completeness(1, (0,), 0, 0, ("exit",)),
        fingerprint=Fingerprint("cpu", 2, device, "host", "3.11", "torch 2", "0", "eager", 1, 1, (), len(tree), {}),
        **more,
    )


def network(**changed):
    """Return the cells of a network of eight layers, an optimizer and an input; `changed` has other times in ms."""
    times = {f"net.layers.{number}": 10.0 for number in range(8)} | {"Adam": 10.0}
    cells = {("computing", path, f"op of {path}"): changed.get(path, ms) for path, ms in times.items()}
    return cells | {("data", "", "wait"): changed.get("data", 1.0), ("launch", "", ""): changed.get("loop", 2.0)}


def causes_named(found):
    return [(each.kind, each.module or each.name, each.change_ns / MS) for each in found.told]


@pytest.mark.parametrize(
    ("before", "after", "changed"),
    [
        (Count(105, 60, 150), Count(102, 63, 150), False),  # kernels near the end of a step count in the next one
        (Count(105, 105, 105), Count(105, 105, 105), False),
        (Count(105, 105, 105), Count(102, 60, 150), True),
        (Count(105, 100, 110), Count(120, 115, 125), True),
    ],
)
def test_a_count_that_varies_from_step_to_step_has_not_changed_within_what_it_varies(before, after, changed):
    assert before.changed(after) == changed


def test_the_same_twice_is_nothing_remarkable():
    found = basis.causes([made(network())], [made(network())])
    assert (found.change_ns, found.remarkable, found.told) == (0, False, [])


def test_one_layer_is_named_alone():
    found = basis.causes([made(network())], [made(network(**{"net.layers.3": 22.0}))])
    assert found.remarkable
    assert causes_named(found) == [("module", "net.layers.3", 12.0)]
    assert found.told[0].share == 1.0


def test_data_is_named_alone():
    found = basis.causes([made(network())], [made(network(data=12.8))])
    assert causes_named(found) == [("data", "waiting for data", pytest.approx(11.8))]


def test_a_slower_machine_is_no_module():
    """All parts take 1.5 times as long, and one layer three times. The factor is one cause, the layer another."""
    slower = {key: ms * 1.5 for key, ms in network(**{"net.layers.3": 20.0}).items()}
    found = basis.causes([made(network())], [made(slower)])
    assert found.factor == pytest.approx(1.5)
    assert causes_named(found) == [
        ("alike", "everything alike, by a factor of 1.50", 46.0),
        ("module", "net.layers.3", 15.0),
    ]


def test_a_factor_of_a_run_with_few_varying_steps_has_a_range():
    """A run of 20 steps gets 1.46 times as long, of which the machine may be a part: its blocks vary by 11 %."""
    cells = {key: ms * 1.46 for key, ms in network().items()}
    varying = [round(ms * MS * 1.46) for ms in (83, 84, 83, 85, 93, 94, 93, 94, 104, 103, 104, 103, 93, 92, 93, 94)]
    found = basis.causes([made(network())], [made(cells, durations=varying)])
    (name,) = [each.name for each in found.told if each.kind == "alike"]
    assert name == "everything alike, by a factor of 1.32 to 1.62" and found.remarkable


def test_waits_for_a_processor_are_no_change_of_the_modules():
    """On a busy machine, waits make each part twice as long. In one case, a layer works three times as long."""
    parts = [f"net.layers.{number}" for number in range(8)] + ["Adam"]
    twice = dict.fromkeys(parts, 20.0)

    def run(waits, **changed):
        found = made(network(**changed))
        return replace(found, step=replace(found.step, queued_ns=waits * MS))

    assert basis.causes([run(0)], [run(0)]).told == []
    (cause,) = causes_named(basis.causes([run(0)], [run(90, **twice)]))
    assert cause == ("runnable", "waiting for a processor", 90)
    found = causes_named(basis.causes([run(0)], [run(110, **twice | {"net.layers.3": 60.0})]))
    assert found == [("runnable", "waiting for a processor", 110), ("module", "net.layers.3", 20)]


def compiled(**changed):
    """Return the cells of a step whose network is compiled, so it is one module; `changed` has other times in ms."""
    times = {"CNN": 13.3, "Adam": 2.8, "other": 0.81, "backward": 0.39, "loss": 0.22, "zero_grad": 0.18, "run": 0.16}
    return {("computing", path, f"op of {path}"): changed.get(path, ms) for path, ms in times.items()}


def test_parts_that_do_not_agree_on_a_factor_have_none():
    """The small parts vary as those of equal runs do. The network, which is compiled, is one module."""
    grown = compiled(CNN=24.9, Adam=31.3, other=0.78, backward=0.52, loss=0.18, zero_grad=0.22, run=0.17)
    found = basis.causes([made(compiled())], [made(grown)])
    assert found.factor == 1
    assert causes_named(found) == [("module", "Adam", 28.5), ("module", "CNN", 11.6)]
    again = basis.causes([made(grown)], [made(compiled())])
    assert causes_named(again) == [("module", "Adam", -28.5), ("module", "CNN", -11.6)]


def test_small_parts_alone_have_no_common_factor():
    """Most parts agree on a factor of 1.3, but they have a tenth of the time."""
    small = {"other": 1.05, "backward": 0.51, "loss": 0.29, "zero_grad": 0.234, "run": 0.208}
    found = basis.causes([made(compiled())], [made(compiled(CNN=24.9, **small))])
    assert (found.factor, causes_named(found)) == (1, [("module", "CNN", 11.6)])


def test_parts_of_a_slower_machine_agree_on_a_factor_though_they_vary():
    chance = random.Random(3)
    before = network() | {("computing", f"net.small.{number}", "op"): 1.0 for number in range(10)}
    after = {key: ms * 1.4 * chance.gauss(1, 0.05) for key, ms in before.items()}
    found = basis.causes([made(before)], [made(after)])
    assert found.factor == pytest.approx(1.4, abs=0.05)
    assert [kind for kind, *_ in causes_named(found)] == ["alike"]


@pytest.mark.parametrize(
    ("before", "after", "steps", "told"),
    [
        (34.974, 34.986, 38, False),  # a call near the end of a step is lost
        (0.974, 1.0, 38, False),
        (29.174, 28.547, 46, False),  # another share of the recorded steps writes a checkpoint
        (140.0, 141.0, 38, True),
        (139.974, 140.986, 38, True),
        (1.0, 1.2, 50, True),  # each fifth step has one more
        (0.0, 0.2, 50, True),
        (8.0, 48.0, 12, True),
        (1.0, 2.0, 1, True),
    ],
)
def test_the_number_of_calls_is_a_reason_only_if_it_changed(before, after, steps, told):
    def counted(calls, ms):
        run = made({("computing", "Adam", "aten::item"): ms})
        step = replace(run.step, count=steps)
        return replace(run, step=step, operators=(Named("aten::item", "", calls, ms * MS),))

    found = basis.causes([counted(before, 10)], [counted(after, 20)])
    assert ("a step" in found.told[0].evidence) is told


def test_slower_layers_are_reported_as_their_module():
    cells = {("computing", f"net.{part}.{number}", "mm"): 10.0 for part in ("first", "second") for number in range(4)}
    slower = cells | {("computing", f"net.second.{number}", "mm"): 14.0 for number in range(3)}
    found = basis.causes([made(cells)], [made(slower)])
    assert causes_named(found) == [("module", "net.second", 12.0)]


def test_contributors_add_up_to_the_nanosecond():
    before = made(network(), step=94.2)
    for factor in (0.71, 1.0, 1.013, 1.37):
        cells = {key: ms * factor for key, ms in network(data=3.3, **{"net.layers.5": 17.7}).items()}
        after = made(cells, step=sum(cells.values()) * 1.01)
        found = basis.causes([before], [after])
        assert sum(each.change_ns for each in found.contributors) == found.change_ns
        assert sum(each.before_ns or 0 for each in found.contributors) == found.before_ns
        assert sum(each.after_ns or 0 for each in found.contributors) == found.after_ns
        assert {each.kind for each in found.contributors if each.before_ns is None} <= {causes.ALIKE}
        assert [each.kind for each in found.contributors[-2:]] == ["small differences", "unexplained"]
        assert after.step.median_ns - before.step.median_ns == found.change_ns


def test_several_runs_a_side():
    """The step time of several runs is their median, so that a disturbed run hardly changes it."""
    calm = [made(network(data=data)) for data in (1.0, 1.1, 0.9, 1.0)]
    found = basis.causes([*calm, made(network(data=90.0))], calm)
    assert abs(found.change_ns) < MS
    assert repeats.spread(calm) == pytest.approx(0.1 / 93, abs=1e-4)


def test_a_change_within_the_variation_is_not_remarkable():
    noisy = made(network(), durations=[80 * MS, 110 * MS] * 5)
    wild = made(network(), durations=[70 * MS] * 5 + [110 * MS] * 5)
    later = made(network(loop=9.0))
    assert basis.causes([wild], [later]).remarkable is False
    assert basis.causes([noisy], [later]).remarkable is True


def matched(before, after):
    return {
        each.before: (each.after, each.how)
        for each in matching.match(made({}, modules=before), made({}, modules=after))
    }


def test_modules_of_one_name_are_the_same():
    assert matched(["net", "net.a"], ["net", "net.a"]) == {"net": ("net", "name"), "net.a": ("net.a", "name")}


def test_a_renamed_module_is_matched_by_its_structure():
    before = ["net", "net.enc", "net.enc.up", "net.enc.down", "net.dec", "net.dec.left", "net.dec.right"]
    after = [path.replace("net.enc", "net.coder") for path in before]
    found = matched(before, after)
    assert found["net.enc"] == ("net.coder", "structure")
    assert found["net.enc.up"] == ("net.coder.up", "name")


def test_a_wrapped_network_is_found():
    before = ["net", "net.a", "net.b", "net.b.c"]
    after = ["wrap", "wrap.module", *(f"wrap.module.{path[4:]}" for path in before[1:])]
    found = matched(before, after)
    assert found["net"] == ("wrap.module", "structure")
    assert found["net.b.c"] == ("wrap.module.b.c", "name")


def test_a_renamed_leaf_is_known_by_its_class_or_its_operators():
    assert matched(["net", ("net.a", "Dense")], ["net", ("net.b", "Dense"), ("net.c", "ReLU")])["net.a"] == (
        "net.b",
        "class",
    )
    first = made({("computing", "net.a", "conv"): 1, ("computing", "net.b", "mm"): 1})
    second = made({("computing", "net.y", "mm"): 1, ("computing", "net.x", "conv"): 1})
    found = {each.before: each.after for each in matching.match(first, second)}
    assert (found["net.a"], found["net.b"]) == ("net.x", "net.y")


def test_a_new_module_is_new():
    found = [
        each for each in matching.match(made({}, modules=["net"]), made({}, modules=["net", "net.a"])) if not each.how
    ]
    assert found == [matching.Match(None, "net.a", "")]


def test_a_renamed_module_is_compared():
    before = made({("computing", "net.a.one", "mm"): 10.0, ("computing", "net.a.two", "relu"): 5.0})
    after = made({("computing", "net.z.one", "mm"): 22.0, ("computing", "net.z.two", "relu"): 5.0})
    found = comparing.compare([before], [after], ("A", "B"))
    (cause,) = found.causes.told
    assert (cause.module, cause.was, cause.change_ns) == ("net.z.one", "net.a.one", 12 * MS)
    rows = {row.name: row for row in found.modules}
    assert (rows["net.z"].was, rows["net.z"].matched, rows["net.z"].difference_ns) == ("net.a", "structure", 12 * MS)


def test_another_device_is_compared_by_module():
    def on(device, kernel):
        one = made(network(), device=device)
        return replace(one, kernels=(Named(kernel, "", 9.0, MS), Named(f"{kernel} 2", "", 9.0, MS)))

    found = comparing.compare([on("NVIDIA H100", "void gemm<>")], [on("Ascend", "MatMulV2")], ("A", "B"))
    assert any("kernels of different names" in note for note in found.notes)
    assert {row.matched for row in found.modules} == {"name"}
    assert [(each.name, each.before, each.after) for each in found.differences] == [("device", "NVIDIA H100", "Ascend")]


def test_without_steps_nothing_can_be_compared():
    whole = made(network())
    whole = replace(whole, step=replace(whole.step, source="whole_run"))
    with pytest.raises(NotComparableError, match="B has no steps, the other run has some"):
        comparing.compare([made(network())], [whole], ("A", "B"))
    with pytest.raises(NotComparableError, match="A has no steps, the other run has none either"):
        comparing.compare([whole], [whole], ("A", "B"))
    trace = replace(whole, completeness=replace(whole.completeness, ended=("",)))
    assert comparing.compare([trace], [trace], ("A", "B")).causes.change_ns == 0
    assert NotComparableError.exit_code == 3


def test_missing_parts_are_shown():
    less = made(network())
    less = replace(less, completeness=Completeness(4, (0, 2), 7, 1, ("exit", "killed")))
    notes = comparing.compare([made(network())], [less], ("A", "B")).notes
    assert [
        word
        for note in notes
        for word in ("ranks 1, 3 of 4", "7 records", "1 records or files", "killed")
        if word in note
    ]
    assert len(notes) == 4


def compared(before, after, *more):
    done = run("compare", str(before), str(after), *more)
    assert done.returncode == 0, done.stderr
    return done.stdout


def side_by_side(before, after):
    return comparing.compare(runs.digests(str(before)), runs.digests(str(after)), ("A", "B"))


def as_json(before, after):
    found = json.loads(json.dumps(side_by_side(before, after).to_dict()))
    jsonschema.validate(found, SCHEMA)
    assert sum(each["change_ns"] for each in found["causes"]["contributors"]) == found["causes"]["change_ns"]
    return found


def differing(found):
    return {row["name"]: (row["before"], row["after"]) for row in found["counts"] if row["difference"]}


def named(found):
    return [(each["name"], each["change_ns"] / MS) for each in found["causes"]["contributors"] if each["told"]]


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """Write a result in which each step takes exactly 17 ms: data 3, six layers of 2, a copy, the optimizer."""
    return compared_run(tmp_path_factory.mktemp("base"))


LAYER = (2.0, 2.0, 2.0, 8.0, 2.0, 2.0)


@pytest.mark.parametrize(
    ("planted", "cause", "milliseconds", "counts"),
    [
        ({"layers": LAYER}, "Net.3", 6.0, {}),
        ({"data": 8.5}, "waiting for data", 5.5, {}),
        (
            {"reads": 40},
            "reading values: code of the script outside of modules",
            4.0,
            {"operators": (8, 48), "synchronisations": (0, 40)},
        ),
        ({"copies": 4}, "copies: code of the script outside of modules", 3.0, {"operators": (8, 11), "copies": (1, 4)}),
        ({"compiles": 5.0}, "compiling", 5.0, {"recompiles": (0, 12), "graphs": (0, 12), "compiled_steps": (0, 12)}),
        ({"factor": 1.5}, "everything alike, by a factor of 1.50", 7.0, {}),
    ],
    ids=["layer", "data", "sync", "copy", "recompile", "machine"],
)
def test_only_the_planted_cause_is_named(base, tmp_path, planted, cause, milliseconds, counts):
    found = as_json(base, compared_run(tmp_path, **planted))
    assert found["causes"]["remarkable"]
    first, *others = named(found)
    assert first == (cause, milliseconds)
    # on a slower machine the data also come later; the step waits for them
    assert others == ([("waiting for data", 1.5)] if "factor" in planted else [])
    assert differing(found) == counts


def test_exchanges_in_smaller_parts(tmp_path):
    """The same bytes take four times as many exchanges, each of which costs a millisecond."""
    few = compared_run(tmp_path, exchanges=(2_000_000,) * 2)
    many = compared_run(tmp_path, number=1, exchanges=(500_000,) * 8)
    found = as_json(few, many)
    (cause,) = [each for each in found["causes"]["contributors"] if each["told"]]
    assert (cause["name"], cause["change_ns"]) == ("exchanging data with other ranks", 6 * MS)
    assert cause["evidence"].startswith("exchanges 2 -> 8 a step; ")
    assert differing(found) == {"collectives": (2, 8)}


def test_the_command_says_the_same(base, tmp_path):
    other = compared_run(tmp_path, data=8.5)
    found = json.loads(compared(base, other, "--format", "json"))
    assert found == as_json(base, other) | {"before": found["before"], "after": found["after"]}
    assert found["before"]["source"] == base
    shown = compared(base, other, "--top", "1").splitlines()
    assert shown[0] == "Steps take 5.5 ms longer (+32.4 %): waiting for data (+5.5 ms)."


def test_a_large_ratio_is_shown_as_a_factor(base, tmp_path):
    page = compared(base, compared_run(tmp_path, data=45.0), "--format", "markdown")
    assert "x15" in page and "%" in page


def test_other_work_comes_first_where_step_times_tell_nothing(base, tmp_path):
    """The new run reads two values in each step, and waits as much less for data."""
    first = compared(base, compared_run(tmp_path, reads=2, data=2.8)).splitlines()[0]
    assert first.startswith("The work changed: ") and " -> 2. Step times tell nothing: steps differ by +0.0 us" in first


def test_the_same_twice(base, tmp_path):
    page = compared(base, compared_run(tmp_path), "--format", "markdown")
    assert page.startswith("**Nothing remarkable: steps differ by +0.0 us, +0.0 %, and vary by 0.0 % without a change.")
    assert "### Why" not in page
    assert "| median step | 17.0 ms | 17.0 ms | +0.0 us | +0.0 % |" in page


def test_one_copy_more_is_found_in_one_run_a_side(base, tmp_path):
    """The command finds one more copy even if the steps do not take longer."""
    found = side_by_side(base, compared_run(tmp_path, copies=2, layers=(1.8,) * 5 + (2.0,)))
    first, *_ = shown(found).splitlines()
    assert first.startswith(
        "Steps differ by +0.0 us, +0.0 %, as equal runs may (5.0 %), but spend the time differently: copies"
    )
    assert first.endswith("operators 8 -> 9; copies 1 -> 2.")


def test_a_renamed_network_is_the_same(base, tmp_path):
    found = as_json(base, compared_run(tmp_path, net="Model", layers=LAYER))
    rows = {row["name"]: row for row in found["modules"]}
    assert (rows["Model"]["was"], rows["Model"]["matched"]) == ("Net", "structure")
    assert rows["Model.3"]["was"] == "Net.3"
    assert any("other names in the second run" in note for note in found["notes"])
    (cause,) = [each for each in found["causes"]["contributors"] if each["told"]]
    assert (cause["module"], cause["was"], cause["share"]) == ("Model.3", "Net.3", 1.0)


def test_repeats_are_one_side(base, tmp_path):
    """Several runs in one directory count as one side, with their median and their spread."""
    for number, data in enumerate((3.0, 4.0, 3.2)):
        compared_run(tmp_path, number=number, data=data)
    found = as_json(base, tmp_path)
    after = found["after"]
    assert (after["runs"], after["least_ns"], after["step_ns"], after["most_ns"]) == (3, 17 * MS, 17.2 * MS, 18 * MS)
    assert found["causes"]["spread"] == pytest.approx(0.5 / 17.2)
    assert not found["causes"]["remarkable"]


def sampling_run(folder, **planted):
    """Return the path of a run of 80 steps, of which every fourth was recorded."""
    return compared_run(folder, steps=80, sampled=4, **planted)


@pytest.fixture(scope="module")
def sampled_base(tmp_path_factory):
    return sampling_run(tmp_path_factory.mktemp("sampled"), recording=3.0)


def test_the_step_time_of_a_sampled_run_has_no_cost_of_recording(sampled_base, tmp_path):
    """The steps are equal, but recording costs 3 ms of a step in the one run, and 12 ms in the other one."""
    costly = sampling_run(tmp_path, recording=12.0)
    first, before, after, *rest = compared(sampled_base, costly).splitlines()
    assert first.startswith("Nothing remarkable: steps differ by +0.0 us")
    for line in (before, after):
        assert "17.0 ms a step (59 steady steps that were not sampled, 19 sampled)" in line
    assert any("Steps were sampled: step times are those of the steps that were not sampled." in line for line in rest)
    found = as_json(sampled_base, costly)
    assert found["causes"]["sampled"] == "all" and found["causes"]["change_ns"] == 0
    assert not any(each["told"] for each in found["causes"]["contributors"])
    assert found["before"]["sampled"] == 19


def test_the_cause_of_longer_steps_comes_from_sampled_steps_and_says_so(sampled_base, tmp_path):
    slower = sampling_run(tmp_path, recording=3.0, layers=(2.0, 2.0, 8.0, 2.0, 2.0, 2.0))
    first = compared(sampled_base, slower).splitlines()[0]
    assert first.startswith("Steps take 6.0 ms longer (+35.3 %): in sampled steps, Net.2 (+6.0 ms).")


def test_one_sampled_run_tells_only_what_the_cost_of_recording_cannot_explain(sampled_base, tmp_path):
    whole = compared_run(tmp_path, steps=80, recording=3.0)
    first, *rest = compared(sampled_base, whole).splitlines()
    assert first.startswith("Nothing is sure: steps differ by +3.0 ms, +17.6 %, which may be the cost of recording.")
    assert any("So only the latter step times contain the cost of recording" in line for line in rest)
    assert compared(whole, sampled_base).startswith("Nothing is sure: ")
    slower = compared_run(tmp_path, number=1, steps=80, recording=3.0, layers=(2.0, 2.0, 22.0, 2.0, 2.0, 2.0))
    assert compared(sampled_base, slower).startswith("Steps take 23.0 ms longer (+135.3 %): in sampled steps, Net.2 (")
    assert compared(slower, sampled_base).startswith("Steps take 23.0 ms less ")


def test_the_largest_part_is_named_even_if_it_is_the_machine():
    slower = {**network(data=3.7), ("runnable", "", ""): 4.5}
    first = sheets.verdict(comparing.compare([made(network())], [made(slower)], ("a", "b")))
    named = "waiting for a processor (+4.5 ms); the largest part of the job itself is waiting for data (+2.7 ms)."
    assert f": {named}" in first


def test_evaluation_and_the_first_step_are_compared(tmp_path):
    before, after = (
        compared_run(tmp_path / name, steps=40, evaluation=took, first=first)
        for name, took, first in (("a", 60.0, 0.0), ("b", 150.0, 900.0))
    )
    answer = compared(before, after)
    line = "Evaluation: 240.0 ms -> 600.0 ms a run (4 times, 60.0 ms -> 150.0 ms each time)."
    assert line in answer
    assert re.search(r"first step +17.0 ms +917.0 ms +\+900.0 ms", answer)
    assert "Evaluation:" not in compared(before, before)


def of_rank(number, work, exchange):
    one = made({("computing", "net", "mm"): work, ("communication", "", "all_reduce"): exchange})
    return replace(one, completeness=Completeness(2, (number,), 0, 0, ("exit",)))


def test_the_rank_that_got_slower_is_named():
    before = runs.merge([of_rank(0, 8.0, 2.0), of_rank(1, 8.0, 2.0)])
    after = runs.merge([of_rank(0, 8.1, 7.9), of_rank(1, 14.0, 2.0)])
    notes = comparing.compare([before], [after], ("a", "b")).notes
    assert notes[0].startswith(
        "Own work of a step, without exchanges: rank 1 6.0 ms longer than before, the other ranks 100.0 us longer."
    )
    same = comparing.compare([before], [before], ("a", "b")).notes
    assert not any(note.startswith("Own work") for note in same)
    several = [repeats.typical([each] * 4).own_work for each in (before, after)]
    assert several == [before.own_work, after.own_work]


def test_waits_name_both_sides_and_their_statistic():
    def run(each):
        return replace(made({("data", "", "wait"): each}), waits=(DataWait("wait for DS", 10, round(10 * each * MS)),))

    slow, fast = run(25.0), run(8.2)
    says = "wait for DS: 25.0 ms -> 8.2 ms each, as a mean over the whole run"
    assert evidence.of_wait("data", slow, fast, (), ()) == says


def test_the_number_of_steps_of_several_runs_is_that_of_each(tmp_path):
    for number, steps in enumerate((12, 20)):
        compared_run(tmp_path, number=number, steps=steps)
    assert "(2 runs, 17.0 ms to 17.0 ms, at least 11 steady steps each)" in compared(tmp_path, tmp_path)


@pytest.fixture(scope="module")
def calm(tmp_path_factory):
    """Write a result like `base` with 61 steps, of which 60 are steady."""
    return compared_run(tmp_path_factory.mktemp("calm"), steps=61)


def test_work_in_every_fifth_step_is_a_cause_with_its_mean_time(calm, tmp_path):
    """The pause of 100 ms hardly changes the median step, but each step is 20 ms longer on average."""
    after = compared_run(tmp_path, steps=61, every=5, pause=100.0)
    found = as_json(calm, after)
    assert found["causes"]["mean"] and found["causes"]["before_ns"] == 17 * MS
    assert named(found) == [("code of the script outside of modules", 20.0)]
    assert (found["after"]["step_ns"], found["after"]["mean_ns"], found["after"]["longer"]) == (17 * MS, 37 * MS, 12)
    for table in ("phases", "bounds"):
        assert sum(row["difference"] for row in found[table]) == 20 * MS
        assert sum(row["after"] for row in found[table]) == 37 * MS
    first, *others = compared(calm, after).splitlines()
    assert first == (
        "On average, steps take 20.0 ms longer (+117.6 %): code of the script outside of modules (+20.0 ms). "
        "The median step differs by +0.0 us, +0.0 %."
    )
    assert others[1].endswith("17.0 ms a step, 37.0 ms on average (60 steady steps)")
    assert "  longer than twice the median step: 0 steps before, 12 after" in others
    back = as_json(after, calm)
    assert back["causes"]["mean"] and named(back) == [("code of the script outside of modules", -20.0)]


@pytest.mark.parametrize(
    ("steps", "before", "after"), [((30, 30), 30.0, 40.0), pytest.param((25, 100), 40.0, 40.0, marks=pytest.mark.slow)]
)
def test_work_in_too_few_steps_to_recur_makes_no_mean_step_shorter(tmp_path, steps, before, after):
    """Of two long steps in a run, those of 47 ms belong to the mean step; those of 57 ms look like disturbed steps."""
    for name, count, pause in zip("ab", steps, (before, after), strict=True):
        for number in range(5):
            factor = 1 + (number - 2) / 1000
            compared_run(tmp_path / name, number=number, factor=factor, steps=count, every=10, pause=pause)
    first, second = tmp_path / "a", tmp_path / "b"
    assert not as_json(first, second)["causes"]["mean"]


def test_a_run_without_known_parts_is_no_divisor():
    """A trace may have kernels and no operators or launches: then nothing of its steps is known."""
    nothing, work = made({}, step=10.0), made(network(), step=13.0)
    assert basis.causes([nothing], [work]).change_ns == 3 * MS
    assert basis.causes([work], [nothing]).change_ns == -3 * MS


def test_a_mean_without_a_single_long_step_says_so(calm, tmp_path):
    after = compared_run(tmp_path, steps=61, every=5, pause=100.0, long=1000.0)
    assert as_json(calm, after)["after"]["left_out"] == 1
    first, *others = compared(calm, after).splitlines()
    assert first.startswith("On average, steps take ") and " The mean leaves out 1 single long step. " in first
    assert others[0].endswith("17.0 ms a step (60 steady steps)")
    assert " ms on average without 1 single long step (60 steady steps)" in others[1]


@pytest.mark.parametrize("every", [60, 25], ids=["one", "two"])
def test_single_long_steps_are_no_cause(calm, tmp_path, every):
    found = as_json(calm, compared_run(tmp_path, steps=61, every=every, pause=2000.0))
    assert not found["causes"]["mean"] and not found["causes"]["remarkable"]
    assert (found["after"]["mean_ns"], found["after"]["left_out"]) == (17 * MS, 60 // every)
    assert not any(row["difference"] for table in ("phases", "bounds") for row in found[table])


@pytest.fixture(scope="module")
def saving(tmp_path_factory):
    """Write a calm run of 101 sampled steps, and one with pauses in steps 30, 60 and 90 and after the last step."""
    folder = tmp_path_factory.mktemp("saving")
    usual = compared_run(folder, steps=101, sampled=4)
    return usual, compared_run(folder, number=1, steps=101, sampled=4, every=30, pause=500.0, ending=500.0)


def test_time_outside_of_the_usual_steps_is_remarkable(saving):
    """Step 60 was sampled, the other two long steps were not."""
    first, *others = compared(*saving).splitlines()
    assert first == (
        "Outside of the usual steps, these parts of a run take 2.00 s longer: single long steps (+1.50 s), after the "
        "last step (+500.0 ms). Usual steps differ by +0.0 us, +0.0 %, and vary by 0.0 % without a change."
    )
    told = [
        "  After the last step: 1.0 ms -> 501.0 ms a run. This time is outside of the steps.",
        "  Single long steps: 0.0 us -> 1.50 s a run beyond the usual step (0 -> 3 steps). The median step and the "
        "mean step leave out this time.",
        "  the mean step leaves out single long steps: 0 before; 3 after, 1.50 s beyond the median step",
    ]
    assert [line for line in told if line not in others] == []
    found = as_json(*saving)
    assert [(row["part"], row["before"]["count"], row["after"]["count"]) for row in found["outside"]] == [
        ("after the last step", 1, 1),
        ("single long steps", 0, 3),
    ]
    first, *_ = compared(*saving[::-1]).splitlines()
    assert first.startswith("Outside of the usual steps, these parts of a run take 2.00 s less: single long steps (-1")


def test_equal_runs_with_time_outside_of_the_usual_steps_are_not_remarkable(saving, tmp_path):
    assert compared(saving[1], saving[1]).startswith("Nothing remarkable: ")
    # in a run that is longer, the same steps recur, so they belong to its mean step
    longer = compared_run(tmp_path, steps=202, sampled=4, every=30, pause=500.0, ending=500.0)
    found = as_json(saving[1], longer)
    assert found["outside"] == [] and (found["before"]["left_out"], found["after"]["left_out"]) == (3, 0)


def test_one_long_step_may_be_a_disturbance(calm, tmp_path):
    found = as_json(calm, compared_run(tmp_path, steps=61, long=2000.0))
    assert found["outside"] == [] and (found["after"]["left_out"], found["after"]["left_out_ns"]) == (1, 2000 * MS)


def test_runs_of_other_lengths_are_compared_by_their_time_per_step(calm, tmp_path):
    first, *_ = compared(calm, compared_run(tmp_path, steps=30, evaluation=60.0)).splitlines()
    assert first.startswith(
        "Outside of the usual steps, these times changed in a run of 61 -> 30 steps: evaluation 0.0 us -> 180.0 ms. "
    )


def tailed(durations, part):
    """Return a digest with some step times in ns; what the mean step has beyond the median step is one part."""
    middle = median(durations) / MS
    usual = made({("computing", "", "mm"): middle}, durations=durations)
    step = replace(usual.step, mean_ns=recurrence.mean(durations))
    whole = made({("computing", "", "mm"): middle, (part, "", ""): step.mean_ns / MS - middle})
    parts = {item.name: getattr(whole, item.name) for item in fields(Average)}
    return replace(usual, step=step, average=Average(**parts))


def long_in_average(part):
    """Return a digest with a pause of 100 ms in every fifth step; the part of the step in the pause is given."""
    return tailed([10 * MS + 100 * MS * (number % 5 == 0) for number in range(60)], part)


def test_a_mean_step_that_sampled_steps_do_not_explain_has_a_sentence():
    """Every fifth step has a pause, and no step with a pause was sampled."""
    usual, long = tailed([10 * MS] * 60, "blocked"), long_in_average("blocked")
    assert basis.otherwise([usual], [long]) is None, "the cause is known"
    usual, long = (replace(each, step=replace(each.step, sampled=20), average=usual.average) for each in (usual, long))
    assert not basis.by_mean([usual], [long]) and basis.otherwise([usual], [usual]) is None
    says = basis.otherwise([usual], [long])
    assert says.startswith(
        "On average, steps without the cost of recording take 10.0 ms -> 30.0 ms (+200.0 %): some steps "
    )


def test_noise_is_no_work_that_recurs():
    """Each run has the same heavy tail of step times, from which chance draws."""
    chance = random.Random(1)
    drawn = [[round(MS * 10 * chance.lognormvariate(0, 0.7)) for _ in range(60)] for _ in range(201)]
    runs_of = [tailed(durations, "blocked") for durations in drawn]
    assert sum(basis.causes([one], [other]).mean for one, other in itertools.pairwise(runs_of)) <= 2


@pytest.mark.parametrize(("part", "mean"), [("blocked", True), ("runnable", False), ("communication", False)])
def test_waits_for_a_processor_or_another_rank_are_no_work_that_recurs(part, mean):
    usual = tailed([10 * MS] * 60, "blocked")
    assert basis.causes([usual], [long_in_average(part)]).mean is mean
    several = runs.merge([long_in_average(part)] * 2)
    assert basis.causes([usual] * 5, [several] * 5).mean is mean


def test_digests_without_a_mean_step_are_compared_by_their_medians():
    old = made({("computing", "", "mm"): 10.0}, durations=(10 * MS,) * 60)
    assert basis.causes([old], [long_in_average("blocked")]).mean is False


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    """Return the results of two real jobs with a worker for data; the second one pauses in every fourth step."""
    folder = tmp_path_factory.mktemp("loaded")

    def one(planted):
        (folder / planted).mkdir()
        start = launcher(folder / planted)
        return start(PROGRAM, "torch", planted, "100", options={"analyse": "off", "overhead_budget": 0}).result

    return one("workers"), one("every")


@pytest.mark.slow
def test_a_real_job_with_work_in_every_fourth_step(loaded):
    found = as_json(*loaded)
    assert found["causes"]["mean"]
    name, change = named(found)[0]
    assert name == "code of the script outside of modules" and 40 <= change <= 65
    first, *_ = compared(*loaded).splitlines()
    assert first.startswith("On average, steps take ") and f": {name} (+" in first


@pytest.mark.slow
def test_batches_of_workers_are_not_those_of_the_training_process(loaded):
    before, after = (runs.digest(str(each)) for each in loaded)
    assert {wait.operation for wait in after.waits} == {"wait for Samples", "create iterator", "end workers"}
    assert "no workers" not in evidence.of_wait("data", before, after, (), ())


@pytest.fixture(scope="module", params=["torch", "mindspore"])
def jobs(request, tmp_path_factory):
    """Return the framework, and {planted change: result}; "none" has no change, "renamed" other layer names."""
    folder = tmp_path_factory.mktemp("compared")

    def one(planted):
        (folder / planted).mkdir(exist_ok=True)
        start = launcher(folder / planted)
        return start(PROGRAM, request.param, planted, "30", options={"analyse": "off"}).result

    return request.param, {planted: one(planted) for planted in ("none", "layer", "data", "copy", "renamed")}


@pytest.mark.slow
def test_real_jobs(jobs):
    """The planted change is far larger than the machine's noise.

    The command may name the machine too, but no other part.
    """
    framework, results = jobs
    found = {planted: as_json(results["none"], results[planted]) for planted in ("layer", "data", "renamed", "copy")}

    def causes_of(planted):
        shown_causes = [each for each in found[planted]["causes"]["contributors"] if each["told"]]
        return [each["module"] or each["kind"] for each in shown_causes if each["kind"] not in causes.MACHINE]

    assert causes_of("layer")[0].endswith("blocks.2")
    assert causes_of("data")[0] == "data"
    assert differing(found["data"]) == differing(found["renamed"]) == {}
    copied = "copies" if framework == "torch" else "kernels"
    assert copied in differing(found["copy"])
    rows = {row["was"]: row["name"] for row in found["renamed"]["modules"] if row["matched"] == "structure"}
    (was,) = rows
    assert rows[was] == was.replace("blocks", "layers")


def shown(found, **console):
    out = io.StringIO()
    differences.show(found, console=Console(file=out, color_system=None, highlight=False, **console))
    return out.getvalue()


def test_the_answer_comes_first():
    waits = {"data": 12.8, "net.layers.3": 10.6}
    found = comparing.compare([made(network())], [made(network(**waits))], ("A", "B"))
    first, *_ = shown(found).splitlines()
    assert first == "Steps take 12.4 ms longer (+13.3 %): waiting for data (+11.8 ms)."
    page = differences.markdown(found)
    assert "| waiting for data | 1.0 ms | 12.8 ms | +11.8 ms | 95 % |" in page
    assert "| all of it | 93.0 ms | 105.4 ms | +12.4 ms | 100 % |" in page


def test_the_times_that_are_shown_add_up_to_the_step():
    """All parts take 1.5 times as long, and one layer three times. The factor has no time of its own."""
    slower = {key: ms * 1.5 for key, ms in network(**{"net.layers.3": 20.0}).items()}
    found = comparing.compare([made(network())], [made(slower)], ("A", "B"))
    why = next(sheet for sheet in sheets.sheets(found) if sheet.title == "Why")
    times = {name: both for name, *both, _, _ in why.rows}
    assert times.pop("everything alike, by a factor of 1.50") == ["-", "-"]
    assert times == {
        "net.layers.3": ["10.0 ms", "30.0 ms"],
        "small differences": ["83.0 ms", "124.5 ms"],
        "all of it": ["93.0 ms", "154.5 ms"],
    }
    assert "difference of before and after" in why.below[-1]


def test_each_table_is_shown_once():
    found = comparing.compare([made(network())], [made(network(data=12.8))], ("A", "B"))
    caller = comparing.Row("convolution", 10e6, 20e6, 10e6, "ns")
    titles = [sheet.title for sheet in sheets.sheets(replace(found, callers=(caller,)))]
    assert "Kernels by operator" in titles and sorted(set(titles)) == sorted(titles)


def test_names_are_no_markup():
    name = "void gemm<float, 4>(*) [clone|x]"
    before = made({("computing", "", name): 10.0})
    page = differences.markdown(comparing.compare([before], [made({("computing", "", name): 20.0})], ("A_1", "B_2")))
    assert "void gemm\\<float, 4\\>(\\*) \\[clone\\|x\\]" in page


def test_it_fits_a_terminal():
    slow = {f"net.layers.{number}": 10.0 + number for number in range(8)}
    found = comparing.compare([made(network())], [made(network(**slow), device="another one")], ("A" * 60, "B"))
    assert max(map(len, shown(found, width=80, force_terminal=True).splitlines())) <= 80


def test_wrong_calls(base, tmp_path):
    done = run("compare", base, str(tmp_path))
    assert (done.returncode, done.stdout) == (2, "")
    assert "holds no recording" in done.stderr
    assert run("compare", base, base, "--top", "0").returncode == 2


def test_a_run_without_steps(base, tmp_path):
    done = run("compare", base, compared_run(tmp_path, steps=0))
    assert (done.returncode, done.stdout) == (3, "")
    assert "has no steps, the other run has some" in done.stderr


@pytest.fixture
def traces():
    found = os.environ.get("MS_PROFILER_TEST_GPU_TRACES", "")
    if not found:
        pytest.skip(
            "MS_PROFILER_TEST_GPU_TRACES does not name a folder with traces of GPUs, which are not ours to publish"
        )
    return Path(found)


def test_traces_of_two_gpus(traces):
    """The same network has equally many operators in a step on an A100 and on a V100, but other kernels."""
    found = as_json(*(traces / f"{name}.json.gz" for name in ("nccl_data", "ns_resolution")))
    differences = {each["name"]: (each["before"], each["after"]) for each in found["differences"]}
    assert differences["device"] == ("NVIDIA A100-PG509-200", "Tesla V100-SXM2-32GB")
    counts = {row["name"]: (row["before"], row["after"]) for row in found["counts"]}
    assert counts["operators"] == (2385, 2385)
    assert counts["kernels"] == (900, 870)
    callers = {row["name"]: row for row in found["callers"]}
    assert callers["ConvolutionBackward0"]["after"] > 2 * callers["ConvolutionBackward0"]["before"] > 0
    assert found["causes"]["contributors"][0]["kind"] == "launch"
    assert any("lacks rank 1; the job has 2 ranks" in note for note in found["notes"])
    assert any(note.startswith("Neither run has modules") for note in found["notes"])
