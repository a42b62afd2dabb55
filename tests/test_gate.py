"""The gate gives a CI pipeline the right output, files and exit codes."""

import json
import os
import random
import subprocess
import sys
import tempfile
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from compared_run import compared_run
from conftest import PROGRAMS, ROOT
from jsonschema import Draft202012Validator
from ms_profiler import cli
from ms_profiler.analysis.comparison.digest import Named
from ms_profiler.gate import baseline, document, github, made_runs, sides, trials
from ms_profiler.gate.decide import decide
from ms_profiler.gate.figures import MEAN, STEP, Figure
from ms_profiler.gate.verdicts import Rules, Verdict
from ms_profiler.store.format import Category
from store_builder import MS, StoreBuilder, training

JOB = f"{sys.executable} {PROGRAMS / 'made_job.py'}"


def made(folder, factors, between=0.0, seed=1):
    """Write a run of 20 steps for each factor of the step length, and return the paths of the runs."""
    chance = random.Random(seed)
    paths = []
    for number, factor in enumerate(factors):
        steps = made_runs.durations(made_runs.Noise(between, factor), chance)[:20]
        paths.append(made_runs.write(str(folder), seed * 100 + number, steps))
    return paths


@pytest.fixture(scope="module")
def pools(tmp_path_factory):
    """Return paths of runs by kind: usual, 10 % slower, and so noisy that five runs do not suffice for a verdict."""
    folder = tmp_path_factory.mktemp("pools")
    noisy = (1.0, 1.2, 0.9, 1.15, 0.85)
    return {
        "usual": made(folder, [1.0, 1.003, 0.997, 1.001, 0.999], seed=1),
        "same": made(folder, [1.002, 0.998, 1.0, 1.001, 0.999], seed=2),
        "slower": made(folder, [1.1, 1.102, 1.098, 1.101, 1.099], seed=3),
        "noisy": made(folder, noisy, seed=4),
        "noisy too": made(folder, [1.04 * each for each in noisy], seed=5),
    }


