"""Every summary fits on one screen of 80 columns and 24 lines."""

import copy
import io
import json

import pytest
from ms_profiler import cli
from ms_profiler.analysis.driver import engine
from ms_profiler.analysis.report import screen
from ms_profiler.store import layout
from rich.cells import cell_len
from rich.console import Console
from store_builder import training


def shown(summary, width=80):
    stream = io.StringIO()
    screen.show(summary, "/data/result", Console(file=stream, width=width, highlight=False))
    return stream.getvalue().splitlines()


@pytest.fixture(scope="module")
def summary(tmp_path_factory):
    path = training(tmp_path_factory.mktemp("screen"), world_size=8, rank=2).write()
    engine.analyse([path])
    return json.loads((path / layout.SUMMARY).read_text())


def test_it_has_the_finding_steps_bounds_operators_advice_and_where_to_look_next(summary):
    lines = shown(summary)
    text = "\n".join(lines)
    assert lines[0] == "30 % of the step waits for data."
    order = [
        "rank 2 of 8",
        "20 steps: median 10.000 ms",
        "What bounds a step",
        "Operators",
        "MatMul",
        "Advice: ",
        "Next: ",
    ]
    assert [text.index(part) for part in order] == sorted(text.index(part) for part in order)
    assert lines[-1] == "  /data/result" and "summary --all DIR" in lines[-2]


def longest(summary):
    """Return a summary with longer and more entries of each kind than a screen has room for."""
    long = copy.deepcopy(summary)
    long["verdict"] = " ".join(["The longest finding that anybody has seen names modules and kernels;"] * 5)
    row = {"self_ms": 123456.789, "total_ms": 1234567.891, "count": 123456789, "average_ms": 12.345}
    long["top_operators"] = [{**row, "name": f"void at::native::{'x' * 200}<{n}>"} for n in range(20)]
    long["advice"] = [{**long["advice"][0], "evidence": "word " * 60, "action": "do " * 90}] * 3
    long["bounds"]["shares"] = {f"a part with a name of words {n}": 0.1 for n in range(10)}
    long["not_collected"] = [{"what": "kernels", "why": "no device"}]
    long["run"]["processes"][0]["state"] = "killed or vanished"
    lengths = {"before_ms": 1.0, "after_ms": 2.0, "statistic": "medians"}
    long["shift"] = {"step": 7, "earliest": 6, "latest": 9, **lengths, "modules": []}
    return long


@pytest.mark.parametrize("width", [80, 120, 200])
def test_it_fits_the_screen(summary, width):
    for content in (summary, longest(summary)):
        lines = shown(content, width)
        assert len(lines) <= screen.LINES < 24
        assert max(map(cell_len, lines)) <= width


@pytest.mark.parametrize(("error", "shows"), [(None, "-"), (5.0, None), (30.0, "30.000 ms")])
def test_standard_errors_of_operators_are_shown_if_they_are_large_or_unknown(summary, error, shows):
    row = {"name": "aten::mm", "self_ms": 90.0, "total_ms": 100.0, "count": 50, "average_ms": 2.0}
    content = {**summary, "top_operators": [{**row, "scaled": True, "total_ms_error": error}]}
    title, found = (line for line in shown(content) if line.startswith(("Operators", "  aten::mm")))
    assert title.split()[1:] == ["self", "total", *(["±"] if shows else []), "calls", "average"]
    figures = [each.strip() for each in found.split("  ") if each.strip()]
    assert figures == ["aten::mm", "90.000 ms", "100.0 ms", *([shows] if shows else []), "50", "2.000 ms"]


def test_missing_parts_and_the_end_of_a_process_are_shown(summary):
    long = {**longest(summary), "verdict": "Short."}
    text = "\n".join(shown(long))
    assert "1 thing is missing" in text and "killed or vanished" in text


BY_PARENT = "ended by its parent"


@pytest.mark.parametrize(
    ("states", "shows"),
    [
        (["exit", BY_PARENT, BY_PARENT], []),
        (["exception: ValueError", BY_PARENT, BY_PARENT], ["exception: ValueError"]),
        (["exit", "killed by SIGKILL", BY_PARENT], ["fork Process-1 (pid 201): killed by SIGKILL"]),
        (["exit", "exit code 3", "exit code 3"], ["2 other processes: exit code 3"]),
        (["killed or vanished", "killed or vanished", "exit"], ["killed or vanished"]),
        ([BY_PARENT, "exit", "exit"], [BY_PARENT]),
    ],
)
def test_the_line_of_the_run_names_ends_that_matter(summary, states, shows):
    content = copy.deepcopy(summary)
    (main,) = content["run"]["processes"]
    workers = [{**main, "role": "fork", "name": f"Process-{number}", "pid": 200 + number} for number in (1, 2)]
    content["run"]["processes"] = [
        {**process, "state": state} for process, state in zip([main, *workers], states, strict=True)
    ]
    assert shown(content, 200)[1].split("; ")[1:] == shows


def test_a_rank_that_its_parent_ended_is_named(summary):
    content = several(summary, 2)
    main, worker = content["run"]["processes"][0], content["whole_run"][1]
    content["run"]["processes"] = [main, {**main, "role": "fork", "pid": worker["pid"], "state": BY_PARENT}]
    assert shown(content, 200)[1].endswith(f"; {BY_PARENT}")


