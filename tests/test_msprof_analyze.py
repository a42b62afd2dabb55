"""What MindStudio's own command makes of our result directories.

It has an environment of its own inside ours, made by `make test`: it needs numpy 2, and MindSpore numpy 1.
"""

import csv
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from ms_profiler.analysis import engine
from ms_profiler.store.format import Category
from store_builder import MS, ThreadBuilder, compiled, write_training

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


@pytest.fixture
def kernels(tmp_path):
    """The results of two ranks that ran compiled kernels and exchanged gradients."""
    paths = []
    for rank in range(2):
        name = f"host_{rank + 1}_2026010100000012{rank}_ascend_ms"
        store = compiled(tmp_path / "data", name=name, rank=rank, world_size=2, windows=1)
        thread = ThreadBuilder(store.processes[0], 1, "MainThread", 4242)
        thread.instant("group world ranks 0,1", Category.COMMUNICATION, 51 * MS, 2)
        for number in range(20):
            start = (59 + 10 * number) * MS
            thread.span("AllReduce@world", Category.COMMUNICATION, start, start + MS // 2, arg=4_000_000)
            thread.span("MatMul", Category.OP, start - 7 * MS, start - 6 * MS)
        paths.append(store.write())
    engine.analyse(paths)
    return paths


def sheets(folder):
    """Return the number of rows of every sheet of the one workbook below a folder."""
    (file,) = folder.rglob("*.xlsx")
    with zipfile.ZipFile(file) as book:
        names = re.findall(r'<sheet name="([^"]+)"', book.read("xl/workbook.xml").decode())
        rows = [book.read(f"xl/worksheets/sheet{number}.xml").count(b"<row ") for number in range(1, len(names) + 1)]
    return dict(zip(names, rows, strict=True))


def test_cluster_reads_kernels_and_communication_of_both_ranks(kernels, tmp_path):
    told = run("cluster", "-d", kernels[0].parent, "-m", "all", "-o", tmp_path / "out")
    assert "ERROR" not in told
    (file,) = (tmp_path / "out").rglob("cluster_step_trace_time.csv")
    with open(file, newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 40
    times = ("Computing", "Communication", "Overlapped", "Free", "Stage", "Preparing")
    assert {tuple(float(row[name]) for name in times) for row in rows} == {(5500, 500, 0, 4000, 10000, 2000)}
    (file,) = (tmp_path / "out").rglob("cluster_communication.json")
    content = json.loads(file.read_text())
    assert list(content) == ["(0, 1)"] and len(content["(0, 1)"]) == 20
    (file,) = (tmp_path / "out").rglob("cluster_communication_matrix.json")
    matrix = json.loads(file.read_text())["(0, 1)"]["step0"]["allreduce-total@world"]
    assert set(matrix) == {"0-0", "1-1"} and matrix["1-1"]["Transit Size(MB)"] == 4.0


def test_compare_has_kernels_operators_and_communication(kernels, tmp_path):
    told = run("compare", "-d", kernels[0], "-bp", kernels[1], "-o", tmp_path / "out")
    assert "ERROR" not in told
    # 20 steps of 5.5 ms computing and 0.5 ms communication that nothing hides
    assert "0.110s" in told and "0.010s" in told
    found = sheets(tmp_path / "out")
    assert {"OverallMetrics", "KernelCompare", "CommunicationCompare", "OperatorCompare"} <= set(found)
    assert found["KernelCompare"] > 4 and found["CommunicationCompare"] > 2 and found["OperatorCompare"] > 20


def test_advisor_accepts_kernels(kernels, tmp_path):
    told = run("advisor", "all", "-d", kernels[0], "-pt", "mindspore", "-o", tmp_path / "out")
    assert "ERROR" not in told and "110.0ms" in told