@pytest.fixture(autouse=True)
def outside_of_any_pipeline(monkeypatch, tmp_path):
    for name in (github.SUMMARY, github.ACTIONS, "MS_PROFILER_OPTIONS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def gate(capsys, tmp_path):
    """Return a function that runs `ms-profiler gate`, and returns the exit code, the JSON document and stderr."""

    def run(*words):
        place = tmp_path / "verdict.json"
        place.unlink(missing_ok=True)
        try:
            code = cli.main(["gate", *map(str, words), "--json", str(place)])
        except SystemExit as left:
            code = left.code
        content = json.loads(place.read_text()) if place.exists() else None
        err = capsys.readouterr()
        if content is not None:
            schema = json.loads((ROOT / "agent/ms_profiler/gate/gate.schema.json").read_text())
            Draft202012Validator(schema).validate(content)
            assert content["exit_code"] == code
            assert content["headline"] in err.out
        return code, content, err.err

    return run


def metric(content, name):
    (found,) = [one for one in content["metrics"] if one["name"] == name]
    return found


def test_a_longer_run_that_recompiles_as_often_a_step_is_no_regression(gate, tmp_path):
    shorter, longer = (compared_run(tmp_path / str(steps), steps=steps, compiles=1.0) for steps in (20, 40))
    assert gate("--runs", shorter, "--versus", longer)[0] == 0


def test_equal_sides_pass(gate, pools):
    code, content, _ = gate("--runs", *pools["usual"], "--versus", *pools["same"])
    assert (code, content["verdict"], content["runs"]) == (0, "pass", {"base": 5, "new": 5})
    step = metric(content, "step time")
    assert step["low"] < 1 < step["high"] < 1.05
    assert metric(content, "phase: forward")["verdict"] == "advisory"


def test_a_slower_side_is_a_regression_that_names_its_parts(gate, pools):
    code, content, _ = gate("--runs", *pools["usual"], "--versus", *pools["slower"])
    assert (code, content["verdict"]) == (1, "regression")
    step = metric(content, "step time")
    assert step["ratio"] == pytest.approx(1.1, abs=0.01) and step["p"] == pytest.approx(1 / 252, abs=1e-6)
    why = content["why"]
    parts = sum(each["change_ms"] for each in why["contributors"]) + why["unexplained_ms"]
    assert parts == pytest.approx(why["change_ms"], abs=1e-3)


@pytest.mark.slow
def test_faster_runs_pass(gate, pools):
    assert gate("--runs", *pools["slower"], "--versus", *pools["usual"])[0] == 0


@pytest.mark.slow
def test_noisy_runs_are_inconclusive_and_fail_only_with_strict(gate, pools):
    sides = ("--runs", *pools["noisy"], "--versus", *pools["noisy too"])
    code, content, _ = gate(*sides)
    assert (code, content["verdict"]) == (0, "inconclusive")
    assert any("would be enough to decide" in note for note in content["notes"])
    assert gate(*sides, "--strict")[0] == 4


@pytest.fixture(scope="module")
def lasting(tmp_path_factory):
    """Return paths of five runs without, and of five runs with a step in five that takes five times as long."""
    folder = tmp_path_factory.mktemp("lasting")
    chance, found = random.Random(6), {}
    for side, factor in enumerate((1, 5)):
        found[factor] = []
        for number in range(5):
            steps = made_runs.durations(made_runs.Noise(0.02), chance)[:40]
            longer = [ns * factor if place % 5 == 0 else ns for place, ns in enumerate(steps)]
            found[factor].append(made_runs.write(str(folder), 600 + 10 * side + number, longer))
    return found[1], found[5]


@pytest.mark.parametrize("runs", [1, 5])
def test_longer_work_in_every_fifth_step_is_a_regression(gate, lasting, runs):
    base, new = (side[:runs] for side in lasting)
    code, content, _ = gate("--runs", *base, "--versus", *new)
    assert (code, metric(content, "mean step time")["verdict"]) == (1, "regression")
    assert metric(content, "step time")["verdict"] != "regression"
    assert ", on average 10" in content["headline"] and " ms on average: " in content["headline"]
    why = content["why"]
    assert why["mean"] and why["change_ms"] == pytest.approx(8, abs=1)
    assert sum(each["change_ms"] for each in why["contributors"]) == pytest.approx(why["change_ms"], abs=0.5)
    code, content, _ = gate("--runs", *new, "--versus", *base)
    assert (code, metric(content, "mean step time")["verdict"]) == (0, "advisory")
    code, content, _ = gate("--runs", *new[:1], "--versus", *new[:1])
    assert (code, "average" in content["headline"]) == (0, False)


def test_a_mean_without_single_long_steps_says_so(gate, lasting, tmp_path):
    base, new = lasting
    steps = [made_runs.STEP_NS * (1 + 4 * (place % 5 == 0)) for place in range(40)]
    steps[17] *= 100
    disturbed = made_runs.write(str(tmp_path), 1, steps)
    _, content, _ = gate("--runs", *base, "--versus", disturbed, *new[1:])
    assert "%, without 1 single long step)" in content["headline"]
    assert metric(content, "mean step time")["why"].endswith(" longer; without 1 single long step")
    gate("--save", tmp_path / "stored.json", *base)
    _, content, _ = gate("--baseline", tmp_path / "stored.json", disturbed, *new[1:])
    assert "%, without at least 1 single long step)" in content["headline"]
    _, content, _ = gate("--runs", *base, "--versus", *new)
    assert "single" not in content["headline"] + metric(content, "mean step time")["why"]


def test_two_long_steps_of_30_are_a_regression_of_the_mean(gate, tmp_path):
    """Each run of the new version has two steps of 100 ms among steps of 30 ms; so do two runs of the base."""
    chance, paths = random.Random(3), []
    for number in range(10):
        noise = made_runs.durations(made_runs.Noise(0.005), chance)[:30]
        long = (11, 21) if number >= 5 or number < 2 else ()
        steps = [100_000_000 if place in long else min(3 * ns, 36_000_000) for place, ns in enumerate(noise)]
        paths.append(made_runs.write(str(tmp_path), 900 + number, steps))
    usual, new = paths[:5], paths[5:]
    code, content, _ = gate("--runs", *usual[2:], *usual[:1], "--versus", *new)
    assert (code, metric(content, "mean of all steps")["verdict"]) == (0, "advisory")
    equal = [made_runs.write(str(tmp_path), 950 + number, [30_000_000] * 30) for number in range(2)]
    code, content, _ = gate("--runs", *usual[2:], *equal, "--versus", *new)
    assert (code, metric(content, "mean of all steps")["verdict"]) == (1, "regression")
    assert "single long steps)" in content["headline"] and "(+1" in content["headline"]
    assert "In a run of the new version, 2 of 29 steps are long: they take 100.0 ms" in content["notes"][1]
    assert "In a run of the base, 0 are." in content["notes"][1]
    assert gate("--runs", *new, "--versus", *usual[2:], *equal)[0] == 0


def test_a_run_that_is_named_several_times_counts_once(gate, pools, tmp_path):
    run = pools["usual"][0]
    (tmp_path / "linked").symlink_to(run)
    same = [run, f"{run}/", tmp_path / "linked", run]
    code, content, err = gate("--runs", *same, "--versus", *pools["same"])
    assert (code, content["runs"]) == (0, {"base": 1, "new": 5})
    assert err.count("is named 4 times. It is one run, and counts once.") == 1


@pytest.mark.parametrize("runs", [1, 5])
@pytest.mark.parametrize(
    ("step", "mean", "verdict"),
    [
        pytest.param(10.6, 11.7, Verdict.PASS, id="0.6 ms more of it on a slower machine"),
        pytest.param(20.0, 24.0, Verdict.ADVISORY, id="a machine of half the speed"),
        pytest.param(8.0, 10.0, Verdict.PASS, id="a faster step with the same work"),
        pytest.param(10.0, 20.0, Verdict.REGRESSION, id="8 ms more of it"),
        pytest.param(7.0, 16.0, Verdict.REGRESSION, id="7 ms more of it in a faster step"),
    ],
)
def test_only_the_time_beyond_the_median_step_decides_by_the_mean(step, mean, verdict, runs):
    """The base's median step is 10 ms, its mean step 12 ms; 10.5 ms in the first case."""
    usual = 10.5 if step == 10.6 else 12.0

    def side(middle, average):
        factors = [1.0, 1.003, 0.997, 1.001, 0.999][:runs]
        return [
            {name: Figure(each * value, each * value) for name, value in ((STEP, middle), (MEAN, average))}
            for each in factors
        ]

    found = decide(side(10.0, usual), side(step, mean), Rules(threshold=0.08), mean=True)
    own = next(one for one in found.judged if one.metric.name == MEAN)
    assert (own.verdict is Verdict.REGRESSION) is (verdict is Verdict.REGRESSION)
    if own.verdict is Verdict.REGRESSION:
        assert own.why.startswith("work that only some steps have takes ")
    if verdict is Verdict.PASS and runs == 5:
        assert found.verdict is Verdict.PASS


@pytest.mark.parametrize(
    ("name", "base", "new", "regression"),
    [
        ("device memory", [100], 101.5, True),
        ("device memory", [1000], 1009, False),
        ("device memory", [10], 10.9, False),
        ("allocated memory", [20], 21.1, True),
        ("host memory", [160], 177, True),
        ("host memory", [100], 115, False),
        ("host memory", [1024], 1100, False),
        ("host memory", [1000, 1090, 1000], 1150, False),
        ("bytes copied a step", [100_000], 100_090, False),
        ("bytes copied a step", [100_000], 100_110, True),
    ],
)
def test_memory_and_bytes_may_grow_by_a_share_or_by_an_amount(name, base, new, regression):
    def side(values):
        return [{STEP: Figure(10.0, 10.0), name: Figure(float(each), float(each))} for each in values]

    found = decide(side(base), side([new]), Rules())
    (own,) = [one for one in found.judged if one.metric.name == name]
    assert (own.verdict is Verdict.REGRESSION) is regression


def test_few_runs_decide_by_counts_and_a_tripwire(gate, pools, tmp_path):
    code, content, _ = gate("--runs", pools["usual"][0], "--versus", pools["slower"][0])
    assert (code, metric(content, "step time")["verdict"]) == (0, "advisory")
    trebled = made(tmp_path, [3.0])
    assert gate("--runs", pools["usual"][0], "--versus", *trebled)[0] == 1
    assert gate("--runs", pools["usual"][0], "--versus", *trebled, "--tripwire", "4")[0] == 0


def test_few_runs_say_what_decides(gate, pools):
    _, content, _ = gate("--runs", pools["usual"][0], "--versus", pools["slower"][0])
    assert "counts and memory decide, and a time only if it is 1.5 times as long" in content["notes"][0]


def test_a_sampled_run_is_gated_without_the_cost_of_recording(gate, tmp_path):
    """Recording costs 3 ms of a step of 17 ms in the base, and 40 ms in the new version, which is equal otherwise."""

    def runs_of(name, **planted):
        return [compared_run(tmp_path / name, number=number, steps=80, **planted) for number in range(4)]

    base, costly = (runs_of(f"sampled {cost:g}", sampled=4, recording=cost) for cost in (3.0, 40.0))
    code, content, _ = gate("--runs", *base, "--versus", *costly)
    assert (code, content["verdict"]) == (0, "pass")
    step = metric(content, "step time")
    assert (step["base"], step["new"]) == (17.0, 17.0)
    assert metric(content, "phase in sampled steps: forward")["new"] == 52.0
    assert any(note.startswith("Steps were sampled: step times are those of") for note in content["notes"])
    assert gate("--runs", base[0], "--versus", costly[0])[1]["headline"] == "Steps take 17 -> 17 ms (+0.0%)."
    assert content["why"]["sampled"] and not any(each["told"] for each in content["why"]["contributors"])
    slower = runs_of("slower", sampled=4, recording=3.0, layers=(2.0, 2.0, 8.0, 2.0, 2.0, 2.0))
    code, content, _ = gate("--runs", *base, "--versus", *slower)
    assert code == 1 and "+6 ms of +6 ms, in sampled steps: Net.2" in content["headline"]
    whole = runs_of("whole", recording=3.0)
    assert gate("--runs", *base, "--versus", *whole)[1]["verdict"] == "inconclusive"
    assert gate("--runs", *whole, "--versus", *base)[1]["verdict"] == "pass"
    worse = runs_of("worse", recording=3.0, layers=(2.0, 2.0, 22.0, 2.0, 2.0, 2.0))
    assert gate("--runs", *base, "--versus", *worse)[0] == 1


def test_evaluation_and_the_first_step_are_shown(gate, tmp_path):
    before, after = (
        compared_run(tmp_path / name, steps=40, evaluation=took, first=first)
        for name, took, first in (("a", 60.0, 0.0), ("b", 150.0, 900.0))
    )
    code, content, _ = gate("--runs", before, "--versus", after)
    for name, values in (("outside of steps: evaluation", (240.0, 600.0)), ("first step", (17.0, 917.0))):
        found = metric(content, name)
        assert (found["base"], found["new"], found["verdict"]) == (*values, "advisory")
    assert code == 0 and any(note.startswith("Evaluation: 240.0 ms -> 600.0 ms a run") for note in content["notes"])
    longer = compared_run(tmp_path / "c", steps=40, evaluation=60.0, every=15, pause=500.0, ending=600.0)
    code, content, _ = gate("--runs", before, "--versus", longer)
    assert code == 0 and metric(content, "outside of steps: after the last step")["new"] == 601.0
    for text in ("After the last step: 1.0 ms -> 601.0 ms a run", "Single long steps: 0.0 us -> 1.00 s a run"):
        assert any(note.startswith(text) for note in content["notes"])
    gate("--save", tmp_path / "stored.json", before)
    stored = json.loads((tmp_path / "stored.json").read_text())
    del stored["typical"]["outside"]["after the last step"]  # an old baseline does not have this part
    (tmp_path / "stored.json").write_text(json.dumps(stored))
    _, content, _ = gate("--baseline", tmp_path / "stored.json", longer)
    assert not any(note.startswith("After the last step") for note in content["notes"])


def test_the_headline_names_the_largest_part():
    def part(kind, what, change):
        return {"kind": kind, "what": what, "change_ms": change, "told": True}

    usual = [{STEP: Figure(10.0, 10.0)}]
    found = decide(usual, [{STEP: Figure(20.0, 20.0)}], Rules())
    parts = [part("runnable", "waiting for a processor", 3.35), part("data", "waiting for data", 2.15)]
    why = {"change_ms": 7.26, "mean": False, "sampled": False, "contributors": parts}
    headline = document.of(found, 1, why)["headline"]
    assert headline.endswith(
        " +3.35 ms of +7.26 ms: waiting for a processor; the largest part of the job itself, +2.15 ms: waiting for "
        "data."
    )
    why["change_ms"] = 3.3496  # smaller by rounding alone
    assert " +3.35 ms of +3.35 ms: waiting for a processor; " in document.of(found, 1, why)["headline"]
    why["change_ms"] = 0.7  # other parts became shorter
    headline = document.of(found, 1, why)["headline"]
    assert " +3.35 ms (all other parts -2.65 ms): waiting for a processor; " in headline
    why["change_ms"] = -0.7  # in a step that became shorter, the largest contributor toward that comes first
    why["contributors"] = [part("module", "net", -5.0), part("module", "net.1", 1.5), part("module", "net.1.fc", 2.8)]
    assert document.of(found, 1, why)["headline"].endswith(" The largest increase is +2.8 ms: net.1.fc.")


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--base", "true"),
        ("--runs", "somewhere"),
        ("--baseline", "no such file", "somewhere"),
        ("--runs", "nowhere", "--versus", "nowhere"),
        ("--save", "file"),
        ("--threshold", "120%"),
        ("--repeat", "0"),
        *(("--base", "true", "--new", "true", "--tripwire", odd) for odd in ("inf", "nan", "1")),
        *(("--base", "true", "--new", "true", "--timeout", odd) for odd in ("inf", "nan", "-1", "soon")),
        ("--base", "no-such-command-at-all", "--new", "true"),
    ],
)
def test_impossible_arguments_are_usage_errors(gate, words):
    code, content, err = gate(*words)
    assert (code, content) == (2, None)
    assert err.strip()


