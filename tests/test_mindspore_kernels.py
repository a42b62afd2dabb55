"""MindSpore's kernels have the counts and times of its own recorder, which is emptied while the job runs."""

import csv
import json
import os
import signal
import subprocess
import sys
from collections import Counter, defaultdict

import pytest
from conftest import PROGRAMS, ROOT, environment, eventually
from csv_rows import rows

NETWORKS = PROGRAMS / "networks.py"
#: program that runs another program as if ms-profiler were not installed, so that MindSpore's own collector runs
WITHOUT_US = """
import runpy, sys
sys.argv = sys.argv[1:]
sys.meta_path[:] = [finder for finder in sys.meta_path if not type(finder).__module__.startswith("ms_profiler")]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
MODES = ["graph", "pynative"]
#: With AVX-512, oneDNN 3.10 takes 25 times as long for convolutions of two images: 12 s for a step of ResNet-18.
FAST = {"ONEDNN_MAX_CPU_ISA": "AVX2"}


def executions(folder):
    """Return {kernel: durations in ms, as texts} of a window, or of the FRAMEWORK folder of MindSpore's collector."""
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
    """Return {kernel: count} of a run under MindSpore's own collector."""
    output = tmp_path / "own"
    subprocess.run(
        [sys.executable, "-c", WITHOUT_US, str(NETWORKS), kind, mode, str(steps)],
        env=environment({"start": True, "output_path": str(output)}) | FAST,
        check=True,
        capture_output=True,
        cwd=tmp_path,
    )
    (folder,) = output.glob("*_ascend_ms/FRAMEWORK")
    return counts_of([folder])


def check_against_own(job, tmp_path, kind, mode, steps, bound):
    options = {"op_flush": 5 * steps, "overhead_budget": 0}
    run = job(NETWORKS, kind, mode, str(steps), options=options, env=FAST, timeout=3000)
    assert run.code == 0, run.err
    folders = windows(run.result)
    assert len(folders) > 2
    assert counts_of(folders) == own_counts(kind, mode, steps, tmp_path)
    found = run.summary["kernels"]
    assert found["count"] == sum(counts_of(folders).values())
    assert (found["bound"]["module"] + found["bound"]["primitive"]) / found["count"] >= bound
    assert (found["bound_by_order"] > 0) == (mode == "pynative")
    check_totals(run.result, folders)


def check_totals(result, folders):
    """Compare op_statistic.csv with MindSpore's own totals of the same executions, to their precision."""
    theirs, precision = defaultdict(float), defaultdict(float)
    for folder in folders:
        with (folder / "cpu_op_type_info_0.csv").open() as stream:
            for row in csv.DictReader(stream):
                total = float(row["total_compute_time"]) * 1e3
                theirs[row["op_type"]] += total
                # MindSpore's totals have six digits, and so has each execution that our total sums up. Our total has
                # three decimals.
                precision[row["op_type"]] += total * 1e-5 + 5e-4
    ours = {row["OP Type"]: float(row["Total Time(us)"]) for row in rows(result, "op_statistic")}
    assert ours.keys() == theirs.keys()
    for kind, total in theirs.items():
        assert abs(ours[kind] - total) <= precision[kind], kind


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["graph", "pynative"])
def test_kernels_are_those_of_mindspores_own_recorder(job, tmp_path, mode):
    check_against_own(job, tmp_path, "mlp", mode, 30, {"graph": 0.95, "pynative": 0.8}[mode])


def own_modules(rows):
    """Return the module of each backward kernel in backward.py that its type and shape determine; None for others.

    Products have no shapes. They belong to the layer whose bias gradient comes before them, up to the gradient of an
    activation.
    """
    named = {"ReluGrad": "relu", "TanhGrad": "left.activation", "SigmoidGrad": "right.activation"}
    layers = {width: f"dense{width}" for width in (11, 19, 23, 3, 5)} | {13: "left.dense13", 17: "right.dense17"}
    found, layer = [], None
    for row in rows:
        if row["Type"] == "BiasAddGrad":
            layer = layers[int(row["Input Shapes"].strip('"').split(";")[0].split(",")[1])]
        elif row["Type"] != "MatMul":
            layer = None
        found.append(layer or named.get(row["Type"]) or ("norm" if row["Type"] == "LayerNormGrad" else None))
    return [name and f"Net.{name}" for name in found]


@pytest.mark.slow
def test_shapes_give_the_modules_of_backward_kernels(job):
    run = job(PROGRAMS / "backward.py", "6")
    assert run.code == 0, run.err
    details = rows(run.result, "kernel_details")
    known, exact = Counter(), Counter()
    for row, true in zip(details, own_modules(details), strict=True):
        if true is not None:
            known[row["Type"]] += 1
            exact[row["Type"]] += row["Module"] == true
            assert row["Module"] == "N/A" or f"{true}.".startswith(f"{row['Module']}."), (row, true)
            assert row["Module Binding"] == ("N/A" if row["Module"] == "N/A" else "by order")
    assert known.keys() == {"ReluGrad", "TanhGrad", "SigmoidGrad", "LayerNormGrad", "BiasAddGrad", "MatMul"}
    assert all(exact[kind] >= 0.8 * count for kind, count in known.items()), (known, exact)
    updates = [row for row in details if row["Type"] == "ApplyMomentum"]
    layers = {f"Net.dense{width}" for width in (11, 19, 23, 3, 5)} | {
        "Net.left.dense13",
        "Net.right.dense17",
        "Net.norm",
    }
    assert {row["Module"] for row in updates} == layers
    assert {row["Module Binding"] for row in updates} == {"by parameter"}
    found = run.summary["kernels"]
    assert found["bound_by_order"] == sum(row["Module Binding"] == "by order" for row in details)
    trace = json.loads((run.result / "ASCEND_PROFILER_OUTPUT" / "trace_view.json").read_text())
    events = [event["args"] for event in trace if event.get("args", {}).get("bound") == "by order"]
    assert len(events) == found["bound_by_order"] and all("module" in arguments for arguments in events)


