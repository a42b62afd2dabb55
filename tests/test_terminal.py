import io
import json

import pytest
from ms_profiler.analysis import engine
from ms_profiler.analysis.report import terminal
from ms_profiler.store import layout
from ms_profiler.store.format import Category
from rich.console import Console
from store_builder import MS, compiled, training


def shown(summary, width=100, **options):
    stream = io.StringIO()
    terminal.show(summary, "/data/result", Console(file=stream, width=width, highlight=False, **options))
    return stream.getvalue()


@pytest.fixture
def summary(tmp_path):
    path = training(tmp_path, world_size=8, rank=2).write()
    engine.analyse([path])
    return json.loads((path / layout.SUMMARY).read_text())


def test_finding_comes_first_then_where_the_time_went(summary):
    lines = shown(summary).splitlines()
    assert lines[0] == "30 % of the step waits for data."
    assert "mindspore 2.10.0 pynative CPU" in lines[1] and "rank 2 of 8" in lines[1]
    assert "20 steps (script)" in lines[2] and "without 1 that compiled" in lines[2]
    text = "\n".join(lines)
    order = [
        "Phases of a step",
        "Operators",
        "Modules",
        "Data",
        "Advice",
        "How it ended",
        "Cost of profiling",
        "Files",
    ]
    assert [text.index(title) for title in order] == sorted(text.index(title) for title in order)
    backward = next(line for line in lines if "backward" in line)
    assert "4.000 ms" in backward and "40.0 %" in backward and "█" in backward


def test_what_is_missing_is_told(summary):
    summary["not_collected"] = [{"what": "kernels", "why": "no device"}]
    summary["completeness"].update(dropped=5, torn=2)
    summary["hooks"]["failed"] = {"mindspore.x": "no such thing"}
    summary["clock"]["wall_steps"] = [{"at_ns": 1, "jump_ns": -2_000_000}]
    summary["run"]["processes"][0]["state"] = "killed or vanished"
    text = shown(summary)
    for part in (
        "kernels: no device",
        "5 records were refused",
        "2 records were torn",
        "mindspore.x: no such thing",
        "-2.000 ms",
        "killed or vanished",
    ):
        assert part in text, part


def test_complete_run_has_no_such_section(summary):
    text = shown(summary)
    assert "Not collected" not in text and "Not complete" not in text


@pytest.mark.parametrize("width", [40, 60, 200])
def test_tables_fit_the_terminal(summary, width):
    summary["modules"][0]["name"] = "a very long module name " * 10
    lines = shown(summary, width=width).splitlines()
    start, end = lines.index("Phases of a step"), lines.index("Data")
    assert max(map(len, lines[start:end])) <= width


def test_plain_without_a_terminal_and_coloured_with_one(summary):
    assert "\x1b" not in shown(summary)
    assert "\x1b[1m" in shown(summary, force_terminal=True, color_system="standard")


def test_markup_in_names_is_text(tmp_path):
    store = training(tmp_path)
    thread = store.processes[0].thread(2, "x", 4300)
    thread.span("[bold]not markup[/]", Category.MODULE, 0, 500 * MS)
    path = store.write()
    engine.analyse([path])
    assert "[bold]not markup[/]" in shown(json.loads((path / layout.SUMMARY).read_text()))


def test_run_without_steps(tmp_path, summary):
    summary["steps"].update(source="whole_run", why="no step was marked: the whole run counts as one")
    assert "no step was marked" in shown(summary)
    summary["cost"].update(estimated_ms=None)
    assert "was not measured" in shown(summary)


@pytest.fixture
def kernels(tmp_path):
    store = compiled(tmp_path, windows=2)
    store.processes[0].windows[1] = {}
    path = store.write()
    engine.analyse([path])
    return json.loads((path / layout.SUMMARY).read_text())


def test_kernels_are_shown_by_operator_and_module(kernels):
    text = shown(kernels)
    assert "Operators, by 30 kernels of 55.000 ms, 100 % of them bound to a module" in text
    assert "Modules, by their kernels" in text
    (row,) = (line for line in text.splitlines() if "network._backbone.fc" in line)
    assert "50.000 ms" in row and "90.9 %" in row
    assert "and writing kernels 2 times" in text


def test_lost_window_is_told(kernels):
    assert "kernels of window 1, none of which could be read: from 0.150004 s to 0.251002 s" in shown(kernels)
    kernels["completeness"]["damaged_kernels"] = 3
    assert "3 kernels could not be read" in shown(kernels)


def test_module_spans_come_before_kernels(kernels, summary):
    kernels["modules"] = summary["modules"]
    assert "Modules, by their kernels" not in shown(kernels)


def test_whole_names_where_there_is_no_terminal(summary, capsys):
    summary["modules"][0]["name"] = name = "a_very_long_module_name." * 4
    terminal.show(summary, "/data/result")
    assert name in capsys.readouterr().out