def written(folder, name, **info):
    return str(training(folder, name=f"{name}_1_20260101000000123_ascend_ms", **info).write())


def missing_rank(folder):
    return [written(folder, "a", world_size=2)], "lacks rank 1 of 2"


def dropped(folder):
    store = training(folder, name="a_1_20260101000000123_ascend_ms")
    store.processes[0].control.dropped = 3
    return [str(store.write())], "3 records"


def killed(folder):
    store = training(folder, name="a_1_20260101000000123_ascend_ms")
    store.processes[0].info.state = "running"
    return [str(store.write())], "did not end by itself"


def few_steps(folder):
    return [written(folder, "a", steps=3)], "steady steps"


def other_framework(folder):
    info = {"name": "mindspore", "version": "2.9.0", "mode": "pynative", "device": "CPU"}
    return [written(folder, "a", framework=info)], "framework differs"


def other_python(folder):
    return [written(folder, "a", python="3.12.1")], "Python differs"


@pytest.mark.parametrize("fault", [missing_rank, dropped, killed, few_steps, other_framework, other_python])
def test_incomplete_or_different_runs_never_pass(gate, tmp_path, fault):
    (tmp_path / "base").mkdir()
    (tmp_path / "new").mkdir()
    base = written(tmp_path / "base", "b")
    new, reason = fault(tmp_path / "new")
    code, content, _ = gate("--runs", base, "--versus", *new)
    assert (code, content["verdict"]) == (3, "not comparable")
    assert reason in content["reasons"][0]
    assert gate("--save", tmp_path / "base.json", base, *new)[0] == 3
    assert not (tmp_path / "base.json").exists()