def test_a_run_without_steps_or_operators_has_a_screen(summary):
    none = copy.deepcopy(summary)
    none["steps"]["count"], none["top_operators"], none["advice"], none["bounds"] = 0, [], [], None
    none["phases"] = {}
    assert "No step was recorded." in shown(none)


def test_the_time_on_the_device_is_shown_where_the_host_runs_ahead(summary):
    step = {"number": 0, "length_ms": 50.0}
    content = {**summary, "device": {"form": "kineto", "time": {"total": {}, "steps": [step] * 3}}}
    content["framework"] = {**summary["framework"], "device": "GPU"}
    assert "On the device a step takes 50.000 ms" in " ".join(shown(content))
    step["length_ms"] = 10.0
    assert "On the device" not in " ".join(shown(content))
    step["length_ms"], content["framework"]["device"] = 50.0, "CPU"
    assert "On the device" not in " ".join(shown(content))


def test_all_shows_the_rest(tmp_path, capsys):
    path = training(tmp_path).write()
    assert cli.main(["summary", str(path)]) == 0
    one = capsys.readouterr().out
    assert cli.main(["summary", str(path), "--all"]) == 0
    rest = capsys.readouterr().out
    assert len(one.splitlines()) <= screen.LINES < len(rest.splitlines())
    assert "Phases of a step" in rest and "Cost of profiling" in rest


def test_a_part_outside_of_the_steps_that_is_longer_than_they_are_is_named(summary):
    assert not any(line.startswith("Outside of the steps") for line in shown(summary))
    rollout = copy.deepcopy(summary)
    parts = [("import", 0.3), ("steps", 0.1), ("evaluation", 0.45), ("between steps", 0.15)]
    rollout["whole_run"][0]["parts"] = [{"part": part, "share": share} for part, share in parts]
    assert "Outside of the steps: evaluation 45 % of the run; the steps 10 %" in shown(rollout)


def test_work_between_calls_of_a_network_is_not_told_as_calls(summary):
    acting = copy.deepcopy(summary)
    calls = {"part": "network calls", "share": 0.6, "training_share": 0.75}
    for forward, words in ((30.0, " with the work between them (30 % in the calls)"), (60.0, "")):
        calls["contains_ms"] = {"forward": forward, "other": 100.0 - forward}
        acting["whole_run"][0]["parts"] = [{"part": "steps", "share": 0.2, "training_share": 0.25}, calls]
        assert f"Outside of the steps: network calls{words} 75 % of the training; the steps 25 %" in shown(acting, 200)


def test_the_phase_that_takes_most_of_the_time_between_steps_is_named(summary):
    paused = copy.deepcopy(summary)
    between = {"part": "between steps", "share": 0.4, "training_share": 0.5}
    paused["whole_run"][0]["parts"] = [{"part": "steps", "share": 0.4, "training_share": 0.5}, between]
    for data, words in ((60.0, ", mostly data,"), (40.0, "")):
        between["contains_ms"] = {"other": 100.0 - data, "data": data}
        assert f"Outside of the steps: between steps{words} 50 % of the training; the steps 50 %" in shown(paused, 200)


def test_a_part_is_named_that_takes_much_of_the_training_but_little_of_the_run(summary):
    trained = copy.deepcopy(summary)
    parts = [("import", 0.5, 0.0), ("set-up", 0.3, 0.0), ("steps", 0.12, 0.66), ("evaluation", 0.06, 0.32)]
    trained["whole_run"][0]["parts"] = [
        {"part": part, "share": share, "training_share": training} for part, share, training in parts
    ]
    assert "Outside of the steps: evaluation 32 % of the training; the steps 66 %" in shown(trained)
    trained["whole_run"][0]["parts"][-1]["training_share"] = 0.22
    assert "Outside of the steps: evaluation 22 % of the training; the steps 66 %" in shown(trained)
    trained["whole_run"][0]["parts"][-1]["training_share"] = 0.09
    assert not any(line.startswith("Outside of the steps") for line in shown(trained))


def several(summary, count):
    """Return a summary of a run in which `count` processes have steps."""
    content = copy.deepcopy(summary)
    (first,) = content["whole_run"]
    others = [
        {**first, "pid": 200 + n, "role": "fork", "name": f"Process-{n}", "steps": 50 + n} for n in range(1, count)
    ]
    content["whole_run"] += [{**each, "step_median_ms": 64.5} for each in others]
    return content


def test_it_names_the_process_whose_steps_it_shows_and_the_others(summary):
    assert not any("processes" in line for line in shown(summary))
    lines = shown(several(summary, 2), 200)
    assert lines[2].startswith("20 steps of main (pid 4242), one of 2 processes that have steps: median 10.000 ms")
    assert lines[3] == "The other: fork Process-1 (pid 201) 51 steps, median 64.500 ms"
    assert any(line.startswith("Operators of all processes ") for line in lines)
    lines = shown(several(summary, 6), 200)
    assert lines[3].startswith("The others: fork Process-1 (pid 201) 51 steps, median 64.500 ms; fork Process-2 (pid")
    assert lines[3].endswith("; 2 more with --all") and lines[3].count("steps, median") == 3


def test_time_of_other_processes_of_the_job_is_named_as_such(summary):
    content = several(summary, 2)
    parts = [("steps", 0.07), ("other processes of the job", 0.93)]
    content["whole_run"][0]["parts"] = [{"part": part, "share": share} for part, share in parts]
    named = "other processes of the job, before this process began or after it ended, 93 % of the run; the steps 7 %"
    assert f"Outside of the steps of main (pid 4242): {named}" in shown(content, 200)
