"""Tensor memory comes from MindSpore's recorder, and is cut to the steps of the recording that requests it."""

import json

import polars as pl
import pytest
from conftest import PROGRAMS
from csv_rows import rows
from ms_profiler.analysis.metrics import memory
from ms_profiler.analysis.metrics.steps import Steps
from ms_profiler.analysis.model import tables
from ms_profiler.analysis.report import terminal
from ms_profiler.store.format import StepSource
from test_api_profile import in_every_mode, kernels, numbers, results, start, summary


def lines(result):
    return rows(result, "memory_record")


@pytest.mark.slow
@in_every_mode
def test_only_the_recording_with_the_option_has_memory(job, tmp_path, way, mode):
    run = start(job, way, "own_memory.py", mode)
    assert run.code == 0, run.err
    (own,) = results(tmp_path / "own")
    assert numbers(own) == [3, 4]
    found, rows = summary(own), lines(own)
    assert found["memory"]["records"] == len(rows) > 20
    assert found["memory"]["peak_step"] in (3, 4)
    times = [float(row["Timestamp(us)"]) for row in rows]
    trace = json.loads((own / "ASCEND_PROFILER_OUTPUT" / "trace_view.json").read_text())
    spans = [event for event in trace if event["name"].startswith("ProfilerStep#")]
    assert min(times) >= min(float(span["ts"]) for span in spans) - 1
    assert max(times) <= max(float(span["ts"]) + float(span["dur"]) for span in spans) + 1
    assert times == sorted(times)
    # The job holds at least the hidden layer's activations of one batch: 32 x 128 x 4 bytes.
    assert max(float(row["Total Allocated(MB)"]) for row in rows) >= 32 * 128 * 4 / 2**20
    assert {(row["Component"], row["Device Type"]) for row in rows} == {("MindSpore", "CPU")}
    if way == "variable":
        everything = run.result
        assert numbers(everything) == list(range(8))
        assert kernels(everything) > 3 * kernels(own)
        assert summary(everything)["memory"] is None
        assert not (everything / "ASCEND_PROFILER_OUTPUT" / "memory_record.csv").exists()


@pytest.mark.slow
def test_windows_add_up_to_one_record(job):
    run = job(PROGRAMS / "networks.py", "mlp", "graph", "30", options={"profile_memory": True, "op_flush": 50})
    assert run.code == 0, run.err
    windows = list(run.result.glob("FRAMEWORK/process_*/kernels/*"))
    (kept,) = run.result.glob("FRAMEWORK/process_*/kernels/*/cpu_ms_memory_record_*")
    assert len(windows) > 10
    assert len(lines(run.result)) == kept.read_text().count("\n") - 1
    assert summary(run.result)["completeness"]["damaged_memory"] == 0


def test_peak_and_end_of_each_step():
    rows = [(1, 5, 900), (1, 10, 30), (1, 15, 50), (1, 20, 40), (1, 31, 70), (2, 12, 800), (1, 40, 999)]
    table = pl.DataFrame(
        [(process, time, size, 1 << 30, size) for process, time, size in rows], schema=tables.MEMORY, orient="row"
    )
    known = [
        (1, 1, 7, 10, 20, 0, True, "all", 0),
        (1, 1, 8, 20, 30, 0, False, "times", 0),
        (1, 1, 9, 30, 40, 0, True, "all", 0),
        (1, 1, 10, 40, 50, 0, False, "coarse", 0),
    ]
    used = Steps(1, 1, StepSource.SCRIPT, pl.DataFrame(known, schema=tables.STEPS, orient="row"))
    # the peaks and ends of a step that is not sampled are recorded, too
    assert memory.by_step(table, used).rows() == [(7, 50, 50), (9, 70, 70), (10, 999, 999)]


@pytest.mark.parametrize(
    ("peak", "step_peak", "owned", "texts"),
    [
        (30.0, 30.0, 30.0, ["at most 30.00 MiB, in step 9;", "peak 30.00 MiB in step 4, 20.00 MiB of it other"]),
        (
            40.0,
            40.0,
            30.0,
            [
                "at most 40.00 MiB, in step 9;",
                "owners are known in sampled steps only; the highest peak 30.00 MiB in step 4",
            ],
        ),
        (
            50.0,
            40.0,
            40.0,
            ["at most 50.00 MiB, outside of the recorded steps; in these at most 40.00 MiB, in step 9;"],
        ),
    ],
    ids=["sampled", "not sampled", "outside"],
)
def test_a_peak_and_its_step_are_of_the_same_moment(peak, step_peak, owned, texts):
    largest = {"kind": "other", "module": None, "operator": None, "mb": 20.0}
    found = {
        "component": "PyTorch",
        "peak_mb": peak,
        "peak_step": 9,
        "peak_step_mb": step_peak,
        "first_step_end_mb": 1.0,
        "last_step_end_mb": 2.0,
        "at_peak": {"step": 4, "allocated_mb": owned, "largest": largest, "kinds": [{"kind": "other", "mb": 20.0}]},
    }
    printed = "\n".join(terminal._memory(found, None))
    assert all(text in printed for text in texts)