def operators(folder, name, each):
    """Write a run; `each` is a function of a step's number that returns the number of its operators."""
    store = StoreBuilder(folder, f"{name}_1_20260101000000123_ascend_ms")
    process = store.process()
    thread = process.thread()
    for step in range(20):
        begin = step * 10 * MS
        for number in range(each(step)):
            thread.span("MatMul", Category.OP, begin + number * MS, begin + number * MS + MS // 2)
        thread.step(step, begin, begin + 10 * MS)
    process.anchor(300 * MS)
    return str(store.write())


def test_one_more_of_a_count_is_found_in_single_runs(gate, tmp_path):
    base = operators(tmp_path, "a", lambda step: 5)
    code, content, _ = gate("--runs", base, "--versus", operators(tmp_path, "b", lambda step: 6))
    assert (code, metric(content, "operators a step")["verdict"]) == (1, "regression")
    assert content["headline"].startswith("Operators a step grew. Steps take ")
    (more,) = content["why"]["more_of"]
    assert more["after"] - more["before"] == 1
    code, content, _ = gate("--runs", base, "--versus", operators(tmp_path, "c", lambda step: 4))
    assert (code, metric(content, "operators a step")["verdict"]) == (0, "pass")


def test_kernels_of_one_name_and_several_types_count_together(tmp_path):
    (run,) = sides.read([operators(tmp_path, "a", lambda step: 5)])
    kernels = [(Named("copy", "H2D", 1.0, 5), Named("copy", "D2H", number, 1)) for number in (2.0, 3.0)]
    base, new = (replace(run, kernels=each) for each in kernels)
    assert sides.gate([base], [new], Rules()).why()["more_of"] == [{"name": "copy", "before": 3.0, "after": 4.0}]


def test_a_count_that_varies_from_step_to_step_is_none_to_alarm_for(gate, tmp_path):
    base = operators(tmp_path, "a", lambda step: 4 + step % 3)
    assert gate("--runs", base, "--versus", operators(tmp_path, "b", lambda step: 4 + (step % 3 > 0) * 2))[0] == 0
    assert gate("--runs", base, "--versus", operators(tmp_path, "c", lambda step: 5 + step % 3))[0] == 1


def test_a_baseline_is_stored_compared_and_changes_on_a_pass_alone(gate, pools, tmp_path):
    file = tmp_path / "made with the file" / "base.json"
    code, _, err = gate("--save", file, *pools["usual"])
    assert code == 0 and "decide on a threshold of" in err
    first = file.read_bytes()
    assert len(first) < 100_000
    assert gate("--baseline", file, *pools["same"])[0] == 0
    code, content, _ = gate("--baseline", file, *pools["slower"])
    assert code == 1 and content["why"]["contributors"]
    code, _, err = gate("--save", file, *pools["slower"])
    assert code == 1 and "stays as it was" in err
    assert file.read_bytes() == first
    assert gate("--save", file, *pools["same"])[0] == 0
    assert file.read_bytes() != first
    assert gate("--save", file, *pools["slower"], "--accept")[0] == 0
    assert gate("--baseline", file, *pools["slower"])[0] == 0


@pytest.mark.parametrize(
    ("stored", "runs", "says"),
    [
        (5, 1, "stays as it was: 1 run, too few to decide whether the step got longer. Name 4 runs or more"),
        (1, 5, "stays as it was: it has 1 run, too few to decide whether the step got longer. To store 4 or more"),
    ],
)
def test_too_few_runs_to_decide_about_time_renew_no_baseline(gate, pools, tmp_path, stored, runs, says):
    file = tmp_path / "base.json"
    assert gate("--save", file, *pools["usual"][:stored])[0] == 0
    first = file.read_bytes()
    for kind in ("same", "slower"):
        code, content, err = gate("--save", file, *pools[kind][:runs])
        assert (code, content["verdict"]) == (0, "pass") and says in err and err.count("\n") == 1
        assert file.read_bytes() == first
    assert gate("--save", file, *pools["slower"], "--accept")[0] == 0
    assert file.read_bytes() != first


@pytest.mark.parametrize("kind", ["unreadable", "noisy"])
def test_a_baseline_that_cannot_be_renewed_is_refused_before_anything_runs(gate, pools, tmp_path, kind):
    file, ran = tmp_path / "base.json", tmp_path / "ran"
    if kind == "noisy":
        gate("--save", file, *pools["noisy"])
    else:
        file.write_text("no JSON")
    code, content, err = gate("--base", f"touch {ran}", "--save", file)
    assert (code, content, ran.exists()) == (2, None, False)
    assert ("--threshold 0." if kind == "noisy" else "replace this one with --accept.") in err
    assert err.count("\n") == 1


@pytest.mark.slow
def test_a_stored_baseline_has_the_step_time_of_the_next_gate(gate, tmp_path):
    base = made(tmp_path, [1.0, 1.2])
    _, _, said = gate("--save", tmp_path / "b.json", *base)
    _, content, _ = gate("--baseline", tmp_path / "b.json", base[0])
    assert f"2 runs, {metric(content, 'step time')['base']:.6g} ms a step" in said


def test_a_threshold_below_the_noise_is_refused_and_a_larger_one_proposed(gate, pools, tmp_path):
    file = tmp_path / "base.json"
    gate("--save", file, *pools["noisy"])
    code, content, err = gate("--baseline", file, *pools["noisy too"])
    assert (code, content) == (2, None)
    smallest = err.split("--threshold ")[1].split(",")[0].rstrip(". \n")
    assert gate("--baseline", file, *pools["noisy too"], "--threshold", smallest)[0] == 0
    ran = tmp_path / "ran"
    assert gate("--baseline", file, "--new", f"touch {ran}")[0] == 2
    assert not ran.exists(), "refused before minutes of runs"
    assert gate("--baseline", file, pools["usual"][0])[0] == 0, "of single runs time decides nothing"


def test_a_baseline_of_format_1_is_read():
    found = baseline.read(str(ROOT / "tests/baselines/format_1.json"))
    assert len(found.runs) == 5
    assert found.typical.step.count == 19
    assert sorted(found.step_times)[2] == pytest.approx(found.typical.step.median_ns / 1e6)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"format": 2}, "Update ms-profiler"),
        ({"kind": "other"}, "no baseline"),
        ({"runs": []}, "damaged"),
        ({"runs": [{"step time": "fast"}]}, "damaged"),
        ({"runs": [{"step time": [1e999, 1]}]}, "damaged"),
        ({"typical": {"version": 1}}, "damaged"),
    ],
)
def test_a_baseline_that_cannot_be_read_is_one_line(gate, tmp_path, change, says):
    content = json.loads((ROOT / "tests/baselines/format_1.json").read_text()) | change
    file = tmp_path / "base.json"
    file.write_text(json.dumps(content))
    code, _, err = gate("--baseline", file, "somewhere")
    assert code == 2 and says in err and err.count("\n") == 1


