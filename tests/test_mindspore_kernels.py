"""MindSpore's kernels: as many and as long as its own recorder says, drained while the job runs."""

import csv
import json
import os
import signal
import subprocess
import sys
from collections import Counter, defaultdict

import pytest
from conftest import PROGRAMS, environment, eventually

NETWORKS = PROGRAMS / "networks.py"
#: runs a program as if we were not installed, so that MindSpore's own collector finds the variable
WITHOUT_US = """
import runpy, sys
sys.argv = sys.argv[1:]
sys.meta_path[:] = [finder for finder in sys.meta_path if not type(finder).__module__.startswith("ms_profiler")]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
MODES = ["graph", "pynative"]


def executions(folder):
    """Return name -> durations in ms, as text, of one window or of MindSpore's own FRAMEWORK folder."""
    found = defaultdict(list)
    for line in (folder / "cpu_op_execute_timestamp_0.txt").read_text().splitlines():
        name, _, times = line.split(";")
        found[name] += [item.split(",")[1] for item in times.split()]
    return found


def windows(result):
    return sorted(path for path in result.glob("FRAMEWORK/process_*/kernels/*") if os.listdir(path))


def counts_of(folders):
    total = Counter()
    for folder in folders:
        total.update({name: len(times) for name, times in executions(folder).items()})
    return total


def own_counts(kind, mode, steps, tmp_path):
    """Return kernel names and counts of a run under MindSpore's own variable."""
    output = tmp_path / "own"
    subprocess.run(
        [sys.executable, "-c", WITHOUT_US, str(NETWORKS), kind, mode, str(steps)],
        env=environment({"start": True, "output_path": str(output)}),
        check=True,
        capture_output=True,
        cwd=tmp_path,
    )
    (folder,) = output.glob("*_ascend_ms/FRAMEWORK")
    return counts_of([folder])


def check_against_own(job, tmp_path, kind, mode, steps, bound):
    run = job(NETWORKS, kind, mode, str(steps), options={"op_flush": 500, "overhead_budget": 0}, timeout=3000)
    assert run.code == 0, run.err
    folders = windows(run.result)
    assert len(folders) > 2
    assert counts_of(folders) == own_counts(kind, mode, steps, tmp_path)
    summary = run.summary
    assert summary["kernels"]["count"] == sum(counts_of(folders).values())
    assert summary["kernels"]["bound_share"] >= bound
    check_totals(run.result, folders)


def check_totals(result, folders):
    """Compare op_statistic.csv with the totals that MindSpore wrote beside the executions, to their precision."""
    theirs, precision = defaultdict(float), defaultdict(float)
    for folder in folders:
        with (folder / "cpu_op_type_info_0.csv").open() as stream:
            for row in csv.DictReader(stream):
                total = float(row["total_compute_time"]) * 1e3
                theirs[row["op_type"]] += total
                precision[row["op_type"]] += total * 5e-6 + 5e-4  # six digits, and three decimals of ours
    with (result / "ASCEND_PROFILER_OUTPUT" / "op_statistic.csv").open() as stream:
        ours = {row["OP Type"]: float(row["Total Time(us)"]) for row in csv.DictReader(stream)}
    assert ours.keys() == theirs.keys()
    for kind, total in theirs.items():
        assert abs(ours[kind] - total) <= precision[kind], kind


@pytest.mark.parametrize("mode", MODES)
def test_kernels_are_those_of_mindspores_own_recorder(job, tmp_path, mode):
    check_against_own(job, tmp_path, "mlp", mode, 100, {"graph": 0.95, "pynative": 0.8}[mode])


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["resnet", "transformer"])
def test_kernels_of_real_networks(job, tmp_path, kind, mode):
    check_against_own(job, tmp_path, kind, mode, 200, {"graph": 0.95, "pynative": 0.8}[mode])


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_many_drains_lose_no_kernel(job, tmp_path, mode):
    options = {"op_flush": 60, "overhead_budget": 0, "analyse": "off"}
    run = job(NETWORKS, "mlp", mode, "1000", options=options, env={"MALLOC_CHECK_": "3"}, timeout=600)
    assert run.code == 0, run.err
    folders = windows(run.result)
    assert len(folders) >= 200
    assert counts_of(folders) == own_counts("mlp", mode, 1000, tmp_path)


def test_kill_loses_the_window_that_was_open_and_says_so(tmp_path):
    options = {"start": True, "output_path": str(tmp_path), "op_flush": 1000, "overhead_budget": 0}
    with subprocess.Popen(
        [sys.executable, str(NETWORKS), "mlp", "graph", "1000000"],
        env=environment(options),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as job:
        eventually(lambda: list(tmp_path.glob("*/FRAMEWORK/*/kernels/000015")), 120)
        job.kill()
    (result,) = tmp_path.glob("*_ascend_ms")
    assert job.returncode == -signal.SIGKILL
    subprocess.run([sys.executable, "-m", "ms_profiler", "analyse", str(result)], env=environment(), check=True)
    summary = json.loads((result / "summary.json").read_text())
    assert len(summary["completeness"]["lost_windows"]) == 1
    with (result / "ASCEND_PROFILER_OUTPUT" / "kernel_details.csv").open() as stream:
        steps = {row["Step ID"] for row in csv.DictReader(stream)} - {""}
    assert len(steps) >= 0.9 * summary["steps"]["count"]


def test_scripts_own_profiler_gets_what_it_would_have_got(job, tmp_path):
    script = tmp_path / "own.py"
    program = (
        NETWORKS.read_text()
        .replace(
            "for _ in range(steps):", "profiler = ms.profiler.profile(start_profile=False)\nfor _ in range(steps):"
        )
        .replace(
            "    loss = train(data, labels)",
            "    if _ == 3:\n        profiler.start()\n    loss = train(data, labels)\n    if _ == 7:\n"
            "        loss.asnumpy()\n        profiler.stop()",
        )
    )
    script.write_text(program)
    counted = []
    for ours in (False, True):
        run = job(script, "mlp", "graph", "12", profile=ours, options={"output_path": str(tmp_path / "ours")})
        assert run.code == 0, run.err
        own = [path for path in (tmp_path / "data").glob("*_ascend_ms") if (path / "FRAMEWORK").is_dir()]
        counted.append(counts_of([own[-1] / "FRAMEWORK"]))
        for path in own:
            path.rename(tmp_path / f"own{len(counted)}")
    assert counted[0] == counted[1] and sum(counted[0].values()) > 0
