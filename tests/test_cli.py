import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import ms_profiler
import pytest
from ascend_builder import sample
from compared_run import compared_run
from ms_profiler import cli
from ms_profiler.analysis.driver import engine
from ms_profiler.cli import summary as summary_command
from ms_profiler.store import layout
from ms_profiler.store.format import Category
from store_builder import MS, StoreBuilder, training, write_training

ROOT = str(Path(ms_profiler.__file__).parents[1])
#: program with which a job starts its analysis
PROGRAM = "import sys; sys.path[0] = sys.argv.pop(1); from ms_profiler.cli import main; sys.exit(main())"


def run(*words, env=None, **options):
    command = [sys.executable, "-c", PROGRAM, ROOT, *map(str, words)]
    environ = {"PATH": os.environ["PATH"]} if env is None else env
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=False, **options)


def test_analyse_says_one_line(tmp_path):
    path = write_training(tmp_path)
    done = run("analyse", path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"30 % of the step waits for data. {path}\n"
    assert (path / layout.SUMMARY).exists()


def test_analyze_is_the_same_and_takes_every_option(tmp_path):
    path = write_training(tmp_path)
    options = ["--step-list", "2-4", "--pretty", "--max-process-number", "1", "--data-simplification", "false"]
    done = run("analyze", tmp_path, *options)
    assert done.returncode == 0, done.stderr
    assert json.loads((path / layout.SUMMARY).read_text())["steps"]["chosen"] == [2, 3, 4]


@pytest.mark.parametrize(("text", "steps"), [("3", [3]), ("3,4,5", [3, 4, 5]), ("[3, 4]", [3, 4]), ("3-5", [3, 4, 5])])
def test_step_list_is_read(tmp_path, text, steps):
    path = write_training(tmp_path)
    assert run("analyse", path, "--step-list", text).returncode == 0
    assert json.loads((path / layout.SUMMARY).read_text())["steps"]["chosen"] == steps


def test_nothing_to_read_is_one_line_and_exit_code_2(tmp_path):
    done = run("analyse", tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("ms-profiler: ") and done.stderr.count("\n") == 1


def test_a_lack_of_memory_is_one_line_and_exit_code_2(monkeypatch, capsys):
    def run(args):
        raise MemoryError

    monkeypatch.setattr(summary_command, "run", run)
    assert cli.main(["summary", "DIR"]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("ms-profiler: ") and err.count("\n") == 1


def test_damage_is_one_line_on_stderr(tmp_path):
    store = training(tmp_path)
    store.processes[0].new_segment(version=7)
    path = store.write()
    done = run("analyse", path)
    assert done.returncode == 0 and done.stdout.count("\n") == 1
    what = "process_4242/000002.seg: format version 7, this program reads 1"
    assert done.stderr == f"ms-profiler: not all of {path} could be read: {what}\n"


def test_results_and_failures_side_by_side(tmp_path):
    path = write_training(tmp_path, name="a_1_20260101000000123_ascend_ms")
    (tmp_path / "b_2_20260101000000123_ascend_ms" / layout.FRAMEWORK).mkdir(parents=True)
    done = run("analyse", tmp_path)
    assert done.returncode == 2
    assert done.stdout.endswith(f"{path}\n") and done.stdout.count("\n") == 1
    assert "b_2_" in done.stderr and done.stderr.count("\n") == 1


def test_progress_is_shown_on_a_terminal_only(tmp_path, monkeypatch):
    path = write_training(tmp_path)
    leader, follower = pty.openpty()
    command = [sys.executable, "-c", PROGRAM, ROOT, "analyse", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=follower) as child:
        out, _ = child.communicate()
    os.close(follower)
    shown = os.read(leader, 10_000)
    os.close(leader)
    assert child.returncode == 0 and out.count(b"\n") == 1
    # the progress line is removed at the end, and nothing scrolls
    assert shown.endswith(b"\r\x1b[K") and b"\n" not in shown


@pytest.mark.parametrize("words", [["--version"], ["--help"], ["analyse", "--help"], ["summary", "--help"]])
def test_help_and_version(words):
    done = run(*words)
    assert done.returncode == 0 and "ms-profiler" in done.stdout
    if words == ["--version"]:
        assert done.stdout == f"ms-profiler {ms_profiler.__version__}\n"
    if words == ["--help"]:
        assert all(name in done.stdout for name in cli.COMMANDS)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "ms-profiler: the following arguments are required: COMMAND. `ms-profiler --help`"),
        (["nonsense"], "ms-profiler: there is no command nonsense. `ms-profiler --help`"),
        (["sumary", "x"], "there is no command sumary; do you mean summary? `ms-profiler --help`"),
        (["analyse"], "ms-profiler analyse: the following arguments are required: DIR. `ms-profiler analyse --help`"),
        (["analyse", "x", "--step-list", "a"], "argument --step-list: "),
        (["analyse", "x", "--data-simplification", "no"], "argument --data-simplification: "),
        (["summary", "x", "--top", "many"], "argument --top: a number of rows from 1 on, not many. "),
        (["summary", "x", "--jsn"], "unrecognized arguments: --jsn; do you mean --json? `ms-profiler summary --help`"),
    ],
)
def test_wrong_use_is_one_line_and_exit_code_2(words, said):
    done = run(*words)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert said in done.stderr and done.stderr.endswith(" --help` lists the arguments.\n")