def test_commands_run_in_turn_and_recordings_stay_in_the_output(gate, tmp_path):
    kept = tmp_path / "kept"
    words = ("--repeat", 4, "--output", kept)
    code, content, err = gate("--base", f"{JOB} 1", "--new", f"{JOB} 1.2", *words)
    assert (code, content["runs"]) == (1, {"base": 4, "new": 4})
    order = [line.split("(")[1].split(")")[0] for line in err.splitlines() if " of 8 (" in line]
    assert order == ["base", "new", "new", "base"] * 2
    assert sorted(os.listdir(kept)) == sorted(f"{side}_{number}" for side in ("base", "new") for number in range(1, 5))
    assert gate("--base", "true", "--new", "true", "--output", kept)[0] == 2


@pytest.mark.slow
def test_commands_serve_as_one_side(gate, tmp_path):
    file = tmp_path / "base.json"
    assert gate("--base", f"{JOB} 1", "--repeat", 4, "--save", file)[0] == 0
    assert gate("--baseline", file, "--new", f"{JOB} 1.2", "--repeat", 4)[0] == 1


@pytest.mark.parametrize(
    ("kind", "words", "says"),
    [
        ("fail", (), "exit code 7:\n    no such data set"),
        ("hang", ("--timeout", "2"), "had not ended after 2 s"),
        ("nothing", (), "ended without an error and recorded nothing. `ms-profiler doctor -- "),
    ],
)
def test_a_command_that_fails_hangs_or_records_nothing_is_incomplete(gate, kind, words, says):
    code, content, _ = gate("--base", f"{JOB} {kind}", "--new", f"{JOB} 1", "--repeat", 1, *words)
    assert (code, content["verdict"]) == (3, "not comparable")
    assert says in content["reasons"][0]


