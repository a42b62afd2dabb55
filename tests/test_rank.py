"""Ranks that a script starts itself get separate results, as ranks of a launcher do."""

import json
import re
import subprocess
import sys
from collections import Counter

import pytest
from conftest import PROGRAMS, environment
from csv_rows import rows
from launches import free_port

PROGRAM = PROGRAMS / "spawned_ranks.py"
VARIABLES = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}


def called(run, rank):
    """Return {operator: number of calls} of a rank."""
    (info,) = run.output.glob(f"*_ascend_ms/profiler_info_{rank}.json")
    return Counter({row["API Name"]: int(row["Count"]) for row in rows(info.parent, "api_statistic")})


@pytest.mark.slow
def test_each_rank_has_a_result_of_its_own(job):
    """One test checks everything, because the programs together take half a minute."""
    run = job(PROGRAM, "2", str(free_port()), env=VARIABLES, options={"analyse": "sync"})
    assert run.code == 0, run.err
    bare = subprocess.run(
        [sys.executable, PROGRAM, "2", str(free_port())],
        env=environment(**VARIABLES),
        capture_output=True,
        text=True,
        check=True,
    )
    found = [json.loads(path.read_text()) for path in run.output.glob("*_ascend_ms/summary.json")]
    summaries = {summary["rank"]: summary for summary in found}
    assert sorted(summaries) == [0, 1] and len(list(run.output.iterdir())) == 2
    assert [summaries[rank]["world_size"] for rank in range(2)] == [2, 2]
    assert [summaries[rank]["steps"]["count"] for rank in range(2)] == [6, 6]
    for summary in summaries.values():
        assert called(run, summary["rank"])["aten::addmm"] == 6
    for rank in range(2):
        assert len(list(run.output.glob(f"*_ascend_ms/profiler_info_{rank}.json"))) == 1
    # the parent's records are in the result of rank 0, whose process has its own result
    (own,) = [path.parent for path in run.output.glob("*_ascend_ms/profiler_info_0.json")]
    ends = sorted(json.loads(path.read_text())["end"] for path in own.glob("FRAMEWORK/process_*/*.json"))
    assert ends == ["became rank 1 of 2", "exit", "exit"]
    assert [called(run, rank)["aten::tanh"] for rank in range(2)] == [1, 0]
    # The job computes and prints the same as without the profiler. The ranks may print into each other's lines.
    times = re.compile(r"(?:parent|rank \d) -?\d+\.\d{9}")
    assert sorted(times.findall(run.out)) == sorted(times.findall(bare.stdout)) and len(times.findall(bare.stdout)) == 3
    lines = run.err.splitlines()
    assert len(lines) == 2 and all(line.startswith("ms-profiler: ") for line in lines)


@pytest.mark.slow
def test_a_rank_that_was_not_chosen_records_no_more(job):
    run = job(PROGRAM, "2", str(free_port()), env=VARIABLES, options={"ranks": "0", "analyse": "sync"})
    assert run.code == 0, run.err
    (path,) = run.output.glob("*_ascend_ms")
    assert json.loads((path / "summary.json").read_text())["steps"]["count"] == 6
