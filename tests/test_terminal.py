import io
import json

import pytest
from ms_profiler.analysis.driver import engine
from ms_profiler.analysis.report import terminal
from ms_profiler.store import layout
from ms_profiler.store.format import Category
from rich.cells import cell_len
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
    assert "20 steps (script)" in lines[2] and "without 2 that compiled or came first" in lines[2]
    text = "\n".join(lines)
    order = [
        "The whole run",
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
    backward = next(line for line in lines if line.startswith("  backward"))
    assert "4.000 ms" in backward and "40.0 %" in backward and "█" in backward


def test_missing_parts_are_shown(summary):
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


def test_a_machine_that_was_busy_with_others_is_a_remark(summary):
    assert "The machine" not in shown(summary)
    summary["machine"] = {"queued_share": 0.125, "pressure": 0.5, "busy": True}
    text = " ".join(shown(summary).split())
    assert (
        "The machine it was busy with other programs or ranks: threads of the job waited for a processor in 50.0 %"
        in text
    )
    assert "the stepping thread in 12.5 % of the steady steps" in text and "Advice" in text


@pytest.mark.parametrize("width", [40, 60, 200])
def test_tables_fit_the_terminal(summary, width):
    summary["module_tree"]["rows"][0]["module"] = "a very long module name " * 10
    lines = shown(summary, width, force_terminal=True, color_system=None).splitlines()
    start, end = lines.index("Phases of a step"), lines.index("Data")
    assert max(map(len, lines[start:end])) <= width


@pytest.mark.parametrize("width", [80, 100, 120, 160, 200])
@pytest.mark.parametrize("terminal", [True, False])
def test_long_names_lose_their_middle_and_numbers_are_whole(summary, width, terminal):
    name = (
        "void at::native::" + "kernel<c10::complex<float>, 你, at::detail::Array<char*, 3>>" * 5 + "::operator()(int)"
    )
    row = summary["top_operators"][0]
    row.update(name=name, self_ms=123456.789, total_ms=234567.891, count=9876543, average_ms=345.678)
    tree = summary["module_tree"]["rows"][0]
    tree.update(module=name, total_ms=987.654, self_ms=876.543, share=0.1234)
    text = shown(summary, width, force_terminal=terminal, color_system=None)
    (operator,) = (line for line in text.partition("\nOperators")[2].splitlines() if "9876543" in line)
    for part in ("  void at::nat", "…", "tor()(int)", "123.46 s", "234.57 s", "345.7 ms"):
        assert part in operator, part
    (module,) = (line for line in text.splitlines() if "12.3 %" in line)
    assert "987.7 ms" in module and "876.5 ms" in module and module.startswith("  void") and "int)" in module
    tables = text[text.index("\nPhases of a step") : text.index("\nAdvice")]
    assert max(map(cell_len, tables.splitlines())) <= width
    if "forward" not in text.partition("\nModules")[2].splitlines()[1]:
        assert width == 80 and "a wider terminal also shows: forward" in text


def test_lines_on_a_terminal_end_between_words(summary):
    summary["advice"][0]["evidence"] = words = " ".join(f"word{number:03}" for number in range(60))
    text = shown(summary, 80, force_terminal=True, color_system=None)
    assert max(map(len, text.splitlines())) <= 80
    assert set(words.split()) <= set(text.split())
    assert words in shown(summary, 80)


def test_plain_without_a_terminal_and_coloured_with_one(summary):
    assert "\x1b" not in shown(summary)
    assert "\x1b[1m" in shown(summary, force_terminal=True, color_system="standard")


def test_markup_in_names_is_text(tmp_path):
    store = training(tmp_path)
    thread = store.processes[0].thread()
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


def test_the_time_of_kernels_is_beside_the_time_of_the_host(summary, kernels):
    text = shown(kernels | {"phases": summary["phases"]})
    assert "\nPhases of a step on the host, which queues kernels ahead, and the time of these kernels" in text
    lines = text.partition("Phases of a step on the host")[2].partition("What bounds")[0].splitlines()
    found = {line.split()[0]: line.split()[-2:] for line in lines if line.startswith("  ")}
    # each of the 10 steps has 2 ms forward, 3 ms backward and 0.5 ms in the optimizer
    assert found["forward"] == ["2.000", "ms"] and found["backward"] == ["3.000", "ms"]
    assert found["optimizer"] == ["0.500", "ms"] and found["data"][-1] == "-"


def test_kernels_are_shown_by_operator_and_module(kernels):
    text = shown(kernels)
    assert "Operators, by 30 kernels of 55.000 ms, 100 % of them bound to a module" in text
    assert "Modules, by their kernels" in text
    (row,) = (line for line in text.splitlines() if line.strip().startswith("fc "))
    assert "55.000 ms" in row and "100.0 %" in row
    assert "to write kernels 2 times" in text


def test_a_lost_window_is_reported(kernels):
    assert "kernels of window 1, none of which could be read: from 0.150004 s to 0.251002 s" in shown(kernels)
    kernels["completeness"]["damaged_kernels"] = 3
    assert "3 kernels could not be read" in shown(kernels)


def test_whole_names_where_there_is_no_terminal(summary, capsys):
    summary["module_tree"]["rows"][0]["module"] = name = "a_very_long_module_name." * 4
    terminal.show(summary, "/data/result")
    assert name in capsys.readouterr().out