def test_python_m(tmp_path):
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": ROOT}
    done = subprocess.run(
        [sys.executable, "-m", "ms_profiler", "--version"], env=environ, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("ms-profiler ")


def test_every_command_has_the_attributes_that_main_uses():
    for name in cli.COMMANDS:
        command = cli._load(name)
        assert name == command.NAME
        assert command.HELP.strip() == command.HELP and callable(command.add_arguments) and callable(command.run)


def test_summary_analyses_first_and_shows_the_finding(tmp_path):
    path = write_training(tmp_path)
    done = run("summary", path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("30 % of the step waits for data.\n")
    assert "\x1b" not in done.stdout
    assert all(line == line.rstrip() for line in done.stdout.splitlines())


def test_summary_leaves_a_current_result_alone(tmp_path):
    path = write_training(tmp_path)
    engine.analyse([path])
    content = json.loads((path / layout.SUMMARY).read_text())
    content["verdict"] = "Written by a test."
    (path / layout.SUMMARY).write_text(json.dumps(content))
    assert run("summary", path).stdout.startswith("Written by a test.\n")


@pytest.mark.parametrize("why", ["missing", "older", "running", "damaged"])
def test_summary_is_made_anew_when_it_has_to_be(tmp_path, why):
    path = write_training(tmp_path)
    engine.analyse([path])
    file = path / layout.SUMMARY
    content = json.loads(file.read_text())
    content["verdict"] = "Written by a test."
    if why == "running":
        content["run"]["processes"][0]["state"] = "running"
    file.write_text(json.dumps(content))
    assert summary_command._outdated(str(path)) == (why == "running")
    if why == "missing":
        file.unlink()
    elif why == "older":
        os.utime(file, ns=(0, 0))
    elif why == "damaged":
        file.write_text("{")
    assert summary_command._outdated(str(path))
    assert run("summary", path).stdout.startswith("30 %")


@pytest.mark.parametrize("form", ["text", "database"])
def test_a_result_of_another_tool(tmp_path, form):
    made = sample(tmp_path)
    path = made.text() if form == "text" else made.database()
    done = run("analyse", tmp_path)
    # in the step of 100 us, the device computes for 30 us, and only exchanges data for 10 us
    assert (done.returncode, done.stderr) == (0, "")
    share = {"text": 58, "database": 60}[form]
    launching = f"{share} % of the step goes into launching operators"
    assert done.stdout == f"60 % of the device's time is idle; {launching}. {path}\n"
    shown = run("summary", path, "--all").stdout
    assert "only communication" in shown and "step_trace_time.csv" in shown
    assert not summary_command._outdated(str(path))
    done = run("analyse", path, "--step-list", "7")
    assert done.returncode == 2 and "has no step 7. It has step 1." in done.stderr
    done = run("analyse", path, "--output", tmp_path / "out", "--pretty")
    assert done.stdout.endswith(f" {tmp_path / 'out' / path.name}\n")


def test_a_summary_that_is_not_ours_is_an_error(tmp_path):
    path = sample(tmp_path).text()
    (path / layout.SUMMARY).write_text("{}")
    done = run("summary", path)
    assert done.returncode == 2 and "--output DIR" in done.stderr and done.stderr.count("\n") == 1


def test_damage_of_another_tool_is_a_warning(tmp_path):
    path = sample(tmp_path).text()
    trace = path / layout.OUTPUT / layout.TRACE_VIEW
    content = trace.read_text()
    trace.write_text(content[: len(content) * 3 // 4])
    done = run("analyse", path)
    assert done.returncode == 0 and done.stderr.startswith(f"ms-profiler: not all of {path} could be read: trace_view")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("content", ["", "{", "[]"])
def test_nothing_readable_of_another_tool_is_one_line_and_exit_code_2(tmp_path, content):
    path = sample(tmp_path).text(table=False)
    (path / layout.OUTPUT / layout.TRACE_VIEW).write_text(content)
    done = run("analyse", path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("ms-profiler: ") and done.stderr.count("\n") == 1
    # the command has written no file
    assert sorted(file.name for file in path.rglob("*")) == [
        "ASCEND_PROFILER_OUTPUT",
        "profiler_info_0.json",
        "trace_view.json",
    ]


def test_a_trace(tmp_path):
    path = tmp_path / "a.pt.trace.json"
    path.write_text(json.dumps([{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 1, "dur": 2}]))
    page = run("summary", tmp_path).stdout
    assert page.startswith("100 % of the time of the steps is spent computing") and "Device" not in page
    done = run("analyse", path)
    assert done.returncode == 0 and done.stdout.endswith(f" {tmp_path / 'a.pt.trace_analysis'}\n")


def test_reader_that_leaves_early_is_no_error(tmp_path):
    store = StoreBuilder(tmp_path)
    thread = store.process().thread()
    thread.span("x" * 4000, Category.DATA, 0, MS)
    path = store.write()
    command = f"{sys.executable} -c '{PROGRAM}' {ROOT} summary {path} | true"
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_interrupting_is_quiet(monkeypatch):
    def interrupted(words):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "_overview", interrupted)
    assert cli.main([]) == 130


def test_missing_rich_is_an_error_that_names_the_extra(
    tmp_path,
):
    (tmp_path / "hidden" / "rich").mkdir(parents=True)
    (tmp_path / "hidden" / "rich" / "__init__.py").write_text("raise ModuleNotFoundError('rich')")
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": f"{tmp_path / 'hidden'}:{ROOT}"}
    command = [sys.executable, "-m", "ms_profiler", "summary", str(write_training(tmp_path))]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("ms-profiler: ") and "pip install 'ms-profiler[analysis]'" in done.stderr


def test_the_last_line_of_a_job_names_its_largest_part_outside_of_the_steps(tmp_path, capfd):
    result = compared_run(tmp_path, steps=40, evaluation=150.0)
    assert cli.main(["analyse", "--announce", str(result)]) == 0
    line = capfd.readouterr().out
    assert re.search(r"Outside of the steps: evaluation \d\d % of the training; the steps \d\d %\. More: ", line)
    assert line.endswith(f"ms-profiler summary {result}\n")


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (Category.COMPILE, "Recompiling: 3 of 120 steps compiled again, which took "),
        (None, "One of 30 steps takes longer (steps 30, 60, 90, ...): 150.0 ms, the others 10.000 ms (medians); "),
        # the verdict has told this already
        (Category.DATA, None),
    ],
)
def test_the_last_line_of_a_job_names_the_largest_loss_besides_the_verdict(tmp_path, capfd, kind, text):
    """Each 30th step takes 140 ms longer; the others compute for 8 ms of 10 ms, but the data takes as long."""
    store = StoreBuilder(tmp_path, framework={"name": "torch", "version": "2.13.0", "mode": "eager", "device": "CPU"})
    thread, at = store.process().thread(), 50 * MS
    for number in range(120):
        begin, lost = at, 140 * MS * (number % 30 == 0)
        if lost and kind is not None:
            thread.span("Net.forward", kind, at, at + lost)
        if lost and kind == Category.COMPILE and number:
            thread.instant("recompile Net.forward: another shape", Category.COMPILE, at + 1)
        at += lost
        if kind == Category.DATA:
            thread.span("fetch", kind, at, at + 5 * MS)
        thread.span("Net", Category.MODULE, at + (5 if kind == Category.DATA else 1) * MS, at + 9 * MS)
        thread.span("SGD.step", Category.OPTIMIZER, at + 9 * MS, at + 10 * MS)
        thread.step(number, begin, at + 10 * MS)
        at += 10 * MS
    assert cli.main(["analyse", "--announce", str(store.write())]) == 0
    line = capfd.readouterr().out
    assert text is None or f". {text}" in line, line
    assert line.count("%") >= (2 if text else 1) and ("takes longer" in line) == (kind is None), line


def test_the_last_line_of_a_job_names_the_folder_of_all_ranks(tmp_path, capfd):
    ranks = [
        training(tmp_path, name=f"host_{number}_20260101000000123_ascend_ms", rank=number, world_size=2).write()
        for number in (1, 0)
    ]
    assert cli.main(["analyse", "--announce", *map(str, ranks)]) == 0
    line = capfd.readouterr().out
    assert line.startswith("ms-profiler: Rank 1: ")
    assert line.endswith(f" More about 2 ranks: ms-profiler summary {tmp_path}\n")
