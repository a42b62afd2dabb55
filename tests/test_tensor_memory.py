"""The summary has the right sums, peaks, owners and growth of PyTorch's memory, for a job with known allocations."""

import json
import subprocess
import sys

import pytest
from conftest import PROGRAMS, environment, launcher
from csv_rows import rows

MB = 1 << 20
STEPS = 40


@pytest.fixture(scope="module")
def leaking(tmp_path_factory):
    run = launcher(tmp_path_factory.mktemp("leaking"))(
        PROGRAMS / "tensor_memory.py", "leak", str(STEPS), options={"profile_memory": True, "overhead_budget": 0}
    )
    assert run.code == 0, run.err
    return run


@pytest.fixture(scope="module")
def known(leaking):
    return json.loads(leaking.out)


def test_the_sum_at_the_end_is_that_of_the_known_tensors(leaking, known):
    # the parameters, and the optimizer's two moments of each
    expected = 3 * known["parameters"] + known["source"] + known["kept"]
    last = leaking.summary["memory"]["last_step_end_mb"] * MB
    # The last step ends after its update: its gradients still exist, and its copy of the source does not exist yet.
    expected += known["parameters"] - known["source"]
    assert last == pytest.approx(expected, rel=0.01)


def test_the_peak_is_where_the_big_tensor_was(leaking, known):
    memory = leaking.summary["memory"]
    assert memory["component"] == "PyTorch"
    assert memory["peak_step"] == 11
    held = 3 * known["parameters"] + known["source"] + 10 * MB + known["big"]
    assert memory["peak_mb"] * MB == pytest.approx(held, rel=0.01)
    counters = [float(row["Total Allocated(MB)"]) for row in rows(leaking.result, "memory_record")]
    assert max(counters) == pytest.approx(memory["peak_mb"], abs=1e-6)


def test_the_memory_at_the_peak_has_its_kinds_and_modules(leaking, known):
    found = leaking.summary["memory"]["at_peak"]
    kinds = {row["kind"]: row["mb"] * MB for row in found["kinds"]}
    assert kinds["parameters"] == pytest.approx(known["parameters"], rel=0.01)
    assert kinds["optimizer state"] == pytest.approx(2 * known["parameters"], rel=0.01)
    owners = {(row["kind"], row["module"]) for row in found["owners"]}
    assert ("parameters", "Net.blocks.3.up") in owners
    assert (found["largest"]["kind"], found["largest"]["operator"]) == ("other", "aten::ones")
    assert sum(kinds.values()) == pytest.approx(found["allocated_mb"] * MB)


def test_the_summary_has_a_line_with_the_peak(leaking):
    command = [sys.executable, "-m", "ms_profiler", "summary", str(leaking.result)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, env=environment()).stdout
    peak = f"peak {leaking.summary['memory']['peak_mb']:,.2f} MiB in step 11"
    assert f"Memory of tensors: {peak}" in " ".join(printed.split())


def test_each_block_has_its_operator(leaking, known):
    table = rows(leaking.result, "operator_memory")
    (big,) = [row for row in table if float(row["Size(KB)"]) == known["big"] / 1024]
    assert big["Name"] == "aten::ones"
    assert big["Release Time(us)"] != "N/A"
    copies = [row for row in table if row["Name"] == "aten::clone" and float(row["Size(KB)"]) == 1024]
    assert len(copies) == STEPS


def test_the_leak_is_found_with_its_operator(leaking):
    (advice,) = [item for item in leaking.summary["advice"] if item["cause"] == "memory-growth"]
    assert "the memory of tensors is 1.0 MiB more after each step" in advice["evidence"]
    assert "100 % of it was allocated by aten::clone" in advice["evidence"]
    lines = (PROGRAMS / "tensor_memory.py").read_text().splitlines()
    line = next(number for number, text in enumerate(lines, 1) if "kept.append" in text)
    assert f"called from main at {PROGRAMS / 'tensor_memory.py'}:{line}" in advice["evidence"]


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["plateau", "plain"])
def test_a_plateau_is_no_leak(job, mode):
    run = job(PROGRAMS / "tensor_memory.py", mode, str(STEPS), options={"profile_memory": True})
    assert run.code == 0, run.err
    assert "memory-growth" not in {item["cause"] for item in run.summary["advice"]}


@pytest.mark.slow
def test_the_activations_of_the_wide_block_are_most_of_the_peak(job):
    program = (
        (PROGRAMS / "tensor_memory.py").read_text().replace("step == 10", "False").replace("128, 256", "128, 4096")
    )
    run = job(program, "plain", str(STEPS), options={"profile_memory": True})
    found = run.summary["memory"]["at_peak"]["largest"]
    # the block's output and the gradient of it have the same size
    assert found["module"] == "Net.blocks.3" and found["kind"] in ("activations", "temporaries")
    # the output of the wide layer, and the output of the tanh behind it
    assert found["mb"] == pytest.approx(2 * 4096 * 2048 * 4 / MB, rel=0.2)
