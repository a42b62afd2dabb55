import csv
import io
import json

import polars as pl
import pytest
from ms_profiler.analysis.report import rows
from store_builder import MS, write_training
from test_cli import run

QUERY = "select name, count(*) as n, sum(dur) as total from spans where category = 'data' group by name"


def test_the_answer_is_a_table(tmp_path):
    done = run("sql", write_training(tmp_path), QUERY)
    assert (done.returncode, done.stderr) == (0, "")
    heading, _, row = done.stdout.splitlines()
    assert heading.split() == ["name", "n", "total"]
    assert row.split() == ["next", "20", str(60 * MS)]


def test_rows_are_not_cut_without_a_terminal(tmp_path):
    path = write_training(tmp_path)
    done = run("sql", path, f"select '{'x' * 500}' as text, '[bold]' as other, null as none from steps limit 1")
    assert done.stdout.splitlines()[2].split() == ["x" * 500, "[bold]"]


@pytest.mark.parametrize("width", ["20", "60", "200"])
def test_numbers_are_whole_on_any_terminal(monkeypatch, width):
    monkeypatch.setenv("COLUMNS", width)
    monkeypatch.setenv("TERM", "xterm")
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    texts, numbers = ["aten::a_long_name_of_an_operator", "b"], [1_795_345_568_806_741_373, 2]
    rows.show(
        pl.DataFrame({"name": texts, "start_ns": numbers, "end_ns": numbers, "mean": [12345.678901, None]}), terminal
    )
    shown = terminal.getvalue().split()
    assert shown.count(str(numbers[0])) == 2 and "12345.678901" in shown
    assert ("aten::a_long_name_of_an_operator" in shown) == (width == "200")


def test_csv_and_json(tmp_path):
    path = write_training(tmp_path)
    found = list(csv.DictReader(io.StringIO(run("sql", path, QUERY, "--format", "csv").stdout)))
    assert found == [{"name": "next", "n": "20", "total": str(60 * MS)}]
    assert json.loads(run("sql", path, QUERY, "--format", "json").stdout) == [
        {"name": "next", "n": 20, "total": 60 * MS}
    ]


def test_several_directories(tmp_path):
    paths = [write_training(tmp_path, name=f"h_{rank}_20260101000000123_ascend_ms", rank=rank) for rank in range(2)]
    done = run("sql", *paths, "select rank, count(*) as n from steps group by rank order by rank", "--format", "csv")
    assert done.stdout == "rank,n\n0,20\n1,20\n"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("select * from nothing", "There is no table nothing. There are spans, "),
        ("select nothing from steps", "There is no column nothing. steps has directory, rank, step, "),
        ("nothing", "The query cannot be run: "),
    ],
)
def test_an_error_is_one_line_and_exit_code_2(tmp_path, text, says):
    done = run("sql", write_training(tmp_path), text)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"ms-profiler: {says}") and done.stderr.count("\n") == 1


def test_a_missing_directory_is_an_error_even_if_the_query_names_no_table(tmp_path):
    done = run("sql", str(tmp_path / "nothing"), "select 1")
    assert (done.returncode, done.stdout) == (2, "") and "No such file or directory" in done.stderr


def test_missing_parts_are_reported_on_stderr(tmp_path):
    done = run("sql", write_training(tmp_path), "select * from memory", "--format", "json")
    assert (done.returncode, done.stdout) == (0, "[]\n")
    assert done.stderr.startswith("ms-profiler: memory is empty in ") and done.stderr.count("\n") == 1