def test_a_job_that_fails_leaves_no_file_of_an_earlier_pass(gate, pools, tmp_path):
    forms = [word for form in ("junit", "codequality", "metrics") for word in (f"--{form}", tmp_path / form)]
    assert gate("--runs", *pools["usual"], "--versus", *pools["same"], *forms)[0] == 0
    assert gate("--base", f"{JOB} fail", "--new", "true", "--repeat", 1, *forms)[0] == 3
    (case,) = ElementTree.parse(tmp_path / "junit").getroot()[0]
    assert "ended with exit code 7" in case.find("error").get("message")
    (found,) = json.loads((tmp_path / "codequality").read_text())
    assert found["severity"] == "critical" and "no such data set" in found["description"]
    assert (tmp_path / "metrics").read_text() == "# EOF\n"


@pytest.mark.parametrize("option", ["--output", "--junit", "--codequality", "--metrics"])
def test_a_place_that_cannot_be_written_is_refused_before_anything_runs(gate, tmp_path, option):
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    ran = tmp_path / "ran"
    places = ["file/in it", "file"] if option == "--output" else ["file/in it", "folder", "missing/it"]
    for place in places:
        code, content, err = gate("--base", f"touch {ran}", "--new", "true", option, tmp_path / place)
        assert (code, content, ran.exists()) == (2, None, False)
        assert f"{tmp_path / place} cannot be " in err and err.count("\n") == 1


def test_a_write_that_fails_changes_no_verdict(gate, pools, tmp_path):
    """On `/dev/full`, each write fails as on a full disk."""
    words = ("--junit", "/dev/full", "--metrics", tmp_path / "metrics")
    code, content, err = gate("--runs", *pools["usual"], "--versus", *pools["slower"], *words)
    assert (code, content["verdict"]) == (1, "regression")
    assert err == "ms-profiler: /dev/full cannot be written: No space left on device.\n"
    assert (tmp_path / "metrics").read_text().endswith("# EOF\n")


@pytest.mark.parametrize("words", [(), pytest.param(("--json", "-"), marks=pytest.mark.slow)])
def test_a_regression_stays_one_without_a_reader_of_stdout(pools, words):
    read, write = os.pipe()
    os.close(read)
    line = [
        sys.executable,
        "-m",
        "ms_profiler",
        "gate",
        "--runs",
        *pools["usual"],
        "--versus",
        *pools["slower"],
        *words,
    ]
    try:
        done = subprocess.run(line, stdout=write, stderr=subprocess.PIPE, check=False)
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (1, b"")


def test_a_command_that_ends_by_os_exit_is_comparable(gate, tmp_path):
    words = ("--repeat", 1, "--output", tmp_path / "kept")
    code, content, _ = gate("--base", f"{JOB} abrupt", "--new", f"{JOB} 1", *words)
    assert (code, content["verdict"]) == (0, "pass")
    # of the result alone, nobody knows the exit code
    code, content, _ = gate("--runs", tmp_path / "kept/base_1", "--versus", tmp_path / "kept/new_1")
    assert (code, content["verdict"]) == (3, "not comparable")
    assert "did not end by itself: unknown" in content["reasons"][0]


@pytest.mark.parametrize("end", ["exit code 0", "exit code 0, without Python's exit", "exit code 1"])
def test_a_run_with_exit_code_0_is_comparable(gate, tmp_path, end):
    (tmp_path / "new").mkdir()
    store = training(tmp_path / "new", name="a_1_20260101000000123_ascend_ms")
    store.processes[0].info.state, store.processes[0].info.end = "ended", end
    code = gate("--runs", written(tmp_path, "b"), "--versus", store.write())[0]
    assert code == (3 if end == "exit code 1" else 0)


def test_a_command_that_trains_twice_is_an_error(gate):
    code, _, err = gate("--base", f"{JOB} 1; sleep 0.01; {JOB} 1", "--new", f"{JOB} 1", "--repeat", 1)
    assert code == 2 and "recorded 2 runs" in err


