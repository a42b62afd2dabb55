"""What MindStudio's own command makes of our result directories.

It has an environment of its own inside ours, made by `make test`: it needs numpy 2, and MindSpore numpy 1.
"""

import csv
import subprocess
import sys
from pathlib import Path

import pytest
from ms_profiler.analysis import engine
from store_builder import write_training

COMMAND = Path(sys.prefix) / "tools" / "bin" / "msprof-analyze"


@pytest.fixture
def results(tmp_path):
    """The results of two ranks under one parent."""
    names = [f"host_{pid}_2026010100000012{pid}_ascend_ms" for pid in (1, 2)]
    paths = [
        write_training(tmp_path / "data", name=name, rank=rank, world_size=2, steps=20 - rank)
        for rank, name in enumerate(names)
    ]
    engine.analyse(paths)
    return paths


def run(*words):
    done = subprocess.run([COMMAND, *map(str, words)], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_cluster_accepts_both_ranks(results, tmp_path):
    run("cluster", "-d", results[0].parent, "-m", "all", "-o", tmp_path / "out")
    (file,) = (tmp_path / "out").rglob("cluster_step_trace_time.csv")
    with open(file, newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert sorted({row["Index"] for row in rows}) == ["0", "1"]
    assert len(rows) == 20 + 19
    assert {float(row["Computing"]) for row in rows} == {6500.0}


def test_compare_accepts_two_results(results, tmp_path):
    told = run("compare", "-d", results[0], "-bp", results[1], "-o", tmp_path / "out")
    assert list((tmp_path / "out").glob("*.xlsx"))
    # 20 steps of 6.5 ms computing and 3.5 ms free, and 100 ms of compiling, against one step less
    assert "0.130s" in told and "0.300s" in told and "0.290s" in told
    assert "Can't find any torch op" not in told
