import json
import random
import re

import pytest
from ms_profiler import cli
from ms_profiler.gate import history, made_runs
from store_builder import training


@pytest.fixture
def file(tmp_path):
    return tmp_path / "history.jsonl"


def lines(file, values, counts=(), **fingerprint):
    """Append runs with these step times in ms to a history file, and with these synchronisations a step."""
    known = dict.fromkeys(history.SERIES, "") | fingerprint
    with open(file, "a") as stream:
        for number, value in enumerate(values):
            entry = {"version": 1, "label": f"commit {number}", "started_ns": random.randrange(10**18)}
            figures = {"step time": value}
            if counts:
                figures["synchronisations a step"] = counts[number]
            stream.write(json.dumps(entry | {"fingerprint": known, "figures": figures}) + "\n")


def run_history(capsys, *words):
    code = cli.main(["history", *map(str, words)])
    shown = capsys.readouterr()
    return code, shown.out, shown.err


def test_runs_are_appended_once(file, tmp_path, capsys):
    chance = random.Random(1)
    steps = [made_runs.durations(made_runs.Noise(0.01), chance)[:12] for _ in range(2)]
    paths = [made_runs.write(str(tmp_path), number, each) for number, each in enumerate(steps)]
    assert run_history(capsys, file, paths[0], "--label", "abc") == (
        0,
        "No change in 1 run.\n",
        f"ms-profiler: {file}: 1 appended.\n",
    )
    assert run_history(capsys, file, *paths)[2] == f"ms-profiler: {file}: 1 appended, 1 were in it.\n"
    first, second = history.read(str(file))
    assert first["label"] == "abc" and second["label"].startswith("made_")
    assert first["figures"]["step time"] == pytest.approx(sorted(steps[0][1:])[5] / 1e6, rel=1e-3)


def test_a_shift_is_reported_with_its_first_run(file, capsys):
    chance = random.Random(2)
    lines(file, [chance.gauss(100, 1) for _ in range(15)])
    lines(file, [chance.gauss(103, 1) for _ in range(10)])
    code, out, _ = run_history(capsys, file)
    assert code == 0 and re.fullmatch(r"step time: \+[23]\.\d% from run 1[567] on \(commit \d+\), p 0\.00\d\n", out), (
        out
    )
    code, out, _ = run_history(capsys, file, "--json")
    (found,) = json.loads(out)["changes"]
    assert found["metric"] == "step time" and 15 <= found["run"] <= 17


def test_runs_of_another_machine_are_another_series(file, capsys):
    chance = random.Random(3)
    lines(file, [chance.gauss(100, 1) for _ in range(12)], cpu="one")
    lines(file, [chance.gauss(140, 1) for _ in range(12)], cpu="another")
    assert run_history(capsys, file)[1] == "No change in 24 runs.\n"


def test_a_count_that_was_0_is_reported_with_its_numbers(file, capsys):
    lines(file, [100.0] * 20, counts=[0] * 10 + [3] * 10)
    code, out, _ = run_history(capsys, file)
    assert (code, out) == (0, "synchronisations a step: 0 -> 3 from run 11 on (commit 10), p 0.001\n")
    (found,) = json.loads(run_history(capsys, file, "--json")[1])["changes"]
    assert (found["before"], found["after"], found["ratio"]) == (0, 3, None)


def test_a_count_that_fell_to_0_is_reported(file, capsys):
    lines(file, [100.0] * 20, counts=[3] * 10 + [0] * 10)
    assert "synchronisations a step: -100.0% from run 11 on" in run_history(capsys, file)[1]


def test_a_run_is_appended_to_a_file_whose_last_line_has_no_end(file, tmp_path, capsys):
    lines(file, [100.0, 100.0])
    file.write_text(file.read_text().rstrip("\n"))
    path = made_runs.write(str(tmp_path), 1, [10_000_000] * 12)
    assert run_history(capsys, file, path)[:2] == (0, "No change in 3 runs.\n")
    assert run_history(capsys, file)[:2] == (0, "No change in 3 runs.\n")


def test_a_run_that_is_not_whole_is_refused(file, tmp_path, capsys):
    code, _, err = run_history(capsys, file, training(tmp_path, world_size=2).write())
    assert code == 2 and "lacks rank 1" in err
    assert not file.exists()


WHOLE = {"version": 1, "label": "a", "started_ns": 1, "fingerprint": {}, "figures": {"step time": 1}}


@pytest.mark.parametrize(
    "line",
    [
        "no JSON",
        "[]",
        "[" * 5000,
        "\udcff",
        '{"version": 9, "figures": {"step time": 1}}',
        '{"version": 1, "figures": {}}',
        *(json.dumps(WHOLE | odd) for odd in ({"version": "1"}, {"label": []}, {"started_ns": []})),
        *(json.dumps(WHOLE | {"figures": {"step time": odd}}) for odd in ("x", float("nan"))),
    ],
    ids=range(11),
)
def test_a_line_of_something_else_is_named(file, capsys, line):
    lines(file, [100.0])
    with open(file, "a", errors="surrogateescape") as stream:
        stream.write(line + "\n")
    code, _, err = run_history(capsys, file)
    assert code == 2 and f"{file}, line 2," in err and err.count("\n") == 1


def test_no_history_is_one_line(file, capsys):
    code, _, err = run_history(capsys, file)
    assert code == 2 and err.startswith("ms-profiler: There is no history")
