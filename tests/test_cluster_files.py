"""The four files that `ms-profiler cluster` writes equal those of `msprof-analyze cluster -m all`, cell by cell."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from made_ranks import make
from ms_profiler.analysis.cluster import vendor_files, vendor_steps
from ms_profiler.cli import main

COMMAND = Path(sys.prefix) / "tools" / "bin" / "msprof-analyze"
JSON = (vendor_files.COMMUNICATION, vendor_files.MATRIX, vendor_files.GROUPS)

data = os.environ.get("MS_PROFILER_TEST_DATA")
needs_data = pytest.mark.skipif(not data, reason="MS_PROFILER_TEST_DATA names no real results")


def contents(output):
    """Return the contents of all files that a command wrote: JSON values, or rows of cells."""
    folder = output / vendor_files.FOLDER
    found = {path.name: json.loads(path.read_text()) for path in folder.glob("*.json")}
    for path in folder.glob("*.csv"):
        with open(path, newline="") as stream:
            found[path.name] = list(csv.reader(stream))
    return found


def compared(directory, tmp_path):
    """Write the files with both programs, and return the contents of ours and of theirs."""
    command = [COMMAND, "cluster", "-d", directory, "-m", "all", "-o", tmp_path / "theirs"]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    assert vendor_files.write(str(directory), str(tmp_path / "ours")) == ([], [])
    return contents(tmp_path / "ours"), contents(tmp_path / "theirs")


@needs_data
@pytest.mark.slow
@pytest.mark.parametrize(("ranks", "steps"), [(2, 1), (64, 5)])
def test_every_cell_is_that_of_msprof_analyze(ranks, steps, tmp_path):
    make(Path(data) / "level1", tmp_path / "job", ranks, steps)
    ours, theirs = compared(tmp_path / "job", tmp_path)
    assert set(ours) == {*JSON, vendor_files.STEPS}
    assert ours == theirs


@needs_data
@pytest.mark.slow
def test_cells_of_a_job_with_pipeline_stages_and_a_layout(tmp_path):
    """Messages between stages and Megatron's arguments add rows for stages, and columns for the rank's place."""
    make(Path(data) / "level1", tmp_path / "job", 8, 3, pipelines=2, tensors=2)
    ours, theirs = compared(tmp_path / "job", tmp_path)
    assert ours == theirs
    header, *rows = ours[vendor_files.STEPS]
    assert header[-3:] == ["DP Index", "PP Index", "TP Index"]
    assert {row[1] for row in rows} == {"rank", "stage"}


@needs_data
def test_late_ranks_and_a_slow_link_are_named_where_some_ranks_are_missing(tmp_path, capsys):
    slow, missing = [4, 17], [9]
    make(Path(data) / "level1", tmp_path / "job", 20, 6, slow=slow, factor=3, missing=missing, link=(5, 3))
    assert main(["cluster", str(tmp_path / "job"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert sorted((late["rank"], late["cause"]) for late in found["late"]) == [(rank, "computing") for rank in slow]
    assert [(link["source"], link["target"]) for link in found["slow_links"]] == [(5, 3)]
    assert found["missing_ranks"] == missing


def test_layout_is_that_of_megatron():
    arguments = {"world_size": 16, "tensor_model_parallel_size": 2, "pipeline_model_parallel_size": 2}
    found = vendor_steps.layout({**arguments, "data_parallel_size": 4})
    assert found[0] == [0, 0, 0] and found[7] == [3, 0, 1] and found[8] == [0, 1, 0] and found[15] == [3, 1, 1]
    assert vendor_steps.layout(arguments) == {} and vendor_steps.layout("none") == {}