def test_every_form_of_the_verdict(gate, pools, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv(github.SUMMARY, str(tmp_path / "summary.md"))
    monkeypatch.setenv(github.ACTIONS, "true")
    forms = {name: tmp_path / name for name in ("junit", "codequality", "metrics")}
    words = [word for name, path in forms.items() for word in (f"--{name}", str(path))]
    assert cli.main(["gate", "--runs", *pools["usual"], "--versus", *pools["slower"], *words]) == 1
    shown = capsys.readouterr().out
    assert sum(line.startswith("::error title=ms-profiler gate::step time: ") for line in shown.splitlines()) == 1
    suite = ElementTree.parse(forms["junit"]).getroot()[0]
    assert suite.get("failures") == "1" and len(suite) == int(suite.get("tests"))
    (failed,) = [case.get("name") for case in suite if case.find("failure") is not None]
    assert failed == "step time"
    (found,) = json.loads(forms["codequality"].read_text())
    assert found["check_name"] == "step time" and found["location"]["lines"]["begin"] == 1
    figures = forms["metrics"].read_text().splitlines()
    assert (
        float(figures[0].removeprefix("ms_profiler_step_time_ms ")) == pytest.approx(11, rel=0.05)
        and figures[-1] == "# EOF"
    )
    summary = (tmp_path / "summary.md").read_text()
    assert "### ms-profiler gate: regression" in summary and "| step time |" in summary


ODD = b"we\x1bird \xff\xef\xbf\xbe name"


def test_odd_characters_in_names_leave_every_file_valid(pools, tmp_path, monkeypatch, capsys):
    folder = os.path.join(os.fsencode(tmp_path), ODD)
    os.mkdir(folder)
    few = written(os.fsdecode(folder), os.fsdecode(ODD), steps=2, world_size=3)
    monkeypatch.setenv(github.SUMMARY, str(tmp_path / "summary.md"))
    monkeypatch.setenv(github.ACTIONS, "true")
    forms = [str(word) for form in ("json", "junit", "codequality") for word in (f"--{form}", tmp_path / form)]
    assert cli.main(["gate", "--runs", pools["usual"][0], "--versus", few, *forms]) == 3
    visible = r"we\x1bird \udcff\ufffe name"
    assert visible in capsys.readouterr().out
    assert visible in (tmp_path / "summary.md").read_text()
    reasons = json.loads((tmp_path / "json").read_text())["reasons"]
    assert len(reasons) > 2 and os.fsdecode(ODD) in reasons[0]
    (error,) = ElementTree.parse(tmp_path / "junit").getroot()[0][0]
    assert visible in error.get("message")
    found = json.loads((tmp_path / "codequality").read_text())
    assert visible in found[0]["description"]
    assert len({each["fingerprint"] for each in found}) == len(reasons)


def test_a_summary_stays_below_its_cap_and_annotations_below_theirs(tmp_path):
    one = {"name": "n" * 1000, "kind": "count", "unit": "", "base": 1.0, "new": 2.0, "ratio": 2.0, "low": None}
    many = [one | {"high": None, "p": None, "verdict": "regression", "why": "+1"}] * 2000
    content = {"verdict": "regression", "headline": "h", "reasons": [], "notes": [], "metrics": many, "why": None}
    path = tmp_path / "summary.md"
    assert github.append_summary(content, str(path))
    assert path.stat().st_size <= github.CAP
    assert not github.append_summary(content, str(path)) or path.stat().st_size <= 2 * github.CAP
    assert len(list(github.annotations(content))) == github.MOST


@pytest.mark.slow
def test_the_self_test_prints_its_rates(capsys, monkeypatch):
    monkeypatch.setattr(trials, "POOL", 10)
    monkeypatch.setattr(trials, "NOISES", (0.03,))
    monkeypatch.setattr(made_runs, "STEPS", 12)
    assert cli.main(["gate", "--self-test", "--trials", "20", "--seed", "3"]) == 0
    err = capsys.readouterr().out
    assert "seed 3" in err and err.count("%") > 8


def noisy_training(folder, number, factor, chance):
    """Write a run of 40 steps with the store builder; runs differ from each other by 3 % at random."""
    store = StoreBuilder(folder, f"host_{number}_20260101000000123_ascend_ms", started_ns=number)
    process = store.process()
    thread = process.thread()
    run, at = factor * chance.gauss(1, 0.03), 0
    for step in range(40):
        length = round(10 * MS * run * chance.gauss(1, 0.02) * (2 if chance.random() < 0.03 else 1))
        thread.span("forward", Category.FORWARD, at, at + length // 2)
        thread.step(step, at, at + length)
        at += length
    process.anchor(at + MS)
    return str(store.write())


LAYERS = 8


def beside_neighbours(folder, number, speed, slower=(), chance=None):
    """Write a run of 12 steps of eight layers on a machine of a given speed.

    Args:
        folder: the folder of the result.
        number: the number of the run.
        speed: the factor of all times on this machine.
        slower: the numbers of layers that take 1.8 times as long.
        chance: a random generator for noise; None for a run without noise.
    """
    store = StoreBuilder(folder, f"host_{number}_20260101000000123_ascend_ms", started_ns=number)
    process = store.process()
    thread = process.thread()
    at = 0
    for step in range(12):
        begun = at
        for layer in range(LAYERS):
            usual = MS * speed * (1 if chance is None else chance.gauss(1, 0.02))
            end = at + round(usual * (1.8 if layer in slower else 1.0))
            thread.span(f"net.{layer}", Category.MODULE, at, end)
            at = end
        thread.step(step, begun, at)
    process.anchor(at + MS)
    return str(store.write())


def test_a_slower_layer_is_found_on_a_machine_whose_speed_changes_by_half(gate, tmp_path):
    """The step times of these two sides alone give no verdict."""
    speeds = [1.0, 1.5, 0.8, 1.2, 0.7], [1.3, 0.7, 0.9, 1.4, 0.8]
    base = [beside_neighbours(tmp_path, number, speed) for number, speed in enumerate(speeds[0])]
    new = [beside_neighbours(tmp_path, 10 + number, speed, {3}) for number, speed in enumerate(speeds[1])]
    code, content, _ = gate("--runs", *base, "--versus", *new)
    assert (code, content["verdict"]) == (1, "regression")
    assert metric(content, "step time")["verdict"] == "inconclusive"
    found = metric(content, "step time at equal speed")
    assert found["verdict"] == "regression" and found["ratio"] == pytest.approx(1 + 0.8 / LAYERS, rel=0.001)
    assert content["why"]["contributors"][0]["module"] == "net.3"
    assert "at equal speed +10.0%" in content["headline"]
    code, content, _ = gate("--save", tmp_path / "base.json", *base)
    code, content, _ = gate("--baseline", tmp_path / "base.json", *new, "--threshold", "0.9")
    assert metric(content, "step time at equal speed")["ratio"] == pytest.approx(1.1, rel=0.001)


def test_a_job_that_is_slower_in_all_its_parts_is_a_regression(gate, tmp_path):
    base = [beside_neighbours(tmp_path, number, 1 + number / 1000) for number in range(5)]
    new = [beside_neighbours(tmp_path, 10 + number, 1.1 + number / 1000) for number in range(5)]
    code, content, _ = gate("--runs", *base, "--versus", *new)
    assert (code, metric(content, "step time")["verdict"]) == (1, "regression")
    assert metric(content, "step time at equal speed")["verdict"] == "advisory"
    assert content["why"]["contributors"][0]["kind"] == "alike"


def test_runs_that_are_slower_as_the_machine_is_are_no_regression(gate, tmp_path):
    """The new runs are 18 % slower only because they ran by chance while the machine was slower."""
    speeds = [0.8, 0.9, 0.95, 1.05, 1.2], [1.0, 1.1, 1.12, 1.25, 1.3]
    base = [beside_neighbours(tmp_path, number, speed) for number, speed in enumerate(speeds[0])]
    new = [beside_neighbours(tmp_path, 10 + number, speed) for number, speed in enumerate(speeds[1])]
    code, content, _ = gate("--runs", *base, "--versus", *new)
    step = metric(content, "step time")
    assert step["p"] < 0.05 and step["ratio"] > 1.05
    assert (code, content["verdict"], step["verdict"]) == (0, "inconclusive", "inconclusive")
    assert "all modules changed alike" in step["why"]


@pytest.mark.parametrize("runs", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_few_runs_on_a_slower_machine_are_inconclusive(gate, tmp_path, runs):
    base, slow, worse = (
        [beside_neighbours(tmp_path, 10 * side + number, speed, layers) for number in range(runs)]
        for side, (speed, layers) in enumerate(((1.0, ()), (1.6, ()), (1.6, {3})))
    )
    code, content, _ = gate("--runs", *base, "--versus", *slow)
    assert (code, content["verdict"]) == (0, "inconclusive")
    assert metric(content, "step time")["why"].startswith("at equal speed +0.0%, so the machine may be slower: ")
    assert gate("--runs", *base, "--versus", *slow, "--strict")[0] == 4
    assert gate("--runs", *base, "--versus", *worse, "--tripwire", 1.2)[0] == 0
    assert gate("--runs", *base, "--versus", *worse, "--tripwire", 1.05)[0] == 1


@pytest.mark.slow
def test_a_machine_whose_speed_changes_causes_no_alarms(tmp_path):
    chance = random.Random(5)
    paths = [beside_neighbours(tmp_path, n, chance.uniform(0.6, 1.6), chance=chance) for n in range(30)]
    pool = sides.read(paths)
    drawn = [chance.sample(pool, 10) for _ in range(150)]
    decisions = [sides.gate(runs[:5], runs[5:], Rules()).decision for runs in drawn]
    assert sum(one.at_equal_speed for one in decisions) <= 1
    assert sum(one.verdict is Verdict.REGRESSION for one in decisions) <= 0.02 * len(decisions)


@pytest.mark.slow
def test_rates_of_runs_that_another_builder_wrote(tmp_path):
    chance = random.Random(11)
    factors = {"base": 1.0, "new": 1.1}
    pools = {}
    for side, factor in factors.items():
        (tmp_path / side).mkdir()
        pools[side] = sides.read([noisy_training(tmp_path / side, number, factor, chance) for number in range(100)])
    equal = trials.rates(pools["base"], pools["base"], 1000, chance)
    slower = trials.rates(pools["base"], pools["new"], 1000, chance)
    print(equal, slower)
    assert equal[Verdict.REGRESSION] <= 20
    # the gate finds 98 % on average, but the pools are random, too
    assert slower[Verdict.REGRESSION] >= 940


def test_the_help_names_every_exit_code(capsys):
    with pytest.raises(SystemExit):
        cli.main(["gate", "--help"])
    err = capsys.readouterr().out
    assert all(f"{code} " in err.partition("exit codes:")[2] for code in range(5))
    assert "With fewer runs, a time decides only if" in err


def test_temporary_recordings_are_deleted(gate, tmp_path, monkeypatch):
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    assert gate("--base", f"{JOB} 1", "--new", f"{JOB} 1", "--repeat", 1)[0] == 0
    assert os.listdir(tmp_path / "tmp") == []