def test_additions_belong_to_the_cells_that_add(job):
    bare = job(PROGRAMS / "residual_mindspore.py", profile=False)
    run = job(PROGRAMS / "residual_mindspore.py", options={"overhead_budget": 0}, env={"MS_PROFILER_RAISE": "1"})
    assert (run.code, run.out) == (0, bare.out), run.err
    details = [row for row in rows(run.result, "kernel_details") if row["Step ID"] not in ("", "0")]
    net = "TrainOneStepCell.network._backbone"
    additions = Counter(row["Module"] for row in details if row["Type"] == "AddExt")
    assert additions == {net: 11, f"{net}.first": 11, f"{net}.second": 11}
    products = [row for row in rows(run.result, "kernel_details") if row["Type"] == "MatMul"]
    exact = Counter(row["Module"] for row in products if row["Module Binding"] == "exact")
    # 12 steps and 12 evaluations
    assert exact == (layers := {f"{net}.{path}": 24 for path in ("first.fc", "second.fc", "side", "head")})
    # each layer has a weight and a bias
    assert Counter(row["Module"] for row in rows(run.result, "kernel_details") if row["Type"] == "SGD") == layers


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


@pytest.mark.slow
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
    steps = {row["Step ID"] for row in rows(result, "kernel_details")} - {""}
    assert len(steps) >= 0.9 * summary["steps"]["count"]


@pytest.mark.slow
def test_mindspores_own_profiler_gets_the_kernels_unless_it_is_replaced(job, tmp_path):
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
    ours = "import ms_profiler\nrecorded = ms_profiler.profile(\n"
    ours += "    on_trace_ready=ms_profiler.tensorboard_trace_handler('ours')\n)\n"
    counted = []
    for beginning in ("", ours):
        script.write_text(beginning + program)
        run = job(script, "mlp", "graph", "12", profile=False)
        assert run.code == 0, run.err
        own = [path for path in (tmp_path / "data").glob("*_ascend_ms") if (path / "FRAMEWORK").is_dir()]
        counted.append(counts_of([own[-1] / "FRAMEWORK"]))
        for path in own:
            path.rename(tmp_path / f"own{len(counted)}")
    assert counted[0] == counted[1] and sum(counted[0].values()) > 0
    (result,) = (tmp_path / "ours").glob("*_ascend_ms")
    (left_out,) = json.loads((result / "FRAMEWORK" / "run_info.json").read_text())["not_collected"]
    assert left_out["what"] == "kernels while the script's own profiler runs"


@pytest.mark.slow
def test_the_recorder_is_emptied_before_it_holds_too_much(job):
    """MindSpore's recorder holds the inputs of all steps until it is emptied.

    They are 32 MB in 40 steps here, and gigabytes in larger jobs.
    """
    run = job(PROGRAMS / "kernels_held.py", str(ROOT / "examples" / "train_convnet.py"), "little")
    assert run.code == 0, run.err
    assert int(run.out.rpartition("held")[2]) < 14 << 20
    # a window frees its memory, but the process keeps it, and the next window uses it first
    assert run.summary["kernels"]["windows"] >= 2
    assert run.summary["kernels"]["count"] == 960
    assert run.summary["kernels"]["lost_windows"] == 0


SPENT = """
import mindspore as ms, numpy as np
from mindspore import nn
ms.set_device("CPU")
ms.set_context(mode=ms.PYNATIVE_MODE)
ms.set_seed(1)
net = nn.SequentialCell([nn.Dense(4, 4) for _ in range(12)])
optimizer = nn.SGD(net.trainable_params(), 0.01)
gradient = ms.value_and_grad(lambda x: net(x).sum(), None, optimizer.parameters)
for _ in range(90):
    loss, gradients = gradient(ms.Tensor(np.ones((2, 4), np.float32)))
    optimizer(gradients)
print(float(loss.asnumpy()).hex())
"""


@pytest.mark.slow
def test_that_the_disk_has_had_its_share_is_said_once(job):
    bare = job(SPENT, profile=False)
    schedule = {"wait": 0, "active": 1, "repeat": 90}
    run = job(SPENT, options={"max_disk": "1MB", "op_flush": 100, "overhead_budget": 0, "schedule": schedule})
    assert (run.code, run.out) == (0, bare.out), run.err
    entries = [entry for entry in run.summary["not_collected"] if "max_disk" in entry["why"]]
    (entry,) = (entry for entry in entries if entry["what"].startswith("kernels from step"))
    assert entry["why"] == "max_disk was reached"
    assert sum(bool(os.listdir(folder)) for folder in windows(run.result)) < 90
